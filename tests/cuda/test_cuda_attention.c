/* test_cuda_attention.c - attention alone on a GPU, with every kernel and variant, against the
 * CPU; and what `dyno attention` plans with. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "experiments/attention_sweep.h"
#include "ops/op_list.h"
#include "support/device_bench.h"
#include "support/expect.h"
#include "support/graph_pass.h"
#include "support/numbers.h"
#include "support/operand.h"

enum { POOL_BYTES = 1 << 28, OUTPUTS = 4 };
static const char *const output_names[OUTPUTS] = {"O", "g.Q", "g.K", "g.V"};

/* O and the gradients, in double. */
typedef struct answer {
    double *of[OUTPUTS];
    int64_t count[OUTPUTS];
} answer;

static answer run(device *d, const attention_plan_options *wanted) {
    attention_plan_options options = *wanted;
    options.target = &d->target;
    plan *p;
    expect_ok(attention_plan_flash(&options, &p));
    memory_pool *pool;
    expect_ok(memory_pool_create(d, POOL_BYTES, &pool));
    storage *shared = storage_create(pool);
    executor *e;
    expect_ok(executor_create(p, pool, shared, &e));
    expect_ok(attention_fill(e, 1));
    answer a;
    for (int i = 0; i < 2; i++)
        expect_ok(executor_run(e, NULL, NULL));
    for (int i = 0; i < OUTPUTS; i++) {
        tensor t = executor_find(e, output_names[i]);
        int64_t bytes = tensor_bytes(&t);
        void *host = malloc((size_t)bytes);
        expect_ok(executor_read(e, output_names[i], host, bytes));
        t.data = host;
        a.of[i] = tensor_to_doubles(&t);
        a.count[i] = shape_elements(&t.shape);
        free(host);
    }
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    plan_destroy(p);
    return a;
}

static void release(answer *a) {
    for (int i = 0; i < OUTPUTS; i++)
        free(a->of[i]);
}

enum { MOST_CHOICES = 80 };

/* "kernel:variant" of every kernel that takes the operands, and of each of its variants. */
typedef struct choices {
    char name[MOST_CHOICES][64];
    int count;
} choices;

static choices list_choices(device *d, const attention_plan_options *wanted, bool is_gradient) {
    attention_plan_options options = *wanted;
    options.target = &d->target;
    plan *p;
    launch_layouts at;
    choices all = {.count = 0};
    expect_ok(attention_plan_flash(&options, &p));
    const plan_launch *l = attention_find_launch(p, is_gradient);
    assert_non_null(l);
    choose_kernel_describe(p, l, &at);
    for (const kernel *const *k = op_find(l->op_name)->kernels; *k; k++) {
        kernel_variant variants[KERNEL_MOST_VARIANTS];
        if ((*k)->target != d->target.kind || kernel_reject(*k, &at.args))
            continue;
        int count = (*k)->variants ? (*k)->variants(&at.args, variants) : 0;
        snprintf(all.name[all.count++], sizeof *all.name, "%s", (*k)->name);
        for (int i = 0; i < count; i++)
            snprintf(all.name[all.count++], sizeof *all.name, "%.39s:%.23s", (*k)->name,
                     variants[i].name);
        assert_true(all.count + KERNEL_MOST_VARIANTS < MOST_CHOICES);
    }
    plan_destroy(p);
    return all;
}

static void every_kernel_and_variant_agrees_with_the_cpu(void **state) {
    device *d = device_bench_open(state);
    static const struct {
        attention_shape shape;
        precision math;
    } cases[] = {{{1, 300, 4, 2, 64}, PRECISION_BF16},  {{2, 129, 2, 2, 128}, PRECISION_FP16},
                 {{1, 1000, 2, 1, 80}, PRECISION_BF16}, {{1, 200, 2, 2, 32}, PRECISION_BF16},
                 {{1, 150, 2, 2, 256}, PRECISION_BF16}, {{1, 333, 6, 2, 256}, PRECISION_FP16},
                 {{2, 129, 2, 1, 136}, PRECISION_BF16}, {{1, 200, 2, 2, 160}, PRECISION_FP16},
                 {{1, 260, 4, 4, 192}, PRECISION_BF16}, {{1, 257, 2, 2, 64}, PRECISION_FP32},
                 {{1, 777, 1, 1, 16}, PRECISION_BF16},  {{1, 300, 2, 1, 128}, PRECISION_FP32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        /* Where time is short, every other case has a mask. */
        for (int causal = device_bench_rounds(0, i % 2); causal < 2;
             causal += device_bench_rounds(1, 2)) {
            attention_plan_options options = {.shape = cases[i].shape,
                                              .is_causal = causal,
                                              .extent = STEP_BACKWARD,
                                              .mode = STEP_COMPILED,
                                              .precision = cases[i].math};
            answer want = run(device_cpu(), &options);
            choices forward = list_choices(d, &options, false);
            choices backward = list_choices(d, &options, true);
            int rounds = forward.count > backward.count ? forward.count : backward.count;
            for (int at = 0; at <= rounds; at++) { /* the last: nothing is wanted */
                options.forward = at < forward.count ? forward.name[at] : NULL;
                options.backward = at < backward.count ? backward.name[at] : NULL;
                answer got = run(d, &options);
                for (int j = 0; j < OUTPUTS; j++) {
                    double error = relative_error(got.of[j], want.of[j], want.count[j]);
                    double limit = cases[i].math == PRECISION_FP32 ? 1e-4 : 0.02;
                    if (!(error < limit))
                        fail_msg("%s by %s and %s, head size %lld, causal %d: off by %g",
                                 output_names[j], options.forward ? options.forward : "auto",
                                 options.backward ? options.backward : "auto",
                                 (long long)options.shape.head_dim, causal, error);
                }
                release(&got);
            }
            release(&want);
        }
}

static void a_variant_that_no_kernel_has_is_refused(void **state) {
    device *d = device_bench_open(state);
    attention_plan_options options = {.shape = {1, 64, 1, 1, 64},
                                      .extent = STEP_BACKWARD,
                                      .precision = PRECISION_BF16,
                                      .target = &d->target,
                                      .forward = "7x9"};
    plan *p;
    expect_failure(attention_plan_flash(&options, &p), DYNO_UNSUPPORTED, "has no variant 7x9");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_and_variant_agrees_with_the_cpu),
        cmocka_unit_test(a_variant_that_no_kernel_has_is_refused),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
