/* test_recompute_mlp.c - the level between saving everything and running whole blocks again: which
 * nodes run again, that no number changes by a bit, and what it saves. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compiler/passes/autodiff.h"
#include "compiler/passes/reemit.h"
#include "compiler/passes/rematerialize.h"
#include "graph/graph_text.h"
#include "graph/verify.h"
#include "plan/memory_account.h"
#include "support/graph_pass.h"
#include "support/step_bench.h"

#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "parameter %0 f32[2,2] \"w\"\n"                                                                \
    "input %1 f32[2,2] \"x\"\n"
#define PRODUCT "{transpose_a=0, transpose_b=0} @forward "
#define AGAIN "{transpose_a=0, transpose_b=0} @backward "
#define OF_INPUT "{transpose_a=0, transpose_b=1} @backward "
#define OF_WEIGHT "{transpose_a=1, transpose_b=0} @backward "
#define BLOCK_0(role)                                                                              \
    "%2 f32[2,2] saved = matmul %1 %0 " PRODUCT "embed\n"                                          \
    "%3 f32[2,2] " role " = multiply %2 %2 @forward layers.0.mlp_norm\n"                           \
    "%4 f32[2,2] " role " = matmul %3 %0 " PRODUCT "layers.0.mlp.gate\n"                           \
    "%5 f32[2,2] " role " = sigmoid %4 @forward layers.0.mlp.swiglu\n"                             \
    "%6 f32[2,2] " role " = multiply %4 %5 @forward layers.0.mlp.swiglu\n"                         \
    "%7 f32[2,2] activation = matmul %6 %0 " PRODUCT "layers.0.mlp.down\n"                         \
    "%8 f32[2,2] saved = add %2 %7 @forward layers.0.residual\n"
#define BLOCK_1                                                                                    \
    "%9 f32[2,2] saved = matmul %8 %0 " PRODUCT "layers.1.mlp.gate\n"                              \
    "%10 f32[2,2] saved = multiply %9 %9 @forward layers.1.mlp.swiglu\n"                           \
    "%11 f32[2,2] activation = matmul %10 %0 " PRODUCT "layers.1.mlp.down\n"                       \
    "%12 f32[1,1] activation = sum %11 {axes=[0,1]} @forward loss\n"                               \
    "%13 f32[] activation = reshape %12 {shape=[]} @forward loss\n"

/* Of the first block: norm, gate, sigmoid and their product are computed again, but not down, whose
 * result the backward does not read; of the last block nothing is. */
static void what_leads_to_the_hidden_units_runs_again_and_nothing_else(void **state) {
    (void)state;
    graph *g = graph_from_text(LEAVES BLOCK_0("saved") BLOCK_1 "output %13 \"loss\"\n");
    assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
    rematerialize_options mlps = {.mlp_every = 1};
    assert_int_equal(rematerialize_apply(g, &mlps), DYNO_OK);
    assert_int_equal(graph_verify(g), DYNO_OK);
    text printed = {0};
    graph_print(g, &printed);
    assert_non_null(strstr(text_string(&printed), LEAVES BLOCK_0("activation") BLOCK_1));
    assert_non_null(
        strstr(text_string(&printed),
               "%25 f32[2,2] activation = matmul %22 %0 " OF_INPUT "layers.0.mlp.down\n"
               "%26 f32[2,2] activation = multiply %2 %2 @backward layers.0.mlp_norm\n"
               "%27 f32[2,2] activation = matmul %26 %0 " AGAIN "layers.0.mlp.gate\n"
               "%28 f32[2,2] activation = sigmoid %27 @backward layers.0.mlp.swiglu\n"
               "%29 f32[2,2] activation = multiply %27 %28 @backward layers.0.mlp.swiglu\n"
               "%30 f32[2,2] activation = matmul %29 %22 " OF_WEIGHT "layers.0.mlp.down\n"
               "%31 f32[2,2] activation = add %24 %30 @backward layers.0.mlp.down\n"
               "%32 f32[2,2] activation = multiply %25 %28 @backward layers.0.mlp.swiglu\n"
               "%33 f32[2,2] activation = multiply %25 %27 @backward layers.0.mlp.swiglu\n"
               "%34 f32[2,2] activation = sigmoid_gradient %33 %28 @backward layers.0.mlp.swiglu\n"
               "%35 f32[2,2] activation = add %32 %34 @backward layers.0.mlp.swiglu\n"
               "%36 f32[2,2] activation = matmul %35 %0 " OF_INPUT "layers.0.mlp.gate\n"
               "%37 f32[2,2] activation = matmul %26 %35 " OF_WEIGHT "layers.0.mlp.gate\n"));
    text_release(&printed);
    graph_destroy(g);
}

/* ---- models ---- */

static step_options step_of(int64_t layers, step_mode mode, precision kind, const char *level) {
    model_config config = {.name = "drawn",
                           .d_model = 12,
                           .d_ff = 20,
                           .layers = layers,
                           .heads = 2,
                           .kv_heads = 1,
                           .head_dim = 6,
                           .vocab = 17,
                           .norm_eps = 1e-5,
                           .rope_theta = 10000};
    step_options options = small_model_step(&config, 2, 7, STEP_FULL);
    options.pipeline.mode = mode;
    options.pipeline.precision = kind;
    assert_int_equal(recompute_parse(level, &options.pipeline.recompute), DYNO_OK);
    return options;
}

static plan *plan_of(const step_options *options) {
    plan *p;
    assert_int_equal(step_plan_create(options, &p), DYNO_OK);
    return p;
}

/* Products that a block's backward has over the two for each of its forward. */
static int products_run_again(const plan *p, int layer) {
    int forward = 0, backward = 0;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        if (scope_mlp(p->scopes[l->scope]) != layer || strcmp(l->op_name, "matmul") != 0)
            continue;
        forward += l->phase == PHASE_FORWARD;
        backward += l->phase == PHASE_BACKWARD;
    }
    assert_true(forward > 0);
    return backward - 2 * forward;
}

/* Eager mode has a product for gate and one for up, compiled mode one for both. */
static void every_so_many_blocks_multiply_gate_and_up_again(void **state) {
    (void)state;
    static const int products[STEP_MODE_COUNT] = {2, 1};
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        for (int layers = 1; layers <= 6; layers++)
            for (int every = 1; every <= layers; every++) {
                char level[16];
                snprintf(level, sizeof level, "mlp:%d", every);
                step_options options = step_of(layers, (step_mode)mode, PRECISION_BF16, level);
                plan *p = plan_of(&options);
                for (int layer = 0; layer < layers; layer++) {
                    bool is_taken = layer % every == 0 && layer < layers - 1;
                    assert_int_equal(products_run_again(p, layer), is_taken ? products[mode] : 0);
                }
                plan_destroy(p);
            }
}

static const char *const levels[] = {"mlp:1", "mlp:2", "mlp:3"};
enum { LEVELS = sizeof levels / sizeof *levels };

static void steps_are_bitwise_those_that_save_everything(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        draw d = draw_create(seed, 1);
        model_config config = small_model_draw(&d);
        config.layers = 4 + (int64_t)(seed / 4);
        step_options options =
            small_model_step(&config, 1 + draw_below(&d, 3), 1 + draw_below(&d, 20), STEP_FULL);
        options.pipeline.mode = seed & 1 ? STEP_COMPILED : STEP_EAGER;
        options.pipeline.precision = seed & 2 ? PRECISION_BF16 : PRECISION_FP32;
        step_bench plain = step_bench_create(&config, plan_of(&options), seed, false);
        step_bench_run(&plain);
        step_bench_run(&plain);
        for (int i = 0; i < LEVELS; i++) {
            assert_int_equal(recompute_parse(levels[i], &options.pipeline.recompute), DYNO_OK);
            step_bench again = step_bench_create(&config, plan_of(&options), seed, false);
            step_bench_run(&again);
            step_bench_run(&again);
            expect_same_names(&plain, &again);
            step_bench_destroy(&again);
        }
        step_bench_destroy(&plain);
    }
}

/* To the byte where memory is planned, within rounding to blocks where it is taken as it comes. */
static void predicted_memory_is_what_a_step_takes(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        for (int i = 0; i < LEVELS; i++) {
            step_options options = step_of(5, (step_mode)mode, PRECISION_BF16, levels[i]);
            step_bench b = step_bench_create(&options.config, plan_of(&options), 1, false);
            memory_account account = memory_account_plan(b.p);
            step_bench_run(&b);
            if (mode == STEP_COMPILED)
                assert_int_equal(memory_pool_peak_taken_bytes(b.pool), account.peak_bytes);
            assert_int_equal(memory_pool_reserved_bytes(b.pool), account.reserved_bytes);
            step_bench_destroy(&b);
        }
}

static plan *plan_of_small(step_mode mode, precision kind, backend target, const char *level) {
    step_options options = {.batch = 4,
                            .context = 512,
                            .pipeline = {.extent = STEP_FULL,
                                         .mode = mode,
                                         .precision = kind,
                                         .target = target,
                                         .optimizer = step_default_optimizer()}};
    assert_int_equal(model_config_from_preset("small", &options.config), DYNO_OK);
    assert_int_equal(recompute_parse(level, &options.pipeline.recompute), DYNO_OK);
    return plan_of(&options);
}

/* A block's gate and up are 2048 x 6144 numbers for 2 x 2048 x 768 x 6144 FLOPs. Compiled mode
 * saves no more of them; eager mode has sigmoid, silu, hidden units and the norm's rows besides. */
static void each_mlp_saves_its_hidden_units_for_one_product(void **state) {
    (void)state;
    static const struct {
        const char *level;
        int taken;
    } cases[] = {{"mlp:11", 1}, {"mlp:3", 4}};
    const double product = 2.0 * 2048 * 768 * 6144;
    for (int i = 0; i < 8; i++) {
        backend target = i & 1 ? BACKEND_CUDA : BACKEND_CPU;
        precision kind = i & 2 ? PRECISION_BF16 : PRECISION_FP32;
        step_mode mode = i & 4 ? STEP_COMPILED : STEP_EAGER;
        int64_t hidden = 2048 * 6144 * (kind == PRECISION_BF16 ? 2 : 4);
        plan *plain = plan_of_small(mode, kind, target, "none");
        for (int c = 0; c < 2; c++) {
            plan *p = plan_of_small(mode, kind, target, cases[c].level);
            int64_t saved =
                memory_account_plan(plain).peak_bytes - memory_account_plan(p).peak_bytes;
            double more =
                plan_total_cost(p, PHASE_COUNT).flops - plan_total_cost(plain, PHASE_COUNT).flops;
            if (mode == STEP_COMPILED)
                assert_int_equal(saved, cases[c].taken * hidden);
            else
                assert_true(saved > 2 * cases[c].taken * hidden);
            assert_true(fabs(more / (cases[c].taken * product) - 1) < 0.005);
            plan_destroy(p);
        }
        plan_destroy(plain);
    }
}

/* ---- levels ---- */

static void the_mlp_of_a_block_is_the_scopes_below_it_and_its_norm(void **state) {
    (void)state;
    static const struct {
        const char *scope;
        int block;
    } cases[] = {{"layers.0.mlp", 0},
                 {"layers.12.mlp.gate+up", 12},
                 {"layers.3.mlp_norm", 3},
                 {"layers.3.mlp_norm.x", 3},
                 {"layers.3.mlp_normal", -1},
                 {"layers.3.attn.mlp", -1},
                 {"layers.3", -1},
                 {"layers.3.ml", -1},
                 {"layers.x.mlp", -1},
                 {"mlp", -1},
                 {"", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(scope_mlp(cases[i].scope), cases[i].block);
}

static void levels_beyond_the_blocks_get_a_clear_answer(void **state) {
    (void)state;
    for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
        step_options options = step_of(3, STEP_COMPILED, PRECISION_FP32, "mlp:4");
        options.pipeline.extent = (step_extent)extent;
        plan *p;
        expect_failure(step_plan_create(&options, &p), DYNO_INVALID,
                       "every 4-th block, but the model has 3 blocks; give mlp:1");
        assert_null(p);
    }
    recompute_options none = {RECOMPUTE_MLP, 0}, one = {RECOMPUTE_MLP, 1};
    expect_failure(recompute_check(&none, 3), DYNO_INVALID,
                   "give mlp:1 (all but the last) to mlp:3");
    assert_int_equal(recompute_check(&one, 1), DYNO_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_leads_to_the_hidden_units_runs_again_and_nothing_else),
        cmocka_unit_test(every_so_many_blocks_multiply_gate_and_up_again),
        cmocka_unit_test(steps_are_bitwise_those_that_save_everything),
        cmocka_unit_test(predicted_memory_is_what_a_step_takes),
        cmocka_unit_test(each_mlp_saves_its_hidden_units_for_one_product),
        cmocka_unit_test(the_mlp_of_a_block_is_the_scopes_below_it_and_its_norm),
        cmocka_unit_test(levels_beyond_the_blocks_get_a_clear_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
