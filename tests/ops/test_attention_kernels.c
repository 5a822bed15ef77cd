/* test_attention_kernels.c - every CPU kernel of attention and of its gradients against the
 * reference in double, where tiles end, in every layout that is taken, and at the ends of floats.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "base/memory.h"
#include "base/threads.h"
#include "ops/attention/attention.h"
#include "ops/lanes.h"
#include "ops/op_list.h"
#include "support/operand.h"

enum { MOST_INPUTS = 6, MOST_OUTPUTS = 3 };

/* How operands lie, inputs and outputs alike. */
typedef enum placing {
    PLACED_DENSE,
    PLACED_BY_TOKEN,   /* [B, T, H, S] in memory: what a projection gives */
    PLACED_MISALIGNED, /* one element off, rows that do not touch */
    PLACED_REPEATED,   /* inputs: one head for all; outputs dense */
    PLACING_COUNT
} placing;

typedef struct sizes {
    int64_t batch, heads, kv_heads, queries, keys, head_dim;
} sizes;

/* Where tiles, panels and blocks of 8 end, and around it. */
static const sizes SIZES[] = {
    {1, 1, 1, 1, 1, 1},    {1, 1, 1, 2, 2, 2},      {2, 2, 1, 1, 7, 5},     {1, 2, 2, 5, 1, 16},
    {1, 4, 2, 33, 65, 24}, {2, 3, 1, 31, 32, 17},   {1, 1, 1, 64, 8, 48},   {1, 2, 2, 129, 127, 64},
    {1, 1, 1, 65, 300, 8}, {1, 1, 1, 40, 150, 256}, {1, 2, 1, 70, 40, 100}, {1, 1, 1, 300, 17, 144},
    {3, 2, 2, 2, 3, 4},    {1, 1, 1, 257, 260, 33},
};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

static const dtype TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

typedef struct buffer {
    tensor view;
    void *block;
    size_t bytes;
} buffer;

static buffer buffer_create(dtype type, const shape *s, placing how, bool is_input) {
    buffer b = {.view = tensor_contiguous(NULL, type, s)};
    int64_t *stride = b.view.stride, size = dtype_bytes(type);
    bool is_lse = s->rank == 3;
    if (!is_lse && how == PLACED_BY_TOKEN) {
        stride[1] = s->dim[3];
        stride[2] = s->dim[1] * s->dim[3];
    } else if (!is_lse && how == PLACED_MISALIGNED) {
        stride[2] = s->dim[3] + 3;
        stride[1] = s->dim[2] * stride[2];
    } else if (!is_lse && how == PLACED_REPEATED && is_input) {
        stride[1] = 0;
    }
    if (!is_lse)
        stride[0] = s->dim[1] * s->dim[2] * (s->dim[3] + 3);
    int64_t count = is_lse ? shape_elements(s) : s->dim[0] * stride[0];
    b.bytes = (size_t)((count + 1) * size);
    b.block = memory_allocate(b.bytes, 1);
    memset(b.block, 0xff, b.bytes); /* NaN in every type */
    b.view.data = (char *)b.block + (how == PLACED_MISALIGNED ? size : 0);
    return b;
}

static void buffer_set(buffer *b, const double *numbers) {
    for (int64_t i = 0; i < shape_elements(&b->view.shape); i++)
        dtype_store(b->view.type, b->view.data, tensor_offset(&b->view, i), numbers[i]);
}

/* A node with operands and what the reference makes of them. */
typedef struct sample {
    graph *g;
    node *n;
    buffer in[MOST_INPUTS];
    double *dense[MOST_INPUTS], *want[MOST_OUTPUTS];
    placing how;
} sample;

typedef struct numbers {
    double q, k, v, dy; /* standard deviations */
} numbers;
static const numbers NORMAL = {1, 1, 1, 1};

static void sample_place(sample *s, int input, const double *given) {
    const value *v = s->n->inputs[input];
    s->in[input] = buffer_create(v->type, &v->shape, s->how, true);
    buffer_set(&s->in[input], given);
    s->dense[input] = tensor_to_doubles(&s->in[input].view); /* as rounded, or repeated */
}

static void sample_draw(sample *s, int input, double deviation, draw *d) {
    int64_t count = shape_elements(&s->n->inputs[input]->shape);
    double *given = memory_allocate((size_t)count, sizeof *given);
    for (int64_t i = 0; i < count; i++)
        given[i] = deviation * draw_normal(d);
    sample_place(s, input, given);
    free(given);
}

/* Inputs are set before; allocates what the node is to give. */
static void sample_expect(sample *s) {
    for (int i = 0; i < s->n->output_count; i++)
        s->want[i] =
            memory_allocate((size_t)shape_elements(&s->n->outputs[i]->shape), sizeof(double));
    s->n->op->reference(s->n, (const double *const *)s->dense, s->want);
}

static void sample_release(sample *s) {
    for (int i = 0; i < s->n->input_count; i++) {
        free(s->in[i].block);
        free(s->dense[i]);
    }
    for (int i = 0; i < s->n->output_count; i++)
        free(s->want[i]);
    graph_destroy(s->g);
}

static sample forward_without_numbers(const sizes *z, dtype type, bool is_causal, placing how) {
    sample s = {.g = graph_create("attention"), .how = how};
    shape queries = SHAPE(z->batch, z->heads, z->queries, z->head_dim);
    shape keys = SHAPE(z->batch, z->kv_heads, z->keys, z->head_dim);
    value *q = graph_add_leaf(s.g, ROLE_INPUT, type, &queries, "q");
    value *k = graph_add_leaf(s.g, ROLE_INPUT, type, &keys, "k");
    value *v = graph_add_leaf(s.g, ROLE_INPUT, type, &keys, "v");
    double scale = (float)(1 / sqrt((double)z->head_dim));
    s.n = build_attention_node(s.g, q, k, v, is_causal, scale)->producer;
    assert_int_equal(graph_status(s.g), DYNO_OK);
    return s;
}

static sample forward_sample(const sizes *z, dtype type, bool is_causal, placing how,
                             numbers drawn) {
    sample s = forward_without_numbers(z, type, is_causal, how);
    draw d = draw_create((uint64_t)(z->queries * 1000 + z->keys), 1);
    sample_draw(&s, ATTENTION_Q, drawn.q, &d);
    sample_draw(&s, ATTENTION_K, drawn.k, &d);
    sample_draw(&s, ATTENTION_V, drawn.v, &d);
    sample_expect(&s);
    return s;
}

/* The gradient's node on what the forward took and gave. */
static sample gradient_sample(const sizes *z, dtype type, bool is_causal, placing how,
                              numbers drawn) {
    sample forward = forward_sample(z, type, is_causal, how, drawn);
    sample s = {.g = graph_create("gradient"), .how = how};
    const node *n = forward.n;
    value *leaf[MOST_INPUTS];
    for (int i = 0; i < MOST_INPUTS; i++) {
        const value *like = i < 3 ? n->inputs[i] : n->outputs[i == ATTENTION_LSE];
        char name[2] = {(char)('a' + i), 0};
        leaf[i] = graph_add_leaf(s.g, ROLE_INPUT, like->type, &like->shape, name);
    }
    graph_add_node(s.g, &op_attention_gradient, leaf, MOST_INPUTS, n->attributes.items,
                   n->attributes.count);
    assert_int_equal(graph_status(s.g), DYNO_OK);
    s.n = s.g->nodes[0];
    draw d = draw_create(7, 1);
    for (int i = ATTENTION_Q; i <= ATTENTION_V; i++)
        sample_place(&s, i, forward.dense[i]);
    sample_place(&s, ATTENTION_O, forward.want[0]);
    sample_draw(&s, ATTENTION_DO, drawn.dy, &d);
    sample_place(&s, ATTENTION_LSE, forward.want[1]);
    sample_expect(&s);
    sample_release(&forward);
    return s;
}

/* False when the kernel rejects the operands; else the caller frees the outputs' blocks. `asked`:
 * attributes instead of the node's; `tiles`, if not NULL, is filled with those of the kernel. */
static bool run_asked(const sample *s, const kernel *k, const attributes *asked, buffer *out,
                      kernel_tile *tiles, int *tile_count) {
    tensor inputs[MOST_INPUTS], outputs[MOST_OUTPUTS];
    for (int i = 0; i < s->n->input_count; i++)
        inputs[i] = s->in[i].view;
    for (int i = 0; i < s->n->output_count; i++) {
        const value *v = s->n->outputs[i];
        out[i] = buffer_create(v->type, &v->shape, s->how, false);
        outputs[i] = out[i].view;
    }
    kernel_args args = {.input_count = s->n->input_count,
                        .output_count = s->n->output_count,
                        .inputs = inputs,
                        .outputs = outputs,
                        .attributes = asked};
    bool is_taken = k->backend == BACKEND_CPU && !k->reject(&args);
    if (is_taken) {
        assert_true(k->writes_strided);
        size_t bytes = k->workspace_bytes ? k->workspace_bytes(&args) : 0;
        args.workspace = bytes ? memset(memory_allocate(bytes, 1), 0xa5, bytes) : NULL;
        k->run(&args);
        free(args.workspace);
        assert_int_equal(k->tiles != NULL, k->is_tiled);
        if (tiles)
            *tile_count = k->tiles ? k->tiles(&args, tiles) : 0;
    }
    for (int i = 0; i < s->n->output_count && !is_taken; i++)
        free(out[i].block);
    return is_taken;
}

static bool run_kernel(const sample *s, const kernel *k, buffer *out) {
    return run_asked(s, k, &s->n->attributes, out, NULL, NULL);
}

/* Nothing was written but the output's elements. */
static void expect_rest_untouched(const char *who, const buffer *out) {
    unsigned char *bytes = memory_allocate(out->bytes, 1);
    memcpy(bytes, out->block, out->bytes);
    size_t begin = (size_t)((char *)out->view.data - (char *)out->block);
    size_t size = (size_t)dtype_bytes(out->view.type);
    for (int64_t i = 0; i < shape_elements(&out->view.shape); i++)
        memset(bytes + begin + (size_t)tensor_offset(&out->view, i) * size, 0xff, size);
    for (size_t i = 0; i < out->bytes; i++)
        if (bytes[i] != 0xff)
            fail_msg("%s wrote byte %zu, which is not of its output", who, i);
    free(bytes);
}

/* Off by so much at most: of the element, and besides. */
typedef struct tolerance {
    double relative, absolute;
} tolerance;

static void expect_near(const sample *s, const char *who, int index, const buffer *out,
                        tolerance t) {
    dtype type = out->view.type;
    double rounding = type == DTYPE_BF16 ? 0x1p-8 : type == DTYPE_F16 ? 0x1p-11 : 0;
    double least = type == DTYPE_F16 ? 0x1p-24 : type == DTYPE_BF16 ? 0x1p-133 : 0x1p-149;
    double *got = tensor_to_doubles(&out->view);
    for (int64_t i = 0; i < shape_elements(&out->view.shape); i++) {
        double want = s->want[index][i];
        double allowed = t.absolute + (t.relative + 1.05 * rounding) * fabs(want) + least;
        if (!(fabs(got[i] - want) <= allowed) && got[i] != want)
            fail_msg("%s, output %d, element %lld of [%s], queries %s[%s], keys [%s], placing %d: "
                     "got %.9g, want %.9g",
                     who, index, (long long)i, shape_format(&out->view.shape).text,
                     dtype_name(s->n->inputs[0]->type), shape_format(&s->n->inputs[0]->shape).text,
                     shape_format(&s->n->inputs[1]->shape).text, (int)s->how, got[i], want);
    }
    free(got);
}

static int check_kernels(const sample *s, tolerance t) {
    int taken = 0;
    for (int k = 0; s->n->op->kernels[k]; k++) {
        const kernel *used = s->n->op->kernels[k];
        buffer out[MOST_OUTPUTS];
        if (!run_kernel(s, used, out))
            continue;
        taken++;
        for (int i = 0; i < s->n->output_count; i++) {
            expect_near(s, used->name, i, &out[i], t);
            expect_rest_untouched(used->name, &out[i]);
            free(out[i].block);
        }
    }
    return taken;
}

/* Every tile of every kernel; the first is the one that is taken when none is asked for. */
static int check_tiles(const sample *s, tolerance t) {
    int checked = 0;
    for (int k = 0; s->n->op->kernels[k]; k++) {
        const kernel *used = s->n->op->kernels[k];
        kernel_tile tiles[KERNEL_MOST_TILES];
        buffer own[MOST_OUTPUTS], out[MOST_OUTPUTS];
        int count = 0;
        if (!run_asked(s, used, &s->n->attributes, own, tiles, &count))
            continue;
        for (int i = 0; i < count; i++) {
            attribute items[] = {s->n->attributes.items[0], s->n->attributes.items[1],
                                 ATTR_INTEGER(KERNEL_TILE_QUERIES, tiles[i].queries),
                                 ATTR_INTEGER(KERNEL_TILE_KEYS, tiles[i].keys)};
            attributes asked = {4, items};
            assert_int_equal(s->n->attributes.count, 2);
            assert_true(run_asked(s, used, &asked, out, NULL, NULL));
            char who[96];
            snprintf(who, sizeof who, "%s %s", used->name, kernel_tile_format(tiles[i]).text);
            for (int j = 0; j < s->n->output_count; j++) {
                expect_near(s, who, j, &out[j], t);
                expect_rest_untouched(who, &out[j]);
                if (i == 0)
                    assert_memory_equal(out[j].block, own[j].block, out[j].bytes);
                free(out[j].block);
            }
            checked++;
        }
        for (int j = 0; j < s->n->output_count; j++)
            free(own[j].block);
    }
    return checked;
}

static bool has_avx512(void) { return isa_check(ISA_AVX512).is_usable; }

/* ---- sizes, types, layouts ---- */

static void forward_agrees_with_the_reference_for_all_sizes_types_and_layouts(void **state) {
    (void)state;
    for (int z = 0; z < SIZE_COUNT; z++)
        for (int how = 0; how < PLACING_COUNT; how++)
            for (int way = 0; way < 6; way++) {
                sample s = forward_sample(&SIZES[z], TYPES[way / 2], way % 2, (placing)how, NORMAL);
                assert_int_equal(check_kernels(&s, (tolerance){2e-6, 3e-6}), 1 + has_avx512());
                sample_release(&s);
            }
}

static void gradients_agree_with_the_reference_for_all_sizes_types_and_layouts(void **state) {
    (void)state;
    for (int z = 0; z < SIZE_COUNT; z++)
        for (int how = 0; how < PLACING_COUNT; how++)
            for (int way = 0; way < 6; way++) {
                sample s =
                    gradient_sample(&SIZES[z], TYPES[way / 2], way % 2, (placing)how, NORMAL);
                assert_int_equal(check_kernels(&s, (tolerance){2e-6, 2e-5}), 1 + has_avx512());
                sample_release(&s);
            }
}

static void every_tile_agrees_with_the_reference(void **state) {
    (void)state;
    static const int64_t head_dims[] = {8, 16, 33, 64, 80, 128, 144, 256};
    for (uint64_t round = 0; round < 24; round++) {
        draw d = draw_create(round, 1);
        int64_t kv = 1 + draw_below(&d, 2);
        sizes z = {1 + draw_below(&d, 2),   kv * (1 + draw_below(&d, 3)), kv,
                   1 + draw_below(&d, 280), 1 + draw_below(&d, 280),      head_dims[round % 8]};
        dtype type = TYPES[draw_below(&d, 3)];
        placing how = (placing)draw_below(&d, PLACING_COUNT);
        bool is_causal = draw_below(&d, 3) > 0;
        sample s = forward_sample(&z, type, is_causal, how, NORMAL);
        assert_true(check_tiles(&s, (tolerance){2e-6, 3e-6}) >= 6);
        sample_release(&s);
        s = gradient_sample(&z, type, is_causal, how, NORMAL);
        assert_true(check_tiles(&s, (tolerance){2e-6, 3e-5}) >= 6);
        sample_release(&s);
    }
}

/* ---- the ends of floats ---- */

/* A float near 1e4 is known to 1e-3, and a weight to as much of itself. */
static void scores_of_ten_thousand_neither_overflow_nor_vanish(void **state) {
    (void)state;
    numbers large = {70, 70, 1, 1};
    sizes z = {1, 2, 1, 45, 150, 16};
    for (int causal = 0; causal < 2; causal++) {
        sample s = forward_sample(&z, DTYPE_F32, causal, PLACED_DENSE, large);
        double highest = 0;
        for (int64_t i = 0; i < 2 * 45; i++)
            highest = fmax(highest, s.want[1][i]);
        assert_true(highest > 1e4);
        check_kernels(&s, (tolerance){2e-3, 2e-2});
        sample_release(&s);
        s = gradient_sample(&z, DTYPE_F32, causal, PLACED_DENSE, large);
        double largest = 0;
        for (int i = 0; i < 3; i++)
            for (int64_t j = 0; j < shape_elements(&s.n->outputs[i]->shape); j++)
                largest = fmax(largest, fabs(s.want[i][j]));
        check_kernels(&s, (tolerance){2e-3, 5e-3 * largest});
        sample_release(&s);
    }
}

static void a_score_of_minus_infinity_has_no_weight(void **state) {
    (void)state;
    sizes z = {1, 1, 1, 40, 140, 8};
    for (int all = 0; all < 2; all++) {
        sample s = forward_without_numbers(&z, DTYPE_F32, false, PLACED_DENSE);
        draw d = draw_create(3, 1);
        double q[40 * 8], k[140 * 8];
        for (int i = 0; i < 40 * 8; i++)
            q[i] = i % 8 ? draw_normal(&d) : 1;
        for (int i = 0; i < 140 * 8; i++)
            k[i] = i % 8 || !(all || i / 8 < 130 || i / 8 % 2) ? draw_normal(&d) : -INFINITY;
        sample_place(&s, ATTENTION_Q, q);
        sample_place(&s, ATTENTION_K, k);
        sample_draw(&s, ATTENTION_V, 1, &d);
        sample_expect(&s);
        assert_true(!all || s.want[1][0] == -INFINITY);
        check_kernels(&s, (tolerance){2e-6, 3e-6});
        sample_release(&s);
    }
}

static void a_nan_stays_in_the_rows_that_see_it(void **state) {
    (void)state;
    sizes z = {1, 1, 1, 70, 70, 8};
    sample s = forward_without_numbers(&z, DTYPE_F32, true, PLACED_DENSE);
    draw d = draw_create(5, 1);
    double k[70 * 8];
    for (int i = 0; i < 70 * 8; i++)
        k[i] = i == 41 * 8 + 3 ? (double)NAN : draw_normal(&d);
    sample_draw(&s, ATTENTION_Q, 1, &d);
    sample_place(&s, ATTENTION_K, k);
    sample_draw(&s, ATTENTION_V, 1, &d);
    for (int i = 0; s.n->op->kernels[i]; i++) {
        buffer out[MOST_OUTPUTS];
        if (!run_kernel(&s, s.n->op->kernels[i], out))
            continue;
        for (int64_t row = 0; row < 70; row++)
            for (int64_t j = 0; j < 8; j++)
                assert_int_equal(isnan(((float *)out[0].view.data)[row * 8 + j]) != 0, row >= 41);
        for (int j = 0; j < 2; j++)
            free(out[j].block);
    }
    sample_release(&s);
}

static void subnormal_operands_are_not_lost(void **state) {
    (void)state;
    numbers tiny = {1e-40, 1e-3, 1e-39, 1e-39};
    sizes z = {1, 2, 2, 9, 35, 20};
    for (int type = 0; type < 2; type++)
        for (int causal = 0; causal < 2; causal++) {
            sample s = forward_sample(&z, TYPES[type], causal, PLACED_DENSE, tiny);
            check_kernels(&s, (tolerance){1e-6, 16 * 0x1p-149});
            /* LSE is a logarithm of small integers, O a mean of subnormals. */
            assert_true(s.want[0][0] != 0 && fabs(s.want[0][0]) < 1e-38);
            sample_release(&s);
        }
}

/* ---- threads ---- */

static void expect_same_bits(const sample *s) {
    for (int k = 0; s->n->op->kernels[k]; k++) {
        buffer first[MOST_OUTPUTS], again[MOST_OUTPUTS];
        threads_set_count(1);
        if (!run_kernel(s, s->n->op->kernels[k], first))
            continue;
        for (int count = 2; count < 6; count++) {
            threads_set_count(count);
            assert_true(run_kernel(s, s->n->op->kernels[k], again));
            for (int i = 0; i < s->n->output_count; i++) {
                assert_memory_equal(first[i].block, again[i].block, first[i].bytes);
                free(again[i].block);
            }
        }
        for (int i = 0; i < s->n->output_count; i++)
            free(first[i].block);
    }
    threads_set_count(0);
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
    (void)state;
    static const sizes several[] = {{1, 1, 1, 300, 900, 16}, {2, 4, 2, 150, 300, 40}};
    for (int z = 0; z < 2; z++)
        for (int causal = 0; causal < 2; causal++) {
            sample s = forward_sample(&several[z], DTYPE_F32, causal, PLACED_BY_TOKEN, NORMAL);
            expect_same_bits(&s);
            sample_release(&s);
            s = gradient_sample(&several[z], DTYPE_F32, causal, PLACED_BY_TOKEN, NORMAL);
            expect_same_bits(&s);
            sample_release(&s);
        }
}

/* ---- pieces ---- */

#if defined(__x86_64__)
LANES_TARGET static void exp2_of(const float *x, float *y) {
    _mm512_storeu_ps(y, exp2_lanes(_mm512_loadu_ps(x)));
}

static void exp2_is_within_two_ulps(void **state) {
    (void)state;
    if (!has_avx512())
        skip();
    float x[LANES], y[LANES];
    for (int i = 0; i < 100000; i++) {
        for (int j = 0; j < LANES; j++)
            x[j] = -155 + (float)(i * LANES + j) * (285.0f / (100000 * LANES));
        exp2_of(x, y);
        for (int j = 0; j < LANES; j++) {
            double want = exp2((double)x[j]), ulp = fmax(want * 0x1p-23, 0x1p-149);
            if (want < 0x1p128 ? fabs(y[j] - want) > 2 * ulp : !isinf(y[j]))
                fail_msg("2^%a is %a, not %a", (double)x[j], (double)y[j], want);
        }
    }
    const float ends[LANES] = {NAN, INFINITY, -INFINITY, 0.0f, -1e30f, 1e30f, 1, -1};
    exp2_of(ends, y);
    assert_true(isnan(y[0]) && isinf(y[1]) && y[2] == 0 && y[3] == 1 && y[4] == 0 && isinf(y[5]) &&
                y[6] == 2 && y[7] == 0.5f);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_agrees_with_the_reference_for_all_sizes_types_and_layouts),
        cmocka_unit_test(gradients_agree_with_the_reference_for_all_sizes_types_and_layouts),
        cmocka_unit_test(every_tile_agrees_with_the_reference),
        cmocka_unit_test(scores_of_ten_thousand_neither_overflow_nor_vanish),
        cmocka_unit_test(a_score_of_minus_infinity_has_no_weight),
        cmocka_unit_test(a_nan_stays_in_the_rows_that_see_it),
        cmocka_unit_test(subnormal_operands_are_not_lost),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
#if defined(__x86_64__)
        cmocka_unit_test(exp2_is_within_two_ulps),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
