/* test_recompute.c - small graphs as text, and models whose numbers must not change by a bit. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "compiler/passes/autodiff.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/reemit.h"
#include "graph/graph_text.h"
#include "graph/op.h"
#include "graph/verify.h"
#include "model/transformer.h"
#include "plan/memory_account.h"
#include "support/graph_pass.h"
#include "support/step_bench.h"

#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "parameter %0 f32[3] \"w\"\n"                                                                  \
    "input %1 f32[3] \"x\"\n"
#define BLOCK_1_AND_LOSS(exp_role, sigmoid_role)                                                   \
    "%6 f32[3] " exp_role " = exp %5 @forward layers.1.a\n"                                        \
    "%7 f32[3] " sigmoid_role " = sigmoid %6 @forward layers.1.b\n"                                \
    "%8 f32[3] activation = add %5 %7 @forward layers.1\n"                                         \
    "%9 f32[1] activation = sum %8 {axes=[0]} @forward loss\n"                                     \
    "%10 f32[] activation = reshape %9 {shape=[]} @forward loss\n"
#define FORWARD                                                                                    \
    LEAVES "%2 f32[3] activation = multiply %0 %1 @forward embed\n"                                \
           "%3 f32[3] activation = exp %2 @forward layers.0.a\n"                                   \
           "%4 f32[3] activation = sigmoid %3 @forward layers.0.b\n"                               \
           "%5 f32[3] activation = add %2 %4 @forward layers.0\n" BLOCK_1_AND_LOSS("activation",   \
                                                                                   "activation")

static graph *with_backward(const char *forward) {
    graph *g = graph_from_text(forward);
    assert_int_equal(autodiff_append_backward(g, true), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    return g;
}

/* Block 0's exp and sigmoid are no longer saved but its input is; the sum at its end, which
 * nobody reads in the backward, is not computed again, nor is anything of the last block. */
static void only_what_the_backward_reads_is_computed_again(void **state) {
    (void)state;
    graph *g = with_backward(FORWARD "output %10 \"loss\"\n");
    recompute_options full = {RECOMPUTE_FULL, 0};
    assert_int_equal(recompute_apply(g, &full), DYNO_OK);
    expect_graph_text(
        g, LEAVES
        "%2 f32[3] saved = multiply %0 %1 @forward embed\n"
        "%3 f32[3] activation = exp %2 @forward layers.0.a\n"
        "%4 f32[3] activation = sigmoid %3 @forward layers.0.b\n"
        "%5 f32[3] activation = add %2 %4 @forward layers.0\n" BLOCK_1_AND_LOSS(
            "saved",
            "saved") "%11 f32[] activation = fill {number=1.0, type=1} @backward loss\n"
                     "%12 f32[1] activation = reshape %11 {shape=[1]} @backward loss\n"
                     "%13 f32[3] activation = broadcast %12 {shape=[3]} @backward loss\n"
                     "%14 f32[3] activation = sigmoid_gradient %13 %7 @backward layers.1.b\n"
                     "%15 f32[3] activation = multiply %14 %6 @backward layers.1.a\n"
                     "%16 f32[3] activation = add %13 %15 @backward layers.1.a\n"
                     "%17 f32[3] activation = exp %2 @backward layers.0.a\n"
                     "%18 f32[3] activation = sigmoid %17 @backward layers.0.b\n"
                     "%19 f32[3] activation = sigmoid_gradient %16 %18 @backward layers.0.b\n"
                     "%20 f32[3] activation = multiply %19 %17 @backward layers.0.a\n"
                     "%21 f32[3] activation = add %16 %20 @backward layers.0.a\n"
                     "%22 f32[3] gradient = multiply %21 %1 @backward embed\n"
                     "output %10 \"loss\"\n"
                     "output %22 \"g.w\"\n");
    graph_destroy(g);
}

static void one_segment_of_all_blocks_changes_nothing(void **state) {
    (void)state;
    recompute_options levels[] = {{RECOMPUTE_NONE, 0}, {RECOMPUTE_EVERY, 2}, {RECOMPUTE_EVERY, 9}};
    for (int i = 0; i < 3; i++) {
        graph *g = with_backward(FORWARD "output %10 \"loss\"\n"), *same;
        text before = {0};
        graph_print(g, &before);
        assert_int_equal(recompute_apply(g, &levels[i]), DYNO_OK);
        expect_graph_text(g, text_string(&before));
        same = graph_from_text(FORWARD "output %10 \"loss\"\n"); /* and no backward at all */
        assert_int_equal(recompute_apply(same, &levels[i]), DYNO_OK);
        expect_graph_text(same, FORWARD "output %10 \"loss\"\n");
        text_release(&before);
        graph_destroy(g);
        graph_destroy(same);
    }
}

/* The head's backward reads block 0's exp, so that is saved anyway and only sigmoid runs again. */
static void what_is_saved_for_others_is_not_computed_again(void **state) {
    (void)state;
    graph *g = with_backward(LEAVES "%2 f32[3] activation = multiply %0 %1 @forward embed\n"
                                    "%3 f32[3] activation = exp %2 @forward layers.0.a\n"
                                    "%4 f32[3] activation = sigmoid %3 @forward layers.0.b\n"
                                    "%5 f32[3] activation = exp %4 @forward layers.1\n"
                                    "%6 f32[3] activation = multiply %5 %3 @forward head\n"
                                    "%7 f32[1] activation = sum %6 {axes=[0]} @forward loss\n"
                                    "%8 f32[] activation = reshape %7 {shape=[]} @forward loss\n"
                                    "output %8 \"loss\"\n");
    int before = g->node_count;
    assert_int_equal(recompute_apply(g, &(recompute_options){RECOMPUTE_FULL, 0}), DYNO_OK);
    assert_int_equal(graph_verify(g), DYNO_OK);
    assert_int_equal(g->node_count, before + 1);
    assert_int_equal(g->values[3]->role, ROLE_SAVED);
    assert_int_equal(g->values[4]->role, ROLE_ACTIVATION);
    graph_destroy(g);
}

static model_config model_of(int64_t layers) {
    return (model_config){.name = "drawn",
                          .d_model = 12,
                          .d_ff = 20,
                          .layers = layers,
                          .heads = 2,
                          .kv_heads = 1,
                          .head_dim = 6,
                          .vocab = 17,
                          .norm_eps = 1e-5,
                          .rope_theta = 10000};
}

static const char *const levels[] = {"every:1", "every:2", "every:3", "full", "nested"};
enum { LEVELS = sizeof levels / sizeof *levels };

static plan *plan_at(const model_config *config, const char *level, bool rematerialize,
                     bool is_static) {
    pass_options options = {.extent = STEP_FULL,
                            .rematerialize = rematerialize,
                            .is_static = is_static,
                            .keep_all = true};
    assert_int_equal(recompute_parse(level, &options.recompute), DYNO_OK);
    return pass_plan(config, 2, 7, &options);
}

static void steps_are_bitwise_those_without_recompute(void **state) {
    (void)state;
    for (int64_t layers = 1; layers <= 5; layers++) {
        model_config config = model_of(layers);
        step_bench plain =
            step_bench_create(&config, plan_at(&config, "none", false, false), 3, false);
        step_bench_run(&plain);
        step_bench_run(&plain);
        for (int i = 0; i < 4 * LEVELS; i++) {
            plan *p = plan_at(&config, levels[i / 4], i & 1, i & 2);
            step_bench again = step_bench_create(&config, p, 3, false);
            step_bench_run(&again);
            step_bench_run(&again);
            expect_same_names(&plain, &again);
            step_bench_destroy(&again);
        }
        step_bench_destroy(&plain);
    }
}

static graph *model_graph(int64_t layers, const char *level) {
    model_config config = model_of(layers);
    transformer_options sizes = {.batch = 2, .context = 7};
    recompute_options options;
    graph *g;
    assert_int_equal(recompute_parse(level, &options), DYNO_OK);
    assert_int_equal(transformer_build(&config, &sizes, &g), DYNO_OK);
    assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    assert_int_equal(recompute_apply(g, &options), DYNO_OK);
    assert_int_equal(graph_verify(g), DYNO_OK);
    return g;
}

static int saved_of_block(const graph *g, int layer) {
    int count = 0;
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        count += v->role == ROLE_SAVED && scope_block(g->scopes[v->producer->scope]) == layer;
    }
    return count;
}

static void of_a_segment_only_what_enters_the_next_is_saved(void **state) {
    (void)state;
    enum { LAYERS = 7 };
    for (int every = 1; every <= 3; every++) {
        char level[] = {'e', 'v', 'e', 'r', 'y', ':', (char)('0' + every), '\0'};
        graph *g = model_graph(LAYERS, level);
        for (int layer = 0; layer < LAYERS; layer++) {
            bool is_last_segment = layer / every == (LAYERS - 1) / every;
            int saved = saved_of_block(g, layer);
            if (is_last_segment)
                assert_true(saved > 1);
            else
                assert_int_equal(saved, (layer + 1) % every == 0);
        }
        graph_destroy(g);
    }
}

/* Of 8 blocks: the forward leaves the inputs of blocks 4, 6 and 7. */
static void nested_recompute_saves_as_many_block_inputs_as_there_are_halvings(void **state) {
    (void)state;
    graph *g = model_graph(8, "nested");
    static const int saved[] = {0, 0, 0, 1, 0, 1, 1};
    for (int layer = 0; layer < 7; layer++)
        assert_int_equal(saved_of_block(g, layer), saved[layer]);
    /* After the forward, block 0 runs to make the inputs of blocks 2 and 1 and for its backward. */
    int runs = 0;
    for (int i = 0; i < g->node_count; i++)
        runs += strcmp(g->nodes[i]->op->name, "sigmoid") == 0 &&
                scope_block(g->scopes[g->nodes[i]->scope]) == 0;
    assert_int_equal(runs, 4);
    graph_destroy(g);
}

/* Without gradients, which outweigh all else in the end: the peak is what is saved. */
static int64_t activation_peak(int64_t layers, const char *level) {
    model_config config = model_of(layers);
    pass_options options = {.extent = STEP_BACKWARD};
    assert_int_equal(recompute_parse(level, &options.recompute), DYNO_OK);
    plan *p = pass_plan(&config, 4, 32, &options);
    int64_t alive = 0, peak = 0;
    for (int i = 0; i < p->launch_count; i++) {
        for (int j = p->birth_start[i]; j < p->birth_start[i + 1]; j++)
            alive +=
                p->buffers[p->births[j]].role == ROLE_GRADIENT ? 0 : p->buffers[p->births[j]].bytes;
        peak = alive > peak ? alive : peak;
        for (int j = p->death_start[i]; j < p->death_start[i + 1]; j++)
            alive -=
                p->buffers[p->deaths[j]].role == ROLE_GRADIENT ? 0 : p->buffers[p->deaths[j]].bytes;
    }
    plan_destroy(p);
    return peak;
}

static void more_recompute_takes_less_memory(void **state) {
    (void)state;
    enum { LAYERS = 16 };
    static const char *const falling[] = {"none",    "every:8", "every:4",
                                          "every:2", "full",    "nested"};
    int64_t before = INT64_MAX;
    for (size_t i = 0; i < sizeof falling / sizeof *falling; i++) {
        int64_t peak = activation_peak(LAYERS, falling[i]);
        assert_true(peak < before);
        before = peak;
    }
    /* Twice the blocks: twice the memory; with full, a block input for each more; nested, one. */
    int64_t input = 4 * 32 * 12 * 4;
    assert_true((double)activation_peak(2 * LAYERS, "none") >
                1.9 * (double)activation_peak(LAYERS, "none"));
    assert_int_equal(activation_peak(2 * LAYERS, "full") - activation_peak(LAYERS, "full"),
                     LAYERS * input);
    assert_in_range(activation_peak(2 * LAYERS, "nested") - activation_peak(LAYERS, "nested"), 0,
                    input);
}

static void levels_are_read_and_written(void **state) {
    (void)state;
    static const char *const texts[] = {"none",     "mlp:1", "mlp:48", "every:1",
                                        "every:12", "full",  "nested"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        recompute_options options;
        assert_int_equal(recompute_parse(texts[i], &options), DYNO_OK);
        assert_string_equal(recompute_format(&options).text, texts[i]);
    }
}

static void bad_levels_get_a_clear_answer(void **state) {
    (void)state;
    static const char *const numbers[] = {
        "mlp:0",   "mlp:-1", "mlp:x",    "mlp:",     "mlp:1000001", "every:0",
        "every:x", "every:", "every:-1", "every:2x", "every: 2",    "every:99999999999999999999"};
    static const char *const words[] = {"",      "every",  "all", "Full",
                                        "none ", "every2", "mlp", "MLP:2"};
    recompute_options options;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        expect_failure(recompute_parse(numbers[i], &options), DYNO_INVALID,
                       "whole number from 1 to");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        expect_failure(recompute_parse(words[i], &options), DYNO_INVALID, "there are none, mlp:K");
    graph *g = graph_from_text(FORWARD "output %10 \"loss\"\n");
    expect_failure(recompute_apply(g, &(recompute_options){RECOMPUTE_EVERY, 0}), DYNO_INVALID,
                   "segment of 0 blocks");
    graph_destroy(g);
}

static void blocks_are_the_scopes_below_layers(void **state) {
    (void)state;
    static const struct {
        const char *scope;
        int block;
    } cases[] = {{"layers.0", 0},  {"layers.12.attn.q", 12}, {"layers", -1},      {"layers.", -1},
                 {"layers.x", -1}, {"layers.3x", -1},        {"my.layers.3", -1}, {"", -1},
                 {"layers.-1", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(scope_block(cases[i].scope), cases[i].block);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_the_backward_reads_is_computed_again),
        cmocka_unit_test(one_segment_of_all_blocks_changes_nothing),
        cmocka_unit_test(what_is_saved_for_others_is_not_computed_again),
        cmocka_unit_test(steps_are_bitwise_those_without_recompute),
        cmocka_unit_test(of_a_segment_only_what_enters_the_next_is_saved),
        cmocka_unit_test(nested_recompute_saves_as_many_block_inputs_as_there_are_halvings),
        cmocka_unit_test(more_recompute_takes_less_memory),
        cmocka_unit_test(levels_are_read_and_written),
        cmocka_unit_test(bad_levels_get_a_clear_answer),
        cmocka_unit_test(blocks_are_the_scopes_below_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
