/* test_attention_parts.c - scores, softmax and values are told by the order of launches. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "profile/attention_parts.h"

static int64_t clock_ns;

static launch_record launch(const char *name, const char *class_name, int64_t ns) {
    launch_record r = {.recorded = name,
                       .class_name = class_name,
                       .phase = "forward",
                       .correlation = clock_ns + 1,
                       .begin_ns = clock_ns,
                       .end_ns = clock_ns + ns};
    clock_ns = r.end_ns;
    return r;
}

static void add(attention_parts *parts, const char *name, const char *class_name, int64_t ns) {
    launch_record r = launch(name, class_name, ns);
    attention_parts_add(parts, &r);
}

static void expect_part(const attention_parts *parts, attention_part part, int64_t launches,
                        int64_t ns) {
    attention_sum sum = attention_parts_sum(parts, part);
    assert_int_equal(sum.launches, launches);
    assert_int_equal((int64_t)sum.ns, ns);
}

static void product_softmax_product_is_attention(void **state) {
    (void)state;
    attention_parts *parts = attention_parts_create();
    for (int layer = 0; layer < 3; layer++) {
        add(parts, "qkv", "matmul", 100);
        add(parts, "rope", "element-wise", 1);
        add(parts, "scores", "matmul", 10);
        add(parts, "scale", "element-wise", 2);
        add(parts, "mask", "element-wise", 3);
        add(parts, "softmax", "softmax", 5);
        add(parts, "dropout", "random", 4);
        add(parts, "values", "matmul", 20);
        add(parts, "out", "matmul", 100);
    }
    assert_int_equal(attention_parts_count(parts), 3);
    expect_part(parts, ATTENTION_SCORES, 3, 30);
    expect_part(parts, ATTENTION_SOFTMAX, 12, 42);
    expect_part(parts, ATTENTION_VALUES, 3, 60);
    expect_part(parts, ATTENTION_FUSED, 0, 0);
    attention_parts_destroy(parts);
}

static void softmax_of_the_backward_or_without_products_is_none(void **state) {
    (void)state;
    attention_parts *parts = attention_parts_create();
    add(parts, "a", "matmul", 1);
    add(parts, "softmax_warp_backward", "softmax", 1);
    add(parts, "b", "matmul", 1);
    add(parts, "loss", "loss", 1);
    add(parts, "softmax", "softmax", 1); /* behind the loss */
    add(parts, "c", "matmul", 1);
    launch_record r = launch("softmax", "softmax", 1);
    r.phase = "my backward";
    attention_parts_add(parts, &r);
    add(parts, "d", "matmul", 1);
    assert_int_equal(attention_parts_count(parts), 0);
    attention_parts_destroy(parts);
}

static void launches_of_another_stream_or_phase_do_not_mix(void **state) {
    (void)state;
    attention_parts *parts = attention_parts_create();
    launch_record softmax = launch("softmax", "softmax", 1);
    softmax.stream = 9;
    add(parts, "a", "matmul", 1);
    attention_parts_add(parts, &softmax);
    add(parts, "b", "matmul", 1);
    assert_int_equal(attention_parts_count(parts), 0);
    launch_record other = launch("softmax", "softmax", 1);
    other.phase = "evaluation";
    attention_parts_add(parts, &other);
    add(parts, "c", "matmul", 1);
    assert_int_equal(attention_parts_count(parts), 0);
    /* What belongs to no phase is in nobody's way. */
    launch_record unknown = launch("ones", "copy", 1);
    unknown.phase = NULL;
    attention_parts_add(parts, &unknown);
    add(parts, "softmax", "softmax", 1);
    add(parts, "d", "matmul", 1);
    assert_int_equal(attention_parts_count(parts), 1);
    attention_parts_destroy(parts);
}

/* As of ranks that share a GPU, or of which each calls its own one GPU 0. */
static void streams_of_two_processes_with_the_same_number_do_not_mix(void **state) {
    (void)state;
    enum { STREAMS = 80 };
    static const char *const NAMES[][2] = {
        {"scores", "matmul"}, {"softmax", "softmax"}, {"values", "matmul"}};
    attention_parts *parts = attention_parts_create();
    for (int i = 0; i < 3; i++)
        for (int stream = 0; stream < STREAMS; stream++)
            for (int process = 0; process < 2; process++) {
                launch_record r = launch(NAMES[i][0], NAMES[i][1], 1);
                r.process = process;
                r.stream = stream;
                attention_parts_add(parts, &r);
            }
    assert_int_equal(attention_parts_count(parts), 2 * STREAMS);
    assert_int_equal(attention_parts_passed_over(parts), 0);
    attention_parts_destroy(parts);
}

static void launches_out_of_order_are_not_judged(void **state) {
    (void)state;
    attention_parts *parts = attention_parts_create();
    add(parts, "a", "matmul", 1);
    add(parts, "softmax", "softmax", 1);
    launch_record late = launch("b", "matmul", 1);
    late.correlation = 0;
    assert_int_equal(attention_parts_passed_over(parts), 0);
    attention_parts_add(parts, &late);
    assert_int_equal(attention_parts_count(parts), 0);
    assert_int_equal(attention_parts_passed_over(parts), 1);
    late = launch("copy", "copy",
                  1); /* copies come after all kernels, as in exports of Nsight Systems */
    late.correlation = 0;
    attention_parts_add(parts, &late);
    late = launch("unknown", "matmul", 1);
    late.correlation = -1;
    attention_parts_add(parts, &late);
    assert_int_equal(attention_parts_passed_over(parts), 1);
    attention_parts_destroy(parts);
}

static void fused_kernels_are_a_part_of_their_own(void **state) {
    (void)state;
    attention_parts *parts = attention_parts_create();
    add(parts, "flash_fwd", "attention", 7);
    add(parts, "flash_bwd", "attention", 9);
    expect_part(parts, ATTENTION_FUSED, 1, 7);
    attention_parts_destroy(parts);
}

static void dynos_own_launches_are_told_by_scope_class_and_op(void **state) {
    (void)state;
    static const struct {
        const char *scope, *class_name, *op;
        attention_part part;
    } CASES[] = {
        {"layers.3.attn.scores", "matmul", "matmul", ATTENTION_SCORES},
        {"layers.*.attn.values", "matmul", "matmul", ATTENTION_VALUES},
        {"layers.0.attn.scale", "element-wise", "scale", ATTENTION_SOFTMAX},
        {"layers.0.attn.mask", "copy", "fill", ATTENTION_SOFTMAX},
        {"layers.0.attn.softmax", "reduction", "max", ATTENTION_SOFTMAX},
        /* A fused kernel has the scope of what it ends with. */
        {"layers.0.attn.values", "fused rows", "cast+scale+exp+sum+divide+cast", ATTENTION_SOFTMAX},
        {"layers.0.attn.scores", "fused rows", "divide+scale+cast", ATTENTION_SOFTMAX},
        {"layers.0.attn.scores", "copy", "cast", ATTENTION_CASTS},
        {"layers.0.attn.scale", "copy", "cast+cast", ATTENTION_CASTS},
        {"layers.0.attn.values", "fused rows", "cast+castle", ATTENTION_SOFTMAX},
        {"layers.0.attn.flash", "attention", "attention", ATTENTION_FUSED},
        {"layers.0.attn.q", "matmul", "matmul", ATTENTION_PART_COUNT},
        {"layers.0.mlp.scores", "matmul", "matmul", ATTENTION_PART_COUNT},
        {"scores", "matmul", "matmul", ATTENTION_PART_COUNT},
        {"", "", "", ATTENTION_PART_COUNT},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_int_equal(attention_part_of_scope(CASES[i].scope, CASES[i].class_name, CASES[i].op),
                         CASES[i].part);
    attention_parts *parts = attention_parts_create();
    launch_record r = launch("k", "fused rows", 5), unknown = launch("k", NULL, 3);
    r.scope = "layers.0.attn.values";
    r.op = "scale+exp";
    attention_parts_add_own(parts, &r);
    attention_parts_add_own(parts, &unknown); /* of no scope */
    r.phase = "backward";
    attention_parts_add_own(parts, &r);
    expect_part(parts, ATTENTION_SOFTMAX, 1, 5);
    expect_part(parts, ATTENTION_VALUES, 0, 0);
    attention_parts_destroy(parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_softmax_product_is_attention),
        cmocka_unit_test(softmax_of_the_backward_or_without_products_is_none),
        cmocka_unit_test(launches_of_another_stream_or_phase_do_not_mix),
        cmocka_unit_test(streams_of_two_processes_with_the_same_number_do_not_mix),
        cmocka_unit_test(launches_out_of_order_are_not_judged),
        cmocka_unit_test(fused_kernels_are_a_part_of_their_own),
        cmocka_unit_test(dynos_own_launches_are_told_by_scope_class_and_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
