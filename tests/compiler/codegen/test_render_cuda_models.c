/* test_render_cuda_models.c - steps of whole models, planned for a GPU: in an emulator they give
 * what the CPU gives, and a compiler for GPUs takes their kernels without a word. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/emulated_plan.h"
#include "support/nvrtc_log.h"
#include "support/skip.h"
#include "support/small_model.h"

static plan *model_plan(const model_config *config, int64_t batch, int64_t context,
                        step_extent extent, step_mode mode, precision low, target_kind on) {
    step_options options = small_model_step(config, batch, context, extent);
    options.pipeline.mode = mode;
    options.pipeline.precision = low;
    options.pipeline.target = target_usual(on);
    plan *p;
    if (step_plan_create(&options, &p) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return p;
}

/* Values of leaves that a step can begin with: weights, ids, and no moments yet. */
static void fill_model(const plan *p, emulated_plan *a, emulated_plan *b,
                       const model_config *config, uint64_t seed) {
    draw d = draw_create(seed, 1);
    for (int i = 0; i < p->name_count; i++) {
        const char *name = p->names[i].name;
        if (p->buffers[p->names[i].operand.buffer].born >= 0)
            continue;
        tensor x = emulated_plan_find(a, name), y = emulated_plan_find(b, name);
        bool is_weight = p->buffers[p->names[i].operand.buffer].role == ROLE_PARAMETER;
        for (int64_t j = 0; j < shape_elements(&x.shape); j++)
            dtype_store(x.type, x.data, j,
                        strcmp(name, "learning_rate") == 0 ? 1e-3
                        : strcmp(name, "step") == 0        ? 1
                        : x.type == DTYPE_I32              ? (double)draw_below(&d, config->vocab)
                        : is_weight                        ? 0.3 * draw_normal(&d)
                                                           : 0);
        if (!y.data)
            fail_msg("'%s' is missing on a GPU", name);
        memcpy(y.data, x.data, (size_t)tensor_bytes(&x));
    }
}

static void models_step_as_on_the_cpu(void **state) {
    (void)state;
    emulated_plan_skip_without_compiler();
    static const struct {
        step_mode mode;
        precision low;
        double limit;
    } cases[] = {{STEP_COMPILED, PRECISION_FP32, 1e-4},
                 {STEP_EAGER, PRECISION_FP32, 1e-4},
                 {STEP_COMPILED, PRECISION_BF16, 2e-2}};
    for (int i = 0; i < 3; i++) {
        draw d = draw_create(70 + (uint64_t)i, 1);
        model_config config = small_model_draw(&d);
        plan *exact = model_plan(&config, 2, 9, STEP_FULL, STEP_COMPILED, cases[i].low, TARGET_CPU);
        plan *p = model_plan(&config, 2, 9, STEP_FULL, cases[i].mode, cases[i].low, TARGET_CUDA);
        emulated_plan *cpu = emulated_plan_create(exact), *gpu = emulated_plan_create(p);
        fill_model(exact, cpu, gpu, &config, (uint64_t)i);
        emulated_plan_run(cpu);
        emulated_plan_run(gpu);
        expect_close_plans(cpu, gpu, cases[i].limit, (uint64_t)i);
        emulated_plan_destroy(cpu);
        emulated_plan_destroy(gpu);
        plan_destroy(exact);
        plan_destroy(p);
    }
}

/* ---- the compiler for GPUs ---- */

static void expect_compiles(const plan *p) {
    static const char *const chips[] = {"sm_80", "sm_90"};
    for (int i = 0; i < 2; i++) {
        text log = {0};
        if (!nvrtc_log(p->source, chips[i], &log)) {
            SKIP_BECAUSE("%s", dyno_error_message());
        }
        expect_quiet_log(text_string(&log));
        text_release(&log);
    }
}

static void models_compile_without_a_warning_and_without_spills(void **state) {
    (void)state;
    static const char *const presets[] = {"small", "medium", "xl", "2.7B"};
    for (int i = 0; i < 4; i++)
        for (int low = 0; low < 2; low++)
            for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
                model_config config;
                assert_int_equal(model_config_from_preset(presets[i], &config), DYNO_OK);
                config.layers = 2;
                plan *p = model_plan(&config, 4, low ? 512 : 128, STEP_FULL, (step_mode)mode,
                                     low ? PRECISION_BF16 : PRECISION_FP32, TARGET_CUDA);
                expect_compiles(p);
                plan_destroy(p);
            }
}

static void odd_models_compile_without_a_warning(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        draw d = draw_create(seed, 1);
        model_config config = small_model_draw(&d);
        plan *p = model_plan(&config, 1 + draw_below(&d, 4), 1 + draw_below(&d, 40), STEP_FULL,
                             (step_mode)(seed % 2), seed < 2 ? PRECISION_FP16 : PRECISION_BF16,
                             TARGET_CUDA);
        expect_compiles(p);
        plan_destroy(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_step_as_on_the_cpu),
        cmocka_unit_test(models_compile_without_a_warning_and_without_spills),
        cmocka_unit_test(odd_models_compile_without_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
