/* test_cuda_attention_kernels.c - every kernel of attention with every variant it has, on drawn
 * problems: against the reference in double, and the same bits twice. Nothing beside the outputs may
 * be written (device_run.h). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/attention/cuda/attention_workspace.h"
#include "ops/op_list.h"
#include "support/attention_sample.h"
#include "support/device_bench.h"
#include "support/device_run.h"
#include "support/operand.h"

/* A drawn problem. */
typedef struct problem {
    sizes z;
    dtype type;
    bool is_causal, is_tf32, has_inverse_rope;
    placing how;
    double size; /* of numbers; of large ones scores are in the hundreds */
} problem;

static int below(draw *d, int limit) { return (int)draw_uniform(d, 0, limit - 1e-9); }

static int64_t draw_length(draw *d, int longest) {
    static const int edges[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191, 193};
    int64_t edge = edges[below(d, (int)(sizeof edges / sizeof *edges))];
    return below(d, 2) && edge <= longest ? edge : 1 + below(d, longest);
}

/* Any type, layout and head size. */
static problem draw_any(draw *d, int round, int longest) {
    static const int heads[] = {8, 16, 20, 32, 40, 64, 72, 80, 96, 100, 128, 160, 192, 256};
    static const dtype types[] = {DTYPE_BF16, DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    int64_t kv_heads = 1 + below(d, 2), queries = draw_length(d, longest);
    problem p = {.z = {.batch = 1 + below(d, 2),
                       .heads = kv_heads * (1 + below(d, 3)),
                       .kv_heads = kv_heads,
                       .queries = queries,
                       .keys = below(d, 3) ? queries : draw_length(d, longest),
                       .head_dim = heads[below(d, (int)(sizeof heads / sizeof *heads))]},
                 .type = types[round % 4],
                 .is_causal = below(d, 2),
                 .how = (placing)below(d, PLACING_COUNT)};
    p.is_tf32 = p.type == DTYPE_F32 && below(d, 2);
    /* Scores of hundreds in tf32 are off by tenths, and so is all that follows. */
    p.size = p.is_tf32 || below(d, 6) ? 1 : 20;
    p.has_inverse_rope = p.type != DTYPE_F32 && attention_can_rotate_back(p.z.head_dim) &&
                         p.z.queries == p.z.keys && below(d, 3);
    return p;
}

/* What the kernels for sm_90 take. Some have so many heads that every block gets several tiles. */
static problem draw_aligned(draw *d, int round, int longest) {
    static const int heads[] = {64, 256, 80, 192, 96,  136, 128, 248,
                                64, 40,  80, 72,  104, 160, 112, 120};
    problem p = draw_any(d, round % 3, longest);
    p.z.head_dim = heads[round % 16];
    p.z.kv_heads = round % 5 == 2 ? 12 + below(d, 6) : p.z.kv_heads;
    p.z.heads = p.z.kv_heads * (1 + below(d, 3));
    p.z.batch = 1; /* others lie an odd number of elements apart (attention_sample.c) */
    p.how = below(d, 2) ? PLACED_DENSE : PLACED_BY_TOKEN;
    p.has_inverse_rope =
        attention_can_rotate_back(p.z.head_dim) && p.z.queries == p.z.keys && below(d, 3);
    return p;
}

/* So few heads that keys are split; some rows see nothing. */
static problem draw_few(draw *d, int round, int longest) {
    static const int heads[] = {8, 16, 20, 32, 64, 80, 96, 100, 128, 128, 192, 256};
    problem p = draw_any(d, round, longest);
    p.z.batch = p.z.kv_heads = p.z.heads = 1;
    p.z.head_dim = heads[round % 12];
    p.z.queries = longest / 2 + below(d, longest);
    p.z.keys = below(d, 2) ? p.z.queries : longest + below(d, longest);
    p.has_inverse_rope = false;
    return p;
}

/* ---- samples ---- */

/* The sample's node with other attributes, and with tables behind its inputs; releases it. */
static sample rebuild(sample *from, const problem *p) {
    sample s = {.g = graph_create("attention"), .how = from->how};
    const node *n = from->n;
    shape angles = SHAPE(p->z.queries, p->z.head_dim / 2);
    attribute list[4] = {n->attributes.items[0], n->attributes.items[1]};
    int count = n->input_count, listed = 2;
    value *leaf[MOST_INPUTS];
    bool has_tables = p->has_inverse_rope && n->op == &op_attention_gradient;
    for (int i = 0; i < count + 2 * has_tables; i++) {
        char name[2] = {(char)('a' + i), 0};
        leaf[i] = graph_add_leaf(s.g, ROLE_INPUT, i < count ? n->inputs[i]->type : DTYPE_F32,
                                 i < count ? &n->inputs[i]->shape : &angles, name);
    }
    if (p->is_tf32)
        list[listed++] = ATTR_INTEGER("tf32", 1);
    if (has_tables)
        list[listed++] = ATTR_INTEGER("inverse_rope", 1);
    graph_add_node(s.g, n->op, leaf, count + 2 * has_tables, list, listed);
    assert_int_equal(graph_status(s.g), DYNO_OK);
    s.n = s.g->nodes[0];
    for (int i = 0; i < count; i++)
        sample_place(&s, i, from->dense[i]);
    if (has_tables) {
        draw d = draw_create((uint64_t)p->z.queries, 5);
        int64_t elements = shape_elements(&angles);
        double *table[2];
        for (int i = 0; i < 2; i++)
            table[i] = memory_allocate((size_t)elements, sizeof **table);
        for (int64_t i = 0; i < elements; i++) {
            double angle = draw_uniform(&d, -4, 4);
            table[0][i] = cos(angle);
            table[1][i] = sin(angle);
        }
        for (int i = 0; i < 2; i++) {
            sample_place(&s, count + i, table[i]);
            free(table[i]);
        }
    }
    sample_expect(&s);
    sample_release(from);
    return s;
}

static sample make_sample(const problem *p, bool is_gradient) {
    numbers drawn = {p->size, 1, p->size, 1};
    sample s = forward_sample(&p->z, p->type, p->is_causal, p->how, drawn);
    if (is_gradient)
        s = gradient_of(&s, drawn.dy);
    return p->is_tf32 || p->has_inverse_rope ? rebuild(&s, p) : s;
}

/* ---- comparing ---- */

/* The largest difference over the largest number: rounding P and dS to the type makes that much.
 * Scores of hundreds make LSE's own rounding show, and gradients vanish but for it. */
static double limit_of(const problem *p, bool is_lse) {
    if (is_lse)
        return p->is_tf32 ? 1e-3 : 1e-5;
    double limit = p->is_tf32             ? 5e-3
                   : p->type == DTYPE_F32 ? 2e-5
                   : p->type == DTYPE_F16 ? 3e-3
                                          : 1.5e-2;
    return p->size > 3 ? limit * (p->type == DTYPE_F32 ? 100 : 2) : limit;
}

static double error_of(const double *got, const double *want, int64_t count, double least) {
    double difference = 0, size = least;
    for (int64_t i = 0; i < count; i++) {
        if (got[i] == want[i]) /* infinities, of rows that see nothing */
            continue;
        double off = fabs(got[i] - want[i]);
        difference = off <= difference ? difference : off; /* NaN stays */
        size = fmax(size, fabs(want[i]));
    }
    return difference / size;
}

static void compare(const problem *p, const sample *s, const kernel *k, const char *variant,
                    const tensor *out) {
    for (int i = 0; i < s->n->output_count; i++) {
        bool is_lse = out[i].shape.rank == 3;
        /* Of one key dS is 0 but for the rounding of dO V^T and of rowsum(O dO). */
        double least = is_lse ? 10 : p->z.keys == 1 ? p->size : 0.2 * p->size;
        double *got = tensor_to_doubles(&out[i]);
        double error = error_of(got, s->want[i], shape_elements(&out[i].shape), least);
        free(got);
        if (!(error <= limit_of(p, is_lse)))
            fail_msg(
                "%s %s, output %d: off by %g (limit %g); batch %lld, heads %lld/%lld, "
                "%lldx%lld, head size %lld, %s, causal %d, placing %d, size %g, inverse RoPE %d",
                k->name, variant ? variant : "", i, error, limit_of(p, is_lse),
                (long long)p->z.batch, (long long)p->z.heads, (long long)p->z.kv_heads,
                (long long)p->z.queries, (long long)p->z.keys, (long long)p->z.head_dim,
                p->is_tf32 ? "tf32" : dtype_name(p->type), p->is_causal, (int)p->how, p->size,
                p->has_inverse_rope);
    }
}

static int64_t extent_of(const tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < t->shape.rank; i++)
        last += (t->shape.dim[i] - 1) * t->stride[i];
    return (last + 1) * dtype_bytes(t->type);
}

/* Whether the kernel takes the operands. */
static bool check_variant(device_kernel *how, const problem *p, const sample *s, const kernel *k,
                          const char *variant) {
    tensor in[MOST_INPUTS], out[MOST_OUTPUTS], again[MOST_OUTPUTS];
    for (int i = 0; i < s->n->input_count; i++)
        in[i] = s->in[i].view;
    tensor by_token = tensor_contiguous(NULL, p->type, &s->n->outputs[0]->shape);
    by_token.stride[1] = p->z.head_dim;
    by_token.stride[2] = p->z.heads * p->z.head_dim;
    how->output = p->how == PLACED_BY_TOKEN ? &by_token : NULL;
    how->variant = variant;
    uint64_t count = how->count;
    if (device_kernel_run(how, s->n, k, in, out))
        return false;
    compare(p, s, k, variant, out);
    how->count = count; /* at the same addresses */
    assert_null(device_kernel_run(how, s->n, k, in, again));
    for (int i = 0; i < s->n->output_count; i++) {
        assert_memory_equal(out[i].data, again[i].data, (size_t)extent_of(&out[i]));
        free(out[i].data);
        free(again[i].data);
    }
    return true;
}

/* How many kernels took it. */
static int check_sample(device_kernel *how, const problem *p, bool is_gradient) {
    sample s = make_sample(p, is_gradient);
    tensor in[MOST_INPUTS], out[MOST_OUTPUTS];
    for (int i = 0; i < s.n->input_count; i++)
        in[i] = s.in[i].view;
    for (int i = 0; i < s.n->output_count; i++)
        out[i] = tensor_contiguous(NULL, s.n->outputs[i]->type, &s.n->outputs[i]->shape);
    kernel_args args = {.input_count = s.n->input_count,
                        .output_count = s.n->output_count,
                        .inputs = in,
                        .outputs = out,
                        .attributes = &s.n->attributes,
                        .target = &how->d->target};
    int taken = 0;
    for (int k = 0; s.n->op->kernels[k]; k++) {
        const kernel *used = s.n->op->kernels[k];
        kernel_variant all[KERNEL_MOST_VARIANTS];
        if (used->target != how->d->target.kind || !check_variant(how, p, &s, used, NULL))
            continue;
        taken++;
        int count = used->variants ? used->variants(&args, all) : 0;
        for (int i = 0; i < count; i++)
            check_variant(how, p, &s, used, all[i].name);
    }
    sample_release(&s);
    return taken;
}

static void check_rounds(void **state, problem (*drawn)(draw *d, int round, int longest),
                         int rounds, int longest) {
    device_kernel how = {.d = device_bench_open(state), .is_aligned = drawn == draw_aligned};
    draw d = draw_create(3, 1);
    for (int round = 0; round < rounds; round++) {
        problem p = drawn(&d, round, round % 8 == 7 ? 3 * longest : longest);
        for (int is_gradient = 0; is_gradient < 2; is_gradient++)
            assert_true(check_sample(&how, &p, is_gradient) > 0);
    }
}

static void all_kernels_agree_with_the_reference_on_drawn_problems(void **state) {
    check_rounds(state, draw_any, device_bench_rounds(48, 6), device_bench_rounds(150, 70));
}

static void kernels_for_aligned_rows_do_too(void **state) {
    check_rounds(state, draw_aligned, device_bench_rounds(48, 8), device_bench_rounds(200, 70));
}

static void so_do_kernels_that_split_what_few_heads_go_over(void **state) {
    check_rounds(state, draw_few, device_bench_rounds(24, 4), device_bench_rounds(600, 300));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kernels_agree_with_the_reference_on_drawn_problems),
        cmocka_unit_test(kernels_for_aligned_rows_do_too),
        cmocka_unit_test(so_do_kernels_that_split_what_few_heads_go_over),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
