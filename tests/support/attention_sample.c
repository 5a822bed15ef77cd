/* attention_sample.c - problems of attention for its kernels. */
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
#include "ops/levels.h"
#include "ops/matmul/gemm.h"
#include "ops/op_list.h"
#include "support/attention_sample.h"
#include "support/operand.h"

static buffer buffer_create(dtype type, const shape *s, placing how, bool is_input) {
    buffer b = {.view = tensor_contiguous(NULL, type, s)};
    int64_t *stride = b.view.stride, size = dtype_bytes(type);
    bool has_heads = s->rank == 4; /* not LSE, not a table */
    if (has_heads && how == PLACED_BY_TOKEN) {
        stride[1] = s->dim[3];
        stride[2] = s->dim[1] * s->dim[3];
    } else if (has_heads && how == PLACED_MISALIGNED) {
        stride[2] = s->dim[3] + 3;
        stride[1] = s->dim[2] * stride[2];
    } else if (has_heads && how == PLACED_REPEATED && is_input) {
        stride[1] = 0;
    }
    if (has_heads)
        stride[0] = s->dim[1] * s->dim[2] * (s->dim[3] + 3);
    int64_t count = has_heads ? s->dim[0] * stride[0] : shape_elements(s);
    b.bytes = (size_t)((count + 1) * size);
    b.block = memory_allocate(b.bytes, 1);
    memset(b.block, 0xff, b.bytes); /* NaN in every type */
    b.view.data = (char *)b.block + (how == PLACED_MISALIGNED ? size : 0);
    return b;
}

static void buffer_set(buffer *b, const double *given) {
    for (int64_t i = 0; i < shape_elements(&b->view.shape); i++)
        dtype_store(b->view.type, b->view.data, tensor_offset(&b->view, i), given[i]);
}

void sample_place(sample *s, int input, const double *given) {
    const value *v = s->n->inputs[input];
    s->in[input] = buffer_create(v->type, &v->shape, s->how, true);
    buffer_set(&s->in[input], given);
    s->dense[input] = tensor_to_doubles(&s->in[input].view); /* as rounded, or repeated */
}

void sample_draw(sample *s, int input, double deviation, draw *d) {
    int64_t count = shape_elements(&s->n->inputs[input]->shape);
    double *given = memory_allocate((size_t)count, sizeof *given);
    for (int64_t i = 0; i < count; i++)
        given[i] = deviation * draw_normal(d);
    sample_place(s, input, given);
    free(given);
}

static double *zeros_like(const value *v) {
    size_t count = (size_t)shape_elements(&v->shape);
    double *x = memory_allocate(count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = 0;
    return x;
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* to += factor |x| */
static void add_magnitudes(double factor, const double *x, int64_t count, double *to) {
    for (int64_t i = 0; i < count; i++)
        to[i] += factor * fabs(x[i]);
}

/* O = P V and the gradients again, with magnitudes in place of numbers. */
static void add_terms(sample *s) {
    const shape *q = &s->n->inputs[ATTENTION_Q]->shape, *k = &s->n->inputs[ATTENTION_K]->shape;
    int64_t H = q->dim[1], K = k->dim[1], T = q->dim[2], T2 = k->dim[2], S = q->dim[3];
    bool is_causal = attribute_integer(&s->n->attributes, "causal") != 0;
    bool is_gradient = s->n->op == &op_attention_gradient;
    double scale = attribute_real(&s->n->attributes, "scale");
    for (int64_t row = 0; row < q->dim[0] * H * T; row++) {
        int64_t i = row % T, h = row / T % H, b = row / T / H, keys = (b * K + h / (H / K)) * T2;
        int64_t seen = is_causal ? i + 1 + T2 - T : T2;
        const double *query = s->dense[ATTENTION_Q] + row * S;
        double lse = is_gradient ? s->dense[ATTENTION_LSE][row] : s->want[1][row];
        for (int64_t j = keys; j < keys + seen; j++) {
            const double *value_row = s->dense[ATTENTION_V] + j * S;
            double p = exp(scale * dot(query, s->dense[ATTENTION_K] + j * S, S) - lse);
            if (!is_gradient) {
                add_magnitudes(p, value_row, S, s->terms[0] + row * S);
                continue;
            }
            const double *dy = s->dense[ATTENTION_DO] + row * S;
            double mean = dot(dy, s->dense[ATTENTION_O] + row * S, S);
            double ds = fabs(scale * p * (dot(dy, value_row, S) - mean));
            add_magnitudes(ds, s->dense[ATTENTION_K] + j * S, S, s->terms[ATTENTION_Q] + row * S);
            add_magnitudes(ds, query, S, s->terms[ATTENTION_K] + j * S);
            add_magnitudes(p, dy, S, s->terms[ATTENTION_V] + j * S);
        }
    }
}

void sample_expect(sample *s) {
    for (int i = 0; i < s->n->output_count; i++) {
        s->want[i] = zeros_like(s->n->outputs[i]);
        s->terms[i] = zeros_like(s->n->outputs[i]);
    }
    s->n->op->reference(s->n, (const double *const *)s->dense, s->want);
    add_terms(s);
}

static void forget_expectations(sample *s) {
    for (int i = 0; i < s->n->output_count; i++) {
        free(s->want[i]);
        free(s->terms[i]);
    }
}

void sample_expect_again(sample *s) {
    forget_expectations(s);
    sample_expect(s);
}

void sample_release(sample *s) {
    for (int i = 0; i < s->n->input_count; i++) {
        free(s->in[i].block);
        free(s->dense[i]);
    }
    forget_expectations(s);
    graph_destroy(s->g);
}

/* Of any angles: what positions they are of is nothing to kernels. */
static void place_tables(sample *s) {
    draw d = draw_create(11, 1);
    int at = s->n->op->input_count;
    int64_t count = shape_elements(&s->n->inputs[at]->shape);
    double *cosine = memory_allocate((size_t)count, sizeof *cosine);
    double *sine = memory_allocate((size_t)count, sizeof *sine);
    for (int64_t i = 0; i < count; i++) {
        double angle = draw_uniform(&d, -4, 4);
        cosine[i] = cos(angle);
        sine[i] = sin(angle);
    }
    sample_place(s, at, cosine);
    sample_place(s, at + 1, sine);
    free(cosine);
    free(sine);
}

static sample without_numbers(const sizes *z, dtype type, bool is_causal, placing how,
                              bool is_rotated) {
    sample s = {.g = graph_create("attention"), .how = how};
    shape queries = SHAPE(z->batch, z->heads, z->queries, z->head_dim);
    shape keys = SHAPE(z->batch, z->kv_heads, z->keys, z->head_dim);
    shape angles = SHAPE(z->queries > z->keys ? z->queries : z->keys, z->head_dim / 2);
    value *q = graph_add_leaf(s.g, ROLE_INPUT, type, &queries, "q");
    value *k = graph_add_leaf(s.g, ROLE_INPUT, type, &keys, "k");
    value *v = graph_add_leaf(s.g, ROLE_INPUT, type, &keys, "v");
    rope_table table = {0};
    if (is_rotated) {
        table.cos = graph_add_leaf(s.g, ROLE_INPUT, DTYPE_F32, &angles, "cos");
        table.sin = graph_add_leaf(s.g, ROLE_INPUT, DTYPE_F32, &angles, "sin");
    }
    double scale = (float)(1 / sqrt((double)z->head_dim));
    s.n = build_rotated_attention(s.g, q, k, v, table, is_causal, scale)->producer;
    assert_int_equal(graph_status(s.g), DYNO_OK);
    if (is_rotated)
        place_tables(&s);
    return s;
}

sample forward_without_numbers(const sizes *z, dtype type, bool is_causal, placing how) {
    return without_numbers(z, type, is_causal, how, false);
}

sample rotated_without_numbers(const sizes *z, dtype type, bool is_causal, placing how) {
    return without_numbers(z, type, is_causal, how, true);
}

static void draw_forward(sample *s, const sizes *z, numbers drawn) {
    draw d = draw_create((uint64_t)(z->queries * 1000 + z->keys), 1);
    sample_draw(s, ATTENTION_Q, drawn.q, &d);
    sample_draw(s, ATTENTION_K, drawn.k, &d);
    sample_draw(s, ATTENTION_V, drawn.v, &d);
    sample_expect(s);
}

sample forward_sample(const sizes *z, dtype type, bool is_causal, placing how, numbers drawn) {
    sample s = forward_without_numbers(z, type, is_causal, how);
    draw_forward(&s, z, drawn);
    return s;
}

sample rotated_sample(const sizes *z, dtype type, bool is_causal, placing how, numbers drawn) {
    sample s = rotated_without_numbers(z, type, is_causal, how);
    draw_forward(&s, z, drawn);
    return s;
}

sample gradient_of(sample *forward, double dy_deviation) {
    sample s = {.g = graph_create("gradient"), .how = forward->how};
    const node *n = forward->n;
    int plain = op_attention_gradient.input_count, tables = n->input_count - n->op->input_count;
    value *leaf[MOST_INPUTS];
    for (int i = 0; i < plain + tables; i++) {
        const value *like = i >= plain ? n->inputs[n->op->input_count + i - plain]
                            : i < 3    ? n->inputs[i]
                                       : n->outputs[i == ATTENTION_LSE];
        char name[2] = {(char)('a' + i), 0};
        leaf[i] = graph_add_leaf(s.g, ROLE_INPUT, like->type, &like->shape, name);
    }
    graph_add_node(s.g, &op_attention_gradient, leaf, plain + tables, n->attributes.items,
                   n->attributes.count);
    assert_int_equal(graph_status(s.g), DYNO_OK);
    s.n = s.g->nodes[0];
    draw d = draw_create(7, 1);
    for (int i = ATTENTION_Q; i <= ATTENTION_V; i++)
        sample_place(&s, i, forward->dense[i]);
    for (int i = 0; i < tables; i++)
        sample_place(&s, plain + i, forward->dense[n->op->input_count + i]);
    sample_place(&s, ATTENTION_O, forward->want[0]);
    sample_draw(&s, ATTENTION_DO, dy_deviation, &d);
    sample_place(&s, ATTENTION_LSE, forward->want[1]);
    sample_expect(&s);
    sample_release(forward);
    return s;
}

sample gradient_sample(const sizes *z, dtype type, bool is_causal, placing how, numbers drawn) {
    sample forward = forward_sample(z, type, is_causal, how, drawn);
    return gradient_of(&forward, drawn.dy);
}

/* As compiled for `chip`. `variant`: asked for, or NULL; `all`, if not NULL, is filled with those of
 * the kernel. */
static bool run_variant(const sample *s, const kernel *k, const target *chip, const char *variant,
                        buffer *out, kernel_variant *all, int *count) {
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
                        .attributes = &s->n->attributes,
                        .variant = variant,
                        .target = chip};
    bool is_taken = k->target == TARGET_CPU && !k->reject(&args);
    if (is_taken) {
        assert_true(k->writes_strided);
        size_t bytes = k->workspace_bytes ? k->workspace_bytes(&args) : 0;
        args.workspace = bytes ? memset(memory_allocate(bytes, 1), 0xa5, bytes) : NULL;
        level_kernel(k, args.target)->run(&args);
        free(args.workspace);
        assert_non_null(k->variants);
        if (all)
            *count = k->variants(&args, all);
    }
    for (int i = 0; i < s->n->output_count && !is_taken; i++)
        free(out[i].block);
    return is_taken;
}

bool run_kernel(const sample *s, const kernel *k, buffer *out) {
    return run_variant(s, k, target_this_cpu(), NULL, out, NULL, NULL);
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

bool rounds_weights(const kernel *k) { return strstr(k->name, "_bf16_") != NULL; }

static bool can_multiply(gemm_method method) {
    gemm_problem p = {.m = 1,
                      .n = 1,
                      .k = 1,
                      .a = {.type = DTYPE_BF16},
                      .b = {.type = DTYPE_BF16},
                      .c_type = DTYPE_F32};
    return !gemm_reject(method, &p) && !gemm_pass_over(method, &p);
}

int kernels_here(dtype type) {
    int count = 1 + isa_check(ISA_AVX2).is_usable + isa_check(ISA_AVX512).is_usable;
    if (type == DTYPE_BF16)
        count += can_multiply(GEMM_AMX) + can_multiply(GEMM_AVX512_BF16);
    return count;
}

static void expect_near(const sample *s, const kernel *used, const char *who, int index,
                        const buffer *out, tolerance t) {
    dtype type = out->view.type;
    double rounding = type == DTYPE_BF16 ? 0x1p-8 : type == DTYPE_F16 ? 0x1p-11 : 0;
    double least = type == DTYPE_F16 ? 0x1p-24 : type == DTYPE_BF16 ? 0x1p-133 : 0x1p-149;
    double of_terms = 0;
    if (rounds_weights(used)) {
        of_terms = 0x1.02p-8;
        least = 0x1p-126;
    }
    double *got = tensor_to_doubles(&out->view);
    bool is_lse = out->view.shape.rank == 3;
    for (int64_t i = 0; i < shape_elements(&out->view.shape); i++) {
        double want = s->want[index][i];
        double allowed = t.absolute + (t.relative + 1.05 * rounding) * fabs(want) + least +
                         of_terms * s->terms[index][i];
        bool is_right = got[i] == want || fabs(got[i] - want) <= allowed ||
                        ((isnan(want) || (isinf(want) && !is_lse)) && !isfinite(got[i]));
        if (!is_right)
            fail_msg("%s, output %d, element %lld of [%s], queries %s[%s], keys [%s], placing %d: "
                     "got %.9g, want %.9g",
                     who, index, (long long)i, shape_format(&out->view.shape).text,
                     dtype_name(s->n->inputs[0]->type), shape_format(&s->n->inputs[0]->shape).text,
                     shape_format(&s->n->inputs[1]->shape).text, (int)s->how, got[i], want);
    }
    free(got);
}

static bool check_kernel_for(const target *chip, const sample *s, const kernel *k, tolerance t) {
    buffer out[MOST_OUTPUTS];
    if (!run_variant(s, k, chip, NULL, out, NULL, NULL))
        return false;
    char who[96];
    snprintf(who, sizeof who, "%s for %s", k->name, chip->name);
    for (int i = 0; i < s->n->output_count; i++) {
        expect_near(s, k, who, i, &out[i], t);
        expect_rest_untouched(who, &out[i]);
        free(out[i].block);
    }
    return true;
}

/* What a machine with AVX2 takes, as it is compiled for one. */
static void check_as_avx2(const sample *s, tolerance t) {
    const target *narrow;
    assert_int_equal(target_find("avx2", &narrow), DYNO_OK);
    if (!target_has(target_this_cpu(), ISA_AVX512) || target_check_is_runnable(narrow) != DYNO_OK)
        return;
    int k = 0;
    while (s->n->op->kernels[k] && !check_kernel_for(narrow, s, s->n->op->kernels[k], t))
        k++;
    assert_non_null(s->n->op->kernels[k]);
}

int check_kernels(const sample *s, tolerance t) {
    int taken = 0;
    for (int k = 0; s->n->op->kernels[k]; k++)
        taken += check_kernel_for(target_this_cpu(), s, s->n->op->kernels[k], t);
    check_as_avx2(s, t);
    return taken;
}

int check_variants(const sample *s, tolerance t) {
    int checked = 0;
    for (int k = 0; s->n->op->kernels[k]; k++) {
        const kernel *used = s->n->op->kernels[k];
        kernel_variant all[KERNEL_MOST_VARIANTS];
        buffer own[MOST_OUTPUTS], out[MOST_OUTPUTS];
        int count = 0;
        if (!run_variant(s, used, target_this_cpu(), NULL, own, all, &count))
            continue;
        for (int i = 0; i < count; i++) {
            assert_true(run_variant(s, used, target_this_cpu(), all[i].name, out, NULL, NULL));
            char who[96];
            snprintf(who, sizeof who, "%s %.23s", used->name, all[i].name);
            for (int j = 0; j < s->n->output_count; j++) {
                expect_near(s, used, who, j, &out[j], t);
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

void expect_same_bits_with_threads(const sample *s) {
    for (int k = 0; s->n->op->kernels[k]; k++) {
        buffer first[MOST_OUTPUTS], again[MOST_OUTPUTS];
        threads_set_count(1);
        if (!run_kernel(s, s->n->op->kernels[k], first))
            continue;
        for (int count = 2; count <= 8; count++) {
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
