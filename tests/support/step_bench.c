#include "support/step_bench.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/operand.h"

/* Address space; products on a GPU want workspaces of some size. */
enum { POOL_BYTES = 1 << 30 };

static void expect(dyno_status status) {
    if (status != DYNO_OK)
        fail_msg("%s", dyno_error_message());
}

static step_bench create(device *d, const model_config *config, plan *p, uint64_t seed,
                         bool is_recording) {
    step_bench b = {.config = *config, .p = p};
    expect(memory_pool_create(d, POOL_BYTES, &b.pool));
    if (is_recording)
        memory_pool_start_recording(b.pool);
    b.shared = storage_create(b.pool);
    expect(executor_create(p, b.pool, b.shared, &b.e));
    small_model_fill(b.e, b.shared, config, seed);
    return b;
}

step_bench step_bench_create(const model_config *config, plan *p, uint64_t seed,
                             bool is_recording) {
    return create(device_cpu(), config, p, seed, is_recording);
}

step_bench step_bench_create_on(device *d, const step_options *options, uint64_t seed) {
    step_options here = *options;
    here.pipeline.target = &d->target;
    plan *p;
    expect(step_plan_create(&here, &p));
    return create(d, &options->config, p, seed, false);
}

void step_bench_stop(step_bench *b) {
    executor_destroy(b->e);
    storage_destroy(b->shared);
    b->e = NULL;
    b->shared = NULL;
}

void step_bench_destroy(step_bench *b) {
    step_bench_stop(b);
    memory_pool_destroy(b->pool);
    plan_destroy(b->p);
}

void step_bench_run(step_bench *b) { expect(executor_run(b->e, NULL, NULL)); }

tensor step_bench_read(const step_bench *b, const char *name) {
    tensor t = executor_find(b->e, name);
    if (!t.data)
        return t;
    assert_true(tensor_is_contiguous(&t));
    int64_t bytes = tensor_bytes(&t);
    t.data = memory_allocate((size_t)bytes, 1);
    expect(executor_read(b->e, name, t.data, bytes));
    return t;
}

double *step_bench_read_doubles(const step_bench *b, const char *name, int64_t *count) {
    tensor t = step_bench_read(b, name);
    if (!t.data)
        return NULL;
    double *numbers = tensor_to_doubles(&t);
    *count = shape_elements(&t.shape);
    free(t.data);
    return numbers;
}

void expect_same_names(const step_bench *a, const step_bench *b) {
    for (int i = 0; i < a->p->name_count; i++) {
        const char *name = a->p->names[i].name;
        tensor x = step_bench_read(a, name), y = step_bench_read(b, name);
        assert_non_null(x.data);
        assert_non_null(y.data);
        assert_true(tensor_bytes(&x) == tensor_bytes(&y));
        if (memcmp(x.data, y.data, (size_t)tensor_bytes(&x)) != 0)
            fail_msg("'%s' is not the same", name);
        free(x.data);
        free(y.data);
    }
}
