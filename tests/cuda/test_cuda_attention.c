/* test_cuda_attention.c - attention alone on a GPU, with every tile its kernels have, against the
 * CPU; and what `dyno attention` plans with. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "experiments/attention_plan.h"
#include "runtime/device_tiles.h"
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

static answer run(device *d, const attention_plan_options *wanted, const device_tiles *tiles) {
    attention_plan_options options = *wanted;
    options.target = d->backend;
    options.tiles.source = device_tiles_source(tiles);
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

static int list_tiles(device *d, const attention_plan_options *wanted, const device_tiles *tiles,
                      bool is_gradient, kernel_tile *out) {
    attention_plan_options options = *wanted;
    options.target = d->backend;
    plan *p;
    tiled_launch at;
    expect_ok(attention_plan_flash(&options, &p));
    assert_true(find_tiled_launch(p, is_gradient, &at));
    const tile_source *source = device_tiles_source(tiles);
    int count = source->list(source, at.kernel, &at.args, out);
    plan_destroy(p);
    return count;
}

static void every_tile_agrees_with_the_cpu(void **state) {
    device *d = device_bench_open(state);
    device_tiles *tiles = device_tiles_create(d), *own = device_tiles_create(device_cpu());
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
            answer want = run(device_cpu(), &options, own);
            kernel_tile forward[KERNEL_MOST_TILES], backward[KERNEL_MOST_TILES];
            int forwards = list_tiles(d, &options, tiles, false, forward);
            int backwards = list_tiles(d, &options, tiles, true, backward);
            int rounds = forwards > backwards ? forwards : backwards;
            for (int tile = 0; tile <= rounds; tile++) { /* the last: none is asked for */
                options.tiles = (tile_options){0};
                if (tile < forwards)
                    options.tiles.forward = forward[tile];
                if (tile < backwards)
                    options.tiles.backward = backward[tile];
                answer got = run(d, &options, tiles);
                for (int j = 0; j < OUTPUTS; j++) {
                    double error = relative_error(got.of[j], want.of[j], want.count[j]);
                    double limit = cases[i].math == PRECISION_FP32 ? 1e-4 : 0.02;
                    if (!(error < limit))
                        fail_msg("%s with tiles %s and %s, head size %lld, causal %d: off by %g",
                                 output_names[j], kernel_tile_format(options.tiles.forward).text,
                                 kernel_tile_format(options.tiles.backward).text,
                                 (long long)options.shape.head_dim, causal, error);
                }
                release(&got);
            }
            release(&want);
        }
    device_tiles_destroy(own);
    device_tiles_destroy(tiles);
}

static void a_tile_that_no_kernel_has_is_refused(void **state) {
    device *d = device_bench_open(state);
    device_tiles *tiles = device_tiles_create(d);
    attention_plan_options options = {.shape = {1, 64, 1, 1, 64},
                                      .extent = STEP_BACKWARD,
                                      .precision = PRECISION_BF16,
                                      .target = d->backend,
                                      .tiles = {.forward = {7, 9}}};
    options.tiles.source = device_tiles_source(tiles);
    plan *p;
    expect_failure(attention_plan_flash(&options, &p), DYNO_UNSUPPORTED, "has no tiles of 7x9");
    device_tiles_destroy(tiles);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_agrees_with_the_cpu),
        cmocka_unit_test(a_tile_that_no_kernel_has_is_refused),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
