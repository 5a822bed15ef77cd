/* test_attention_choice.c - which of attention's kernels a plan names, those for CUDA with which
 * variants and how much scratch, for problems on chips that need not be here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "ops/attention/attention.h"
#include "ops/attention/cuda/attention_variants.h"
#include "ops/op_list.h"

enum { INPUTS = ATTENTION_LSE + 1 + ATTENTION_TABLES };

/* A node of either op, dense. */
typedef struct call {
    tensor in[INPUTS], out[3];
    attribute items[3];
    attributes attributes;
    kernel_args args;
} call;

typedef struct problem {
    int64_t batch, heads, kv_heads, queries, keys, head_dim;
    dtype type;
    bool is_causal, has_inverse_rope;
} problem;

static const target *chip(const char *name) {
    const target *found;
    assert_int_equal(target_find(name, &found), DYNO_OK);
    return found;
}

static void describe(const problem *p, bool is_gradient, const char *on, call *c) {
    shape q = SHAPE(p->batch, p->heads, p->queries, p->head_dim);
    shape k = SHAPE(p->batch, p->kv_heads, p->keys, p->head_dim);
    shape lse = SHAPE(p->batch, p->heads, p->queries), angles = SHAPE(p->queries, p->head_dim / 2);
    const shape *inputs[INPUTS] = {&q, &k, &k, &q, &q, &lse, &angles, &angles};
    for (int i = 0; i < INPUTS; i++)
        c->in[i] = tensor_contiguous(NULL, i < ATTENTION_LSE ? p->type : DTYPE_F32, inputs[i]);
    c->out[0] = c->in[ATTENTION_Q];
    c->out[1] = is_gradient ? c->in[ATTENTION_K] : c->in[ATTENTION_LSE];
    c->out[2] = c->in[ATTENTION_K];
    c->items[0] = ATTR_INTEGER("causal", p->is_causal);
    c->items[1] = ATTR_REAL("scale", 0.125);
    c->items[2] = ATTR_INTEGER("inverse_rope", 1);
    c->attributes = (attributes){p->has_inverse_rope ? 3 : 2, c->items};
    c->args = (kernel_args){.input_count = !is_gradient          ? 3
                                           : p->has_inverse_rope ? INPUTS
                                                                 : ATTENTION_LSE + 1,
                            .output_count = is_gradient ? 3 : 2,
                            .inputs = c->in,
                            .outputs = c->out,
                            .attributes = &c->attributes,
                            .target = chip(on)};
}

static const kernel *choose(const call *c) {
    const op *of = c->args.output_count == 3 ? &op_attention_gradient : &op_attention;
    return kernel_pick(of->kernels, &c->args, NULL);
}

static void expect_choice(const problem *p, bool is_gradient, const char *on, const char *want) {
    call c;
    describe(p, is_gradient, on, &c);
    const kernel *got = choose(&c);
    assert_non_null(got);
    if (strcmp(got->name, want) != 0)
        fail_msg("%lld x %lld heads of %lld, %lld queries on %s: %s, want %s", (long long)p->batch,
                 (long long)p->heads, (long long)p->head_dim, (long long)p->queries, on, got->name,
                 want);
}

static void each_cpu_gets_the_kernels_of_its_instruction_set(void **state) {
    (void)state;
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int i = 0; i < 3; i++) {
        problem p = {2, 4, 2, 100, 130, 64, types[i], true, false};
        expect_choice(&p, false, "avx2", "attention_avx2");
        expect_choice(&p, true, "avx2", "attention_gradient_avx2");
        expect_choice(&p, false, "avx512", "attention_avx512");
        expect_choice(&p, true, "avx512", "attention_gradient_avx512");
    }
}

static void each_chip_gets_its_own_kernels(void **state) {
    (void)state;
    static const struct {
        problem p;
        const char *hopper, *hopper_gradient, *other, *other_gradient;
    } rows[] = {
        {{4, 12, 12, 512, 512, 64, DTYPE_BF16, true, false},
         "attention_hopper",
         "attention_gradient_hopper",
         "attention_mma",
         "attention_gradient_mma"},
        {{4, 32, 32, 1024, 1024, 80, DTYPE_F16, true, true},
         "attention_hopper",
         "attention_gradient_hopper",
         "attention_mma",
         "attention_gradient_mma"},
        {{1, 16, 16, 16384, 16384, 64, DTYPE_BF16, true, false},
         "attention_hopper",
         "attention_gradient_hopper_single_pass",
         "attention_mma",
         "attention_gradient_mma"},
        {{2, 16, 16, 8192, 8192, 128, DTYPE_BF16, false, true},
         "attention_hopper",
         "attention_gradient_hopper_single_pass",
         "attention_mma",
         "attention_gradient_mma"},
        {{2, 16, 16, 8192, 8192, 96, DTYPE_BF16, true, false}, /* no single pass of this size */
         "attention_hopper",
         "attention_gradient_hopper",
         "attention_mma",
         "attention_gradient_mma"},
        {{4, 16, 4, 4096, 4096, 256, DTYPE_BF16, true, false},
         "attention_hopper",
         "attention_gradient_hopper_wide",
         "attention_mma",
         "attention_gradient_mma"},
        {{8, 16, 16, 512, 512, 32, DTYPE_BF16, true, false}, /* too small for Hopper's kernels */
         "attention_mma",
         "attention_gradient_mma",
         "attention_mma",
         "attention_gradient_mma"},
        {{8, 16, 16, 512, 512, 100, DTYPE_BF16, true, false}, /* rows of 200 bytes */
         "attention_mma",
         "attention_gradient_mma",
         "attention_mma",
         "attention_gradient_mma"},
        {{1, 1, 1, 4096, 4096, 64, DTYPE_BF16, true, false}, /* few heads */
         "attention_split_kv",
         "attention_gradient_split_kv",
         "attention_split_kv",
         "attention_gradient_split_kv"},
        {{1, 1, 1, 65536, 65536, 64, DTYPE_BF16, true, false}, /* which rows fill by themselves */
         "attention_hopper",
         "attention_gradient_hopper",
         "attention_mma",
         "attention_gradient_mma"},
        {{8, 1, 1, 4096, 4096, 64, DTYPE_F32, false, false},
         "attention_tf32",
         "attention_gradient_tf32",
         "attention_tf32",
         "attention_gradient_tf32"},
    };
    static const char *const hoppers[] = {"h200", "h100"}, *const others[] = {"a100", "4090"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int j = 0; j < 2; j++) {
            problem forward = rows[i].p;
            forward.has_inverse_rope = false;
            expect_choice(&forward, false, hoppers[j], rows[i].hopper);
            expect_choice(&rows[i].p, true, hoppers[j], rows[i].hopper_gradient);
            expect_choice(&forward, false, others[j], rows[i].other);
            expect_choice(&rows[i].p, true, others[j], rows[i].other_gradient);
        }
}

static void rows_that_are_not_aligned_go_to_kernels_that_bear_it(void **state) {
    (void)state;
    problem p = {4, 12, 12, 512, 512, 64, DTYPE_BF16, true, false};
    for (int is_gradient = 0; is_gradient < 2; is_gradient++) {
        const char *want = is_gradient ? "attention_gradient_mma" : "attention_mma";
        call c;
        describe(&p, is_gradient, "h200", &c);
        c.args.offset_bits = 8;
        assert_string_equal(choose(&c)->name, want);
        c.args.offset_bits = 4096 | 16;
        assert_string_not_equal(choose(&c)->name, want);
        c.in[ATTENTION_K].stride[2] = 68; /* elements */
        assert_string_equal(choose(&c)->name, want);
        c.in[ATTENTION_K].stride[2] = 72;
        assert_string_not_equal(choose(&c)->name, want);
        c.in[ATTENTION_V].stride[1] = 0; /* one head for all */
        assert_string_equal(choose(&c)->name, want);
    }
}

static void reasons_say_why_a_row_declines(void **state) {
    (void)state;
    problem p = {4, 12, 12, 512, 512, 64, DTYPE_BF16, true, false};
    call c;
    describe(&p, true, "a100", &c);
    assert_string_equal(kernel_reject(&attention_gradient_hopper, &c.args), "is for sm_90");
    assert_string_equal(kernel_reject(&attention_gradient_tf32, &c.args), "takes f32");
    assert_non_null(strstr(kernel_reject(&attention_gradient_split_kv, &c.args), "does not pay"));
    c.args.target = chip("h200");
    assert_null(kernel_reject(&attention_gradient_hopper, &c.args));
    /* It can, though two passes are faster: who wants it gets it. */
    assert_null(kernel_reject(&attention_gradient_hopper_single_pass, &c.args));
    assert_non_null(attention_gradient_hopper_single_pass.yield(&c.args));
    kernel_variant variant;
    assert_ptr_equal(
        kernel_find_wanted(op_attention_gradient.kernels, &c.args, "128x128", &variant),
        &attention_gradient_hopper_single_pass);
    assert_string_equal(variant.name, "128x128");
    assert_ptr_equal(kernel_find_wanted(op_attention_gradient.kernels, &c.args,
                                        "attention_gradient_mma:32x64", &variant),
                     &attention_gradient_mma);
    assert_null(
        kernel_find_wanted(op_attention_gradient.kernels, &c.args, "attention_mma", &variant));
}

static size_t bytes_of(const kernel *k, const problem *p, bool is_gradient) {
    call c;
    describe(p, is_gradient, "h200", &c);
    assert_null(kernel_reject(k, &c.args));
    return k->workspace_bytes ? k->workspace_bytes(&c.args) : 0;
}

static void scratch_is_what_the_row_itself_needs(void **state) {
    (void)state;
    problem many = {4, 16, 16, 2048, 2048, 64, DTYPE_BF16, true, false};
    int64_t rows = 4 * 16 * 2048;
    assert_int_equal(bytes_of(&attention_hopper, &many, false), 0);
    assert_int_equal(bytes_of(&attention_mma, &many, false), 0);
    assert_int_equal(bytes_of(&attention_gradient_mma, &many, true), rows * 4);
    assert_int_equal(bytes_of(&attention_gradient_hopper, &many, true), rows * 2 * 4 + 16);
    assert_int_equal(bytes_of(&attention_gradient_hopper_single_pass, &many, true),
                     (rows * (2 + 64) + rows / 64) * 4 + 16);
    many.has_inverse_rope = true;
    assert_int_equal(bytes_of(&attention_gradient_hopper, &many, true),
                     rows * 2 * 4 + 16 + 2048 * 64 * 4);
    assert_int_equal(bytes_of(&attention_gradient_mma, &many, true), rows * 4);
    problem one = {1, 1, 1, 4096, 4096, 64, DTYPE_BF16, true, false};
    assert_int_equal(bytes_of(&attention_split_kv, &one, false), 8 * 4096 * (64 + 1) * 4);
    assert_int_equal(bytes_of(&attention_mma, &one, false), 0);
    problem wide = {4, 16, 16, 2048, 2048, 256, DTYPE_BF16, true, false};
    assert_int_equal(bytes_of(&attention_gradient_hopper_wide, &wide, true), rows * 2 * 4 + 16);
}

static void expect_first_variant(const kernel *k, const problem *p, bool is_gradient,
                                 const char *want, int count) {
    call c;
    kernel_variant all[KERNEL_MOST_VARIANTS];
    describe(p, is_gradient, "h200", &c);
    assert_int_equal(k->variants(&c.args, all), count);
    assert_string_equal(all[0].name, want);
}

static void the_first_variant_follows_from_the_problem(void **state) {
    (void)state;
    problem p = {4, 16, 16, 2048, 2048, 64, DTYPE_BF16, true, false};
    expect_first_variant(&attention_hopper, &p, false, "192x128", 2);
    expect_first_variant(&attention_mma, &p, false, "64x64", 2);
    expect_first_variant(&attention_gradient_hopper_single_pass, &p, true, "128x128", 1);
    p.queries = p.keys = 1024;
    expect_first_variant(&attention_hopper, &p, false, "128x128", 2);
    p.head_dim = 128;
    expect_first_variant(&attention_hopper, &p, false, "128x128", 2);
    expect_first_variant(&attention_mma, &p, false, "128x64", 2);
    expect_first_variant(&attention_gradient_hopper_single_pass, &p, true, "64x128", 1);
    p.is_causal = false;
    expect_first_variant(&attention_hopper, &p, false, "128x176", 2);
    p.batch = p.heads = p.kv_heads = 1;
    expect_first_variant(&attention_mma, &p, false, "64x64", 2);
    p.head_dim = 256;
    expect_first_variant(&attention_hopper, &p, false, "128x80", 1);
    expect_first_variant(&attention_mma, &p, false, "64x64", 2);
    expect_first_variant(&attention_gradient_mma, &p, true, "16x64", 1);
    expect_first_variant(&attention_gradient_hopper_wide, &p, true, "128x64", 1);
    p.type = DTYPE_F32;
    expect_first_variant(&attention_tf32, &p, false, "64x16", 1);
}

static void every_head_size_has_a_tile_in_every_list(void **state) {
    (void)state;
    attention_list_tiles *const lists[] = {
        attention_tiles_mma,   attention_tiles_split_kv,     attention_tiles_3tf32,
        attention_tiles_1tf32, attention_tiles_gradient_mma, attention_tiles_hopper,
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int64_t head_dim = 1; head_dim <= ATTENTION_MAX_HEAD_DIM; head_dim++) {
            attention_sizes s = {.batch = 8, .heads = 8, .kv_heads = 8, .queries = 64, .keys = 64};
            attention_tile tiles[ATTENTION_MOST_TILES];
            s.head_dim = head_dim;
            int count = lists[i](&s, tiles);
            assert_in_range(count, 1, ATTENTION_MOST_TILES);
            for (int j = 0; j < count; j++)
                assert_true(tiles[j].queries % 16 == 0 && tiles[j].keys % 16 == 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cpu_gets_the_kernels_of_its_instruction_set),
        cmocka_unit_test(each_chip_gets_its_own_kernels),
        cmocka_unit_test(rows_that_are_not_aligned_go_to_kernels_that_bear_it),
        cmocka_unit_test(reasons_say_why_a_row_declines),
        cmocka_unit_test(scratch_is_what_the_row_itself_needs),
        cmocka_unit_test(the_first_variant_follows_from_the_problem),
        cmocka_unit_test(every_head_size_has_a_tile_in_every_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
