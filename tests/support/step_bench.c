#include "support/step_bench.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_BYTES = 1 << 26 };

static void expect(dyno_status status) {
    if (status == DYNO_OK)
        return;
    fprintf(stderr, "%s\n", dyno_error_message());
    abort();
}

step_bench step_bench_create(const model_config *config, plan *p, uint64_t seed,
                             bool is_recording) {
    step_bench b = {.config = *config, .p = p};
    expect(memory_pool_create(device_cpu(), POOL_BYTES, &b.pool));
    if (is_recording)
        memory_pool_start_recording(b.pool);
    b.shared = storage_create(b.pool);
    expect(executor_create(p, b.pool, b.shared, &b.e));
    small_model_fill(b.e, b.shared, config, seed);
    return b;
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

void expect_same_names(const step_bench *a, const step_bench *b) {
    for (int i = 0; i < a->p->name_count; i++) {
        const char *name = a->p->names[i].name;
        tensor x = executor_find(a->e, name), y = executor_find(b->e, name);
        assert_non_null(x.data);
        assert_non_null(y.data);
        assert_true(tensor_is_contiguous(&x) && tensor_is_contiguous(&y));
        if (memcmp(x.data, y.data, (size_t)tensor_bytes(&x)) != 0)
            fail_msg("'%s' is not the same", name);
    }
}
