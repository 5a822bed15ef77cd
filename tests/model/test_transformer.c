/* test_transformer.c - what the model's graph is made of, and laws its logits obey, computed in
 * double by the ops' references. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/verify.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "support/reference_run.h"
#include "support/small_model.h"

static graph *build(const model_config *config, int64_t batch, int64_t context) {
    transformer_options options = {.batch = batch, .context = context, .keep_logits = true};
    graph *g;
    if (transformer_build(config, &options, &g) != DYNO_OK || graph_verify(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return g;
}

/* A model with its leaves, to be changed before running it. */
typedef struct sample {
    graph *g;
    double **leaves;
    reference_run *run;
} sample;

static sample sample_create(const model_config *config, int64_t batch, int64_t context,
                            uint64_t seed) {
    sample s = {.g = build(config, batch, context)};
    s.leaves = memory_allocate((size_t)s.g->value_count, sizeof *s.leaves);
    for (int i = 0; i < s.g->value_count; i++) {
        const value *v = s.g->values[i];
        if (v->producer)
            continue;
        rng_stream random = rng_stream_init(seed, rng_hash_name(v->name));
        int64_t elements = shape_elements(&v->shape);
        s.leaves[i] = memory_allocate((size_t)elements, sizeof(double));
        for (int64_t j = 0; j < elements; j++)
            s.leaves[i][j] = v->role == ROLE_INPUT
                                 ? (double)(rng_bits(random, (uint64_t)j) % (uint64_t)config->vocab)
                                 : 0.5 * rng_truncated_normal(random, (uint64_t)j);
    }
    return s;
}

static double *sample_leaf(const sample *s, const char *name) {
    return s->leaves[graph_find_value(s->g, name)->id];
}

static const double *sample_output(sample *s, const char *name) {
    if (!s->run)
        s->run = reference_run_create(s->g, (const double *const *)s->leaves);
    return reference_run_value(s->run, graph_find_value(s->g, name));
}

static void sample_release(sample *s) {
    reference_run_destroy(s->run);
    for (int i = 0; i < s->g->value_count; i++)
        free(s->leaves[i]);
    free(s->leaves);
    graph_destroy(s->g);
}

static const model_config tiny = {.name = "tiny",
                                  .d_model = 12,
                                  .d_ff = 10,
                                  .layers = 2,
                                  .heads = 6,
                                  .kv_heads = 2,
                                  .head_dim = 4,
                                  .vocab = 11,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

static void leaves_are_ids_and_the_parameters_in_their_order(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        draw d = draw_create(seed, 1);
        model_config config = small_model_draw(&d);
        graph *g = build(&config, 2, 3);
        int next = 0;
        for (int i = 0; i < g->value_count; i++) {
            const value *v = g->values[i];
            if (v->role != ROLE_PARAMETER)
                continue;
            model_parameter wanted = model_parameter_at(&config, next++);
            assert_string_equal(v->name, wanted.name);
            assert_true(shape_equal(&v->shape, &wanted.shape));
        }
        assert_int_equal(next, model_parameter_count(&config));
        static const char *const ids[] = {"tokens", "targets"};
        for (int i = 0; i < 2; i++) {
            const value *v = graph_find_value(g, ids[i]);
            assert_int_equal(v->type, DTYPE_I32);
            assert_string_equal(shape_format(&v->shape).text, "6");
        }
        assert_int_equal(graph_find_value(g, "loss")->shape.rank, 0);
        graph_destroy(g);
    }
}

static void logits_are_an_output_only_when_asked_for(void **state) {
    (void)state;
    graph *g = build(&tiny, 2, 3), *without;
    assert_string_equal(shape_format(&graph_find_value(g, "logits")->shape).text, "6,11");
    assert_int_equal(
        transformer_build(&tiny, &(transformer_options){.batch = 2, .context = 3}, &without),
        DYNO_OK);
    assert_null(graph_find_value(without, "logits"));
    assert_int_equal(g->node_count, without->node_count);
    graph_destroy(g);
    graph_destroy(without);
}

static void every_part_has_a_scope(void **state) {
    (void)state;
    static const char *const wanted[] = {"embed",
                                         "layers.0.attn_norm",
                                         "layers.1.attn.q",
                                         "layers.1.attn.rope",
                                         "layers.1.attn.scores",
                                         "layers.1.attn.mask",
                                         "layers.1.attn.softmax",
                                         "layers.1.attn.values",
                                         "layers.1.attn.o",
                                         "layers.1.mlp_norm",
                                         "layers.1.mlp.gate",
                                         "layers.1.mlp.swiglu",
                                         "layers.1.mlp.down",
                                         "layers.1.residual",
                                         "final_norm",
                                         "head",
                                         "loss"};
    graph *g = build(&tiny, 1, 4);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        bool found = false;
        for (int j = 0; j < g->node_count; j++)
            found = found || strcmp(g->scopes[g->nodes[j]->scope].path, wanted[i]) == 0;
        if (!found)
            fail_msg("no node is in '%s'", wanted[i]);
    }
    for (int j = 0; j < g->node_count; j++)
        assert_string_not_equal(g->scopes[g->nodes[j]->scope].path, "");
    graph_destroy(g);
}

/* All logits zero: every id is as likely as another. */
static void a_head_of_zeros_loses_the_logarithm_of_the_vocabulary(void **state) {
    (void)state;
    sample s = sample_create(&tiny, 2, 3, 1);
    memset(sample_leaf(&s, "lm_head.weight"), 0, 11 * 12 * sizeof(double));
    assert_true(fabs(sample_output(&s, "loss")[0] - log(11)) < 1e-12);
    sample_release(&s);
}

static void a_position_sees_nothing_after_it(void **state) {
    (void)state;
    enum { T = 5 };
    sample before = sample_create(&tiny, 2, T, 2);
    const double *was = sample_output(&before, "logits");
    for (int at = 0; at < T; at++) {
        sample after = sample_create(&tiny, 2, T, 2);
        double *id = sample_leaf(&after, "tokens") + T + at; /* of the second sequence */
        *id = (double)(((int)*id + 1) % 11);
        const double *is = sample_output(&after, "logits");
        for (int row = 0; row < 2 * T; row++) {
            bool same = memcmp(was + row * 11, is + row * 11, 11 * sizeof(double)) == 0;
            assert_int_equal(same, row < T + at);
        }
        sample_release(&after);
    }
    sample_release(&before);
}

/* The same token at another place is another thing: rotation is what tells them apart. */
static void positions_matter(void **state) {
    (void)state;
    sample s = sample_create(&tiny, 1, 4, 3), swapped = sample_create(&tiny, 1, 4, 3);
    double *ids = sample_leaf(&s, "tokens"), *others = sample_leaf(&swapped, "tokens");
    for (int i = 0; i < 4; i++)
        ids[i] = i;
    memcpy(others, (double[]){1, 0, 2, 3}, 4 * sizeof(double));
    const double *a = sample_output(&s, "logits") + 33, *b = sample_output(&swapped, "logits") + 33;
    double apart = 0;
    for (int i = 0; i < 11; i++)
        apart = fmax(apart, fabs(a[i] - b[i]));
    assert_true(apart > 1e-4);
    sample_release(&s);
    sample_release(&swapped);
}

/* The rows of a key/value head, repeated for each query head that shares it. */
static void repeat_heads(const double *from, double *to) {
    int64_t group = tiny.heads / tiny.kv_heads, rows = tiny.head_dim * tiny.d_model;
    for (int64_t head = 0; head < tiny.heads; head++)
        memcpy(to + head * rows, from + head / group * rows, (size_t)rows * sizeof *to);
}

static void grouped_heads_are_heads_with_equal_keys_and_values(void **state) {
    (void)state;
    model_config full = tiny;
    full.kv_heads = full.heads;
    sample grouped = sample_create(&tiny, 2, 4, 4), apart = sample_create(&full, 2, 4, 4);
    for (int layer = 0; layer < 2; layer++)
        for (int i = 0; i < 2; i++) {
            char name[96];
            snprintf(name, sizeof name, "model.layers.%d.self_attn.%c_proj.weight", layer, "kv"[i]);
            repeat_heads(sample_leaf(&grouped, name), sample_leaf(&apart, name));
        }
    const double *a = sample_output(&grouped, "logits"), *b = sample_output(&apart, "logits");
    for (int i = 0; i < 2 * 4 * 11; i++)
        assert_true(fabs(a[i] - b[i]) < 1e-12);
    sample_release(&grouped);
    sample_release(&apart);
}

static void expect_refused(model_config config, int64_t batch, int64_t context, const char *part) {
    graph *g;
    transformer_options options = {.batch = batch, .context = context};
    assert_int_equal(transformer_build(&config, &options, &g), DYNO_INVALID);
    assert_null(g);
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' is not in: %s", part, dyno_error_message());
}

static void sizes_that_make_no_model_are_refused(void **state) {
    (void)state;
    expect_refused(tiny, 0, 1, "batch 0 x context 1: both must be at least 1");
    expect_refused(tiny, 1, 0, "batch 1 x context 0");
    expect_refused(tiny, -1, 5, "batch -1");
    expect_refused(tiny, 1 << 16, 1 << 15, "their product at most 2147483647");
    expect_refused(tiny, INT64_MAX, INT64_MAX, "their product at most");
    expect_refused(tiny, 1, (int64_t)1 << 40, "their product at most");
    model_config odd = tiny;
    odd.kv_heads = 4;
    expect_refused(odd, 1, 1, "kv_heads");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_are_ids_and_the_parameters_in_their_order),
        cmocka_unit_test(logits_are_an_output_only_when_asked_for),
        cmocka_unit_test(every_part_has_a_scope),
        cmocka_unit_test(a_head_of_zeros_loses_the_logarithm_of_the_vocabulary),
        cmocka_unit_test(a_position_sees_nothing_after_it),
        cmocka_unit_test(positions_matter),
        cmocka_unit_test(grouped_heads_are_heads_with_equal_keys_and_values),
        cmocka_unit_test(sizes_that_make_no_model_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
