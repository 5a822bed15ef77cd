/* test_no_compiler.c - a machine that has no C compiler: compiled mode runs unfused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "runtime/jit.h"
#include "support/expect.h"
#include "support/step_bench.h"
#include "train/step_plan.h"

static int hide_compilers(void **state) {
    (void)state;
    unsetenv("CC");
    return setenv("PATH", "/nowhere", 1);
}

/* The loss of the second step. */
static double second_loss(const model_config *config, step_mode mode, precision math,
                          recompute_options recompute) {
    step_options options = small_model_step(config, 2, 9, STEP_FULL);
    options.pipeline.mode = mode;
    options.pipeline.precision = math;
    options.pipeline.recompute = recompute;
    plan *p;
    expect_ok(step_plan_create(&options, &p));
    assert_null(p->source);
    step_bench b = step_bench_create(config, p, 3, false);
    step_bench_run(&b);
    step_bench_run(&b);
    int64_t count;
    double *loss = step_bench_read_doubles(&b, "loss", &count), answer = *loss;
    assert_int_equal(count, 1);
    free(loss);
    step_bench_destroy(&b);
    return answer;
}

static void compiled_steps_run_unfused_and_agree_with_eager_ones(void **state) {
    (void)state;
    assert_false(jit_is_possible());
    static const recompute_options ways[] = {
        {.mode = RECOMPUTE_NONE}, {.mode = RECOMPUTE_FULL}, {.mode = RECOMPUTE_MLP, .every = 1}};
    for (uint64_t seed = 1; seed < 4; seed++) {
        draw d = draw_create(seed, 5);
        model_config config = small_model_draw(&d);
        double eager = second_loss(&config, STEP_EAGER, PRECISION_FP32, ways[0]);
        for (int way = 0; way < 3; way++) {
            double fp32 = second_loss(&config, STEP_COMPILED, PRECISION_FP32, ways[way]);
            double bf16 = second_loss(&config, STEP_COMPILED, PRECISION_BF16, ways[way]);
            if (fabs(fp32 - eager) > 1e-5 * eager || fabs(bf16 - eager) > 0.02 * eager)
                fail_msg("seed %d, way %d: %.8g and %.8g, eager %.8g", (int)seed, way, fp32, bf16,
                         eager);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_steps_run_unfused_and_agree_with_eager_ones),
    };
    return cmocka_run_group_tests(tests, hide_compilers, NULL);
}
