/* test_tensor.c - views against naive index arithmetic. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "support/draw.h"
#include "support/operand.h"
#include "tensor/attributes.h"
#include "tensor/role.h"
#include "tensor/tensor.h"

enum { ROUNDS = 4000 };

/* A layout such as chains of views give: some dimensions swapped, repeated or padded. */
static tensor draw_tensor(draw *d) {
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
    tensor t = tensor_contiguous(NULL, DTYPE_F32, &s);
    for (int i = 0; i < s.rank; i++) {
        if (draw_chance(d, 0.1))
            t.stride[i] = 0;
        if (draw_chance(d, 0.1))
            t.stride[i] += draw_below(d, 4);
    }
    if (draw_chance(d, 0.3)) {
        shape order = draw_order(d, s.rank);
        t = tensor_view_transpose(&t, order.dim);
    }
    return t;
}

static shape draw_same_elements(draw *d, int64_t elements) {
    shape s = {0};
    int64_t group = 1;
    for (int64_t p = 2; elements > 1; p++)
        for (; elements % p == 0; elements /= p) {
            if (s.rank < SHAPE_MAX_RANK - 1 && draw_chance(d, 0.5)) {
                s.dim[s.rank++] = group;
                group = 1;
            }
            group *= p;
        }
    s.dim[s.rank++] = group;
    return s;
}

static bool same_elements(const tensor *a, const tensor *b) {
    int64_t elements = shape_elements(&a->shape);
    if (elements != shape_elements(&b->shape))
        return false;
    for (int64_t i = 0; i < elements; i++)
        if (tensor_offset(a, i) != tensor_offset(b, i))
            return false;
    return true;
}

/* The only strides that could do: where one step along each dimension leads. */
static bool strides_exist(const tensor *t, const shape *s) {
    tensor only = tensor_contiguous(NULL, t->type, s);
    for (int i = 0; i < s->rank; i++)
        only.stride[i] = s->dim[i] > 1 ? tensor_offset(t, only.stride[i]) : 0;
    return same_elements(t, &only);
}

static void reshaped_views_exist_exactly_where_strides_can_express_them(void **state) {
    (void)state;
    int made = 0;
    for (int round = 0; round < ROUNDS; round++) {
        draw d = draw_create((uint64_t)round, 200);
        tensor t = draw_tensor(&d), view;
        shape s = draw_same_elements(&d, shape_elements(&t.shape));
        bool exists = strides_exist(&t, &s);
        if (tensor_view_reshape(&t, &s, &view) != exists)
            fail_msg("round %d: [%s] as [%s]: strides %s", round, shape_format(&t.shape).text,
                     shape_format(&s).text, exists ? "exist" : "do not exist");
        if (exists) {
            assert_true(shape_equal(&view.shape, &s));
            assert_true(same_elements(&t, &view));
            made++;
        }
    }
    assert_in_range(made, ROUNDS / 4, ROUNDS * 95 / 100);
}

static void dense_tensors_reshape_to_anything(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        draw d = draw_create((uint64_t)round, 500);
        shape s = draw_shape(&d, 0, SHAPE_MAX_RANK),
              to = draw_same_elements(&d, shape_elements(&s));
        tensor t = tensor_contiguous(NULL, DTYPE_F32, &s), view;
        assert_true(tensor_view_reshape(&t, &to, &view));
        assert_true(tensor_is_contiguous(&view));
    }
}

static void transposed_views_find_their_elements(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        draw d = draw_create((uint64_t)round, 200);
        tensor t = draw_tensor(&d);
        shape order = draw_order(&d, t.shape.rank);
        tensor view = tensor_view_transpose(&t, order.dim);
        for (int64_t i = 0; i < shape_elements(&view.shape); i++) {
            int64_t index[SHAPE_MAX_RANK], left = i, offset = 0;
            for (int k = view.shape.rank - 1; k >= 0; k--) {
                index[order.dim[k]] = left % view.shape.dim[k];
                left /= view.shape.dim[k];
            }
            for (int k = 0; k < t.shape.rank; k++) {
                assert_in_range(index[k], 0, t.shape.dim[k] - 1);
                offset += index[k] * t.stride[k];
            }
            assert_int_equal(tensor_offset(&view, i), offset);
        }
    }
}

static void broadcast_views_repeat_sizes_of_one(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        draw d = draw_create((uint64_t)round, 200);
        tensor t = draw_tensor(&d);
        shape to = t.shape;
        for (int k = 0; k < to.rank; k++)
            if (to.dim[k] == 1)
                to.dim[k] = 1 + draw_below(&d, 3);
        tensor view = tensor_view_broadcast(&t, &to);
        assert_true(shape_equal(&view.shape, &to));
        for (int64_t i = 0; i < shape_elements(&to); i++) {
            int64_t left = i, offset = 0;
            for (int k = to.rank - 1; k >= 0; k--) {
                offset += left % to.dim[k] % t.shape.dim[k] * t.stride[k];
                left /= to.dim[k];
            }
            assert_int_equal(tensor_offset(&view, i), offset);
        }
    }
}

static void collapsing_keeps_the_order_of_all_tensors_elements(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        draw d = draw_create((uint64_t)round, 200);
        int count = 1 + (int)draw_below(&d, 4);
        tensor before[4], after[4];
        before[0] = draw_tensor(&d);
        for (int i = 1; i < count; i++) {
            before[i] = tensor_contiguous(NULL, DTYPE_F32, &before[0].shape);
            for (int k = 0; k < before[0].shape.rank; k++)
                if (draw_chance(&d, 0.2))
                    before[i].stride[k] = draw_chance(&d, 0.5) ? 0 : before[0].stride[k];
        }
        memcpy(after, before, sizeof after);
        tensor_collapse(after, count);
        assert_in_range(after[0].shape.rank, 1, SHAPE_MAX_RANK);
        for (int i = 0; i < count; i++) {
            assert_true(shape_equal(&after[i].shape, &after[0].shape));
            assert_true(same_elements(&before[i], &after[i]));
        }
        /* Nothing is left to merge. */
        for (int k = 0; k + 1 < after[0].shape.rank; k++) {
            bool mergeable = true;
            for (int i = 0; i < count; i++)
                mergeable = mergeable && after[i].stride[k] ==
                                             after[i].stride[k + 1] * after[i].shape.dim[k + 1];
            assert_false(mergeable);
        }
    }
}

static void dense_tensors_collapse_to_one_dimension(void **state) {
    (void)state;
    for (int round = 0; round < 500; round++) {
        draw d = draw_create((uint64_t)round, 200);
        shape s = draw_shape(&d, 0, SHAPE_MAX_RANK);
        tensor t = tensor_contiguous(NULL, DTYPE_F32, &s);
        assert_true(tensor_is_contiguous(&t));
        tensor_collapse(&t, 1);
        assert_int_equal(t.shape.rank, 1);
        assert_int_equal(t.shape.dim[0], shape_elements(&s));
        assert_int_equal(t.stride[0], 1);
    }
}

static void contiguous_means_row_major_without_gaps(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        draw d = draw_create((uint64_t)round, 60);
        tensor t = draw_tensor(&d);
        bool dense = true;
        for (int64_t i = 0; i < shape_elements(&t.shape); i++)
            dense = dense && tensor_offset(&t, i) == i;
        assert_int_equal(tensor_is_contiguous(&t), dense);
        assert_int_equal(tensor_bytes(&t), 4 * shape_elements(&t.shape));
    }
}

static void shapes_that_overflow_or_hold_nothing_are_invalid(void **state) {
    (void)state;
    shape scalar = SHAPE_SCALAR, fits = SHAPE(INT64_MAX / 4), over = SHAPE(INT64_MAX / 4 + 1);
    shape product = SHAPE(1LL << 31, 1LL << 31, 2), zero = SHAPE(3, 0), negative = SHAPE(-1, -1);
    assert_true(shape_is_valid(&scalar, 8));
    assert_true(shape_is_valid(&fits, 4));
    assert_false(shape_is_valid(&over, 4));
    assert_false(shape_is_valid(&product, 1));
    assert_false(shape_is_valid(&zero, 1));
    assert_false(shape_is_valid(&negative, 1));
}

static void shapes_print_their_sizes(void **state) {
    (void)state;
    shape scalar = SHAPE_SCALAR, small = SHAPE(4, 128, 768);
    shape longest = SHAPE(INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN);
    assert_string_equal(shape_format(&scalar).text, "");
    assert_string_equal(shape_format(&small).text, "4,128,768");
    assert_int_equal(strlen(shape_format(&longest).text), 6 * 20 + 5);
    assert_int_equal(shape_elements(&scalar), 1);
    shape other = SHAPE(4, 128);
    assert_false(shape_equal(&small, &other));
}

static void attributes_are_found_by_name(void **state) {
    (void)state;
    attribute items[] = {ATTR_INTEGER("n", 3), ATTR_REAL("s", 0.5), ATTR_LIST("axes", SHAPE(1, 2))};
    attributes list = {3, items};
    assert_int_equal(attribute_integer(&list, "n"), 3);
    assert_true(attribute_real(&list, "s") == 0.5);
    assert_int_equal(attribute_list(&list, "axes")->dim[1], 2);
    assert_null(attribute_find(&list, "axe"));
}

static void roles_and_phases_have_different_names(void **state) {
    (void)state;
    for (int i = 0; i < ROLE_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(role_name((role)i), role_name((role)j));
    for (int i = 0; i < PHASE_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(phase_name((phase)i), phase_name((phase)j));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshaped_views_exist_exactly_where_strides_can_express_them),
        cmocka_unit_test(dense_tensors_reshape_to_anything),
        cmocka_unit_test(transposed_views_find_their_elements),
        cmocka_unit_test(broadcast_views_repeat_sizes_of_one),
        cmocka_unit_test(collapsing_keeps_the_order_of_all_tensors_elements),
        cmocka_unit_test(dense_tensors_collapse_to_one_dimension),
        cmocka_unit_test(contiguous_means_row_major_without_gaps),
        cmocka_unit_test(shapes_that_overflow_or_hold_nothing_are_invalid),
        cmocka_unit_test(shapes_print_their_sizes),
        cmocka_unit_test(attributes_are_found_by_name),
        cmocka_unit_test(roles_and_phases_have_different_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
