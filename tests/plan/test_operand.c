/* test_operand.c - whether operands meet, against counting every byte they touch. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "plan/operand.h"
#include "support/draw.h"

enum { BUFFER_BYTES = 4096 };

/* Marks the bytes that the operand touches; false when it leaves the buffer. */
static bool touch(const plan_operand *o, bool *bytes) {
    const shape *s = &o->layout.shape;
    int64_t size = dtype_bytes(o->layout.type);
    for (int64_t i = 0; i < shape_elements(s); i++) {
        int64_t rest = i, at = o->offset;
        for (int d = s->rank - 1; d >= 0; d--) {
            at += rest % s->dim[d] * o->layout.stride[d] * size;
            rest /= s->dim[d];
        }
        if (at < 0 || at + size > BUFFER_BYTES)
            return false;
        memset(bytes + at, 1, (size_t)size);
    }
    return true;
}

static plan_operand draw_operand(draw *d) {
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_U8};
    plan_operand o = {.layout = {.type = types[draw_below(d, 3)]}};
    o.layout.shape.rank = (int)draw_below(d, 4);
    for (int i = 0; i < o.layout.shape.rank; i++) {
        o.layout.shape.dim[i] = 1 + draw_below(d, 4);
        o.layout.stride[i] =
            draw_chance(d, 0.7) ? (int64_t)1 << draw_below(d, 6) : draw_below(d, 40) - 4;
    }
    o.offset = draw_below(d, 300) * dtype_bytes(o.layout.type);
    return o;
}

static void operands_said_to_be_apart_share_no_byte(void **state) {
    (void)state;
    int apart = 0, interleaved = 0;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        draw d = draw_create(seed, 1);
        plan_operand a = draw_operand(&d), b = draw_operand(&d);
        bool first[BUFFER_BYTES] = {false}, second[BUFFER_BYTES] = {false}, meet = false;
        if (!touch(&a, first) || !touch(&b, second))
            continue;
        for (int i = 0; i < BUFFER_BYTES; i++)
            meet = meet || (first[i] && second[i]);
        byte_range x = plan_operand_range(&a), y = plan_operand_range(&b);
        bool says_apart = plan_operands_are_apart(&a, &b);
        assert_int_equal(says_apart, plan_operands_are_apart(&b, &a));
        if (says_apart && meet)
            fail_msg("seed %llu: the operands share bytes", (unsigned long long)seed);
        apart += says_apart;
        interleaved += says_apart && x.begin < y.end && y.begin < x.end;
    }
    assert_true(apart > 1000 && interleaved > 100);
}

static void a_range_goes_from_the_first_byte_to_the_last(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        draw d = draw_create(seed, 1);
        plan_operand o = draw_operand(&d);
        bool bytes[BUFFER_BYTES] = {false};
        if (!touch(&o, bytes))
            continue;
        byte_range range = plan_operand_range(&o);
        assert_true(bytes[range.begin] && bytes[range.end - 1]);
        for (int i = 0; i < BUFFER_BYTES; i++)
            assert_true(!bytes[i] || (i >= range.begin && i < range.end));
    }
}

/* As attention's gradient has them: heads of three kinds side by side in each token's row. */
static void pieces_of_the_columns_of_one_matrix_are_apart(void **state) {
    (void)state;
    enum { TOKENS = 4, HEADS = 3, SIZE = 8, ROW = 3 * HEADS * SIZE };
    plan_operand piece[3];
    for (int i = 0; i < 3; i++) {
        piece[i] = (plan_operand){.offset = 2 * i * HEADS * SIZE,
                                  .layout = {.type = DTYPE_BF16,
                                             .shape = SHAPE(2, HEADS, TOKENS, SIZE),
                                             .stride = {TOKENS * ROW, SIZE, ROW, 1}}};
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            assert_int_equal(plan_operands_are_apart(&piece[i], &piece[j]), i != j);
            assert_int_equal(plan_operands_coincide(&piece[i], &piece[j]), i == j);
        }
    piece[0].layout.shape.dim[1]++; /* one head too many reaches into the next piece */
    assert_false(plan_operands_are_apart(&piece[0], &piece[1]));
    assert_true(plan_operands_are_apart(&piece[0], &piece[2]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_said_to_be_apart_share_no_byte),
        cmocka_unit_test(a_range_goes_from_the_first_byte_to_the_last),
        cmocka_unit_test(pieces_of_the_columns_of_one_matrix_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
