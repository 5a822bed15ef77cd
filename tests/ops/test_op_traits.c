/* test_op_traits.c - what each op's descriptor says about it, against what the op does. Passes and
 * lowering believe the descriptor. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/precision.h"
#include "ops/elementwise.h"
#include "ops/op_list.h"
#include "support/op_cases.h"

enum { TRIALS = 20 };

#define EXPECT(KIND, CONDITION)                                                                    \
    do {                                                                                           \
        if (!(CONDITION))                                                                          \
            fail_msg("op '%s': not so: %s", (KIND)->name, #CONDITION);                             \
    } while (0)

/* ---- fields against one another ---- */

static void no_op_is_of_two_kinds_at_once(void **state) {
    (void)state;
    for (int i = 0; i < op_list_count(); i++) {
        const op *o = op_list_at(i);
        int kinds = (o->expression != NULL) + (o->view != NULL) + (o->reduction != REDUCTION_NONE) +
                    o->is_literal + (o->piece != NULL) + (o->factor_count > 0);
        EXPECT(o, kinds <= 1);
    }
}

static void expressions_are_of_element_wise_ops(void **state) {
    (void)state;
    for (int i = 0; i < op_list_count(); i++) {
        const op *o = op_list_at(i);
        if (!o->expression)
            continue;
        EXPECT(o, o->class == OP_CLASS_ELEMENTWISE || o->precision == OP_PRECISION_ANY);
        EXPECT(o, o->output_count == 1 && o->optional_inputs == 0);
        EXPECT(o, o->input_count >= 1 && o->input_count <= ELEMENTWISE_MAX_INPUTS);
    }
}

static void views_take_any_type_and_only_views_have_an_order(void **state) {
    (void)state;
    for (int i = 0; i < op_list_count(); i++) {
        const op *o = op_list_at(i);
        EXPECT(o, !o->view || (o->precision == OP_PRECISION_ANY && o->input_count == 1));
        EXPECT(o, o->view || (!o->undo_view && o->view_order == OP_VIEW_MOVED));
    }
}

static void reductions_are_of_their_class_and_take_one_input(void **state) {
    (void)state;
    for (int i = 0; i < op_list_count(); i++) {
        const op *o = op_list_at(i);
        EXPECT(o, (o->reduction != REDUCTION_NONE) == (o->class == OP_CLASS_REDUCTION));
        EXPECT(o, !o->reduction || (o->input_count == 1 && o->output_count == 1));
    }
}

static void products_have_factors_among_their_inputs(void **state) {
    (void)state;
    for (int i = 0; i < op_list_count(); i++) {
        const op *o = op_list_at(i);
        bool is_product = o->precision == OP_PRECISION_PRODUCT;
        EXPECT(o, is_product == (o->factor_count > 0));
        EXPECT(o, o->factor_count <= o->input_count || !is_product);
        EXPECT(o, is_product || !o->can_output_f32);
    }
}

static void what_is_cheap_overwrites_nothing(void **state) {
    (void)state;
    for (int i = 0; i < op_list_count(); i++) {
        const op *o = op_list_at(i);
        if (!op_is_cheap(o))
            continue;
        EXPECT(o, !o->inplace_input);
        for (int j = 0; j < OP_MAX_OUTPUTS; j++)
            EXPECT(o, o->inplace[j] == 0);
    }
}

/* ---- fields against what nodes do ---- */

/* A node of the op in its graph, every input's elements numbered from 0, and its results. */
typedef struct sample {
    op_instance in;
    double *inputs[OP_CASE_MAX_INPUTS], *outputs[OP_CASE_MAX_OUTPUTS];
} sample;

static sample sample_begin(const op *kind, draw *d) {
    sample s = {.in = op_case_build(op_case_find(kind), graph_create("sample"), true, d)};
    const node *n = s.in.n;
    for (int i = 0; i < n->input_count; i++) {
        int64_t elements = shape_elements(&n->inputs[i]->shape);
        s.inputs[i] = memory_allocate((size_t)elements, sizeof(double));
        for (int64_t j = 0; j < elements; j++)
            s.inputs[i][j] = (double)j;
    }
    for (int i = 0; i < n->output_count; i++)
        s.outputs[i] =
            memory_allocate((size_t)shape_elements(&n->outputs[i]->shape), sizeof(double));
    kind->reference(n, (const double *const *)s.inputs, s.outputs);
    return s;
}

static void sample_end(sample *s) {
    for (int i = 0; i < s->in.n->input_count; i++)
        free(s->inputs[i]);
    for (int i = 0; i < s->in.n->output_count; i++)
        free(s->outputs[i]);
    graph_destroy(s->in.g);
}

/* Element `index`, counted row-major, of memory with the strides of `t`. */
static double element(const tensor *t, const double *memory, int64_t index) {
    int64_t offset = 0;
    for (int i = t->shape.rank - 1; i >= 0; i--) {
        offset += index % t->shape.dim[i] * t->stride[i];
        index /= t->shape.dim[i];
    }
    return memory[offset];
}

static void check_order(const sample *s) {
    const op *kind = s->in.n->op;
    int64_t next = 0, count = shape_elements(&s->in.n->outputs[0]->shape);
    for (int64_t i = 0; i < count && kind->view_order != OP_VIEW_MOVED; i++) {
        double x = s->outputs[0][i];
        EXPECT(kind, x <= (double)next);
        EXPECT(kind, kind->view_order == OP_VIEW_REPEATED || x == (double)next);
        next += x == (double)next;
    }
    if (kind->view_order == OP_VIEW_IN_ORDER)
        EXPECT(kind, next == shape_elements(&s->in.n->inputs[0]->shape));
}

static void check_undone(const sample *s) {
    const node *n = s->in.n;
    tensor wanted = tensor_contiguous(NULL, DTYPE_F64, &n->outputs[0]->shape), input, again;
    int64_t offset = 0;
    if (!n->op->undo_view)
        return;
    EXPECT(n->op, n->op->undo_view(n, &wanted, &input));
    EXPECT(n->op, shape_equal(&input.shape, &n->inputs[0]->shape));
    EXPECT(n->op, n->op->view(n, 0, &input, &again, &offset) && offset == 0);
    for (int i = 0; i < wanted.shape.rank; i++)
        EXPECT(n->op, wanted.shape.dim[i] == 1 || wanted.stride[i] == again.stride[i]);
}

static void views_keep_the_order_they_claim_and_can_be_undone(void **state) {
    (void)state;
    draw d = draw_create(1, 500);
    for (int i = 0; i < op_list_count(); i++)
        for (int j = 0; op_list_at(i)->view && j < TRIALS; j++) {
            sample s = sample_begin(op_list_at(i), &d);
            check_order(&s);
            check_undone(&s);
            sample_end(&s);
        }
}

static void pieces_are_where_the_inputs_end_up(void **state) {
    (void)state;
    draw d = draw_create(2, 500);
    for (int i = 0; i < op_list_count(); i++)
        for (int j = 0; op_list_at(i)->piece && j < TRIALS; j++) {
            sample s = sample_begin(op_list_at(i), &d);
            const node *n = s.in.n;
            tensor whole = tensor_contiguous(NULL, DTYPE_F64, &n->outputs[0]->shape);
            for (int k = 0; k < n->input_count; k++) {
                int64_t offset = -1, elements = shape_elements(&n->inputs[k]->shape);
                tensor piece = n->op->piece(n, k, &whole, &offset);
                for (int64_t e = 0; e < elements; e++)
                    EXPECT(n->op, element(&piece, s.outputs[0] + offset, e) == s.inputs[k][e]);
            }
            sample_end(&s);
        }
}

static void literals_are_the_number_of_their_attribute(void **state) {
    (void)state;
    draw d = draw_create(3, 500);
    for (int i = 0; i < op_list_count(); i++)
        for (int j = 0; op_list_at(i)->is_literal && j < TRIALS; j++) {
            sample s = sample_begin(op_list_at(i), &d);
            const node *n = s.in.n;
            EXPECT(n->op, n->input_count == 0 && n->outputs[0]->shape.rank == 0);
            EXPECT(n->op, s.outputs[0][0] == attribute_real(&n->attributes, "number"));
            sample_end(&s);
        }
}

/* What each input has to be after precision_apply. */
static void check_retyped(const node *n, const dtype *before) {
    for (int i = 0; i < n->input_count; i++) {
        dtype type = n->inputs[i]->type;
        if (n->op->precision == OP_PRECISION_ANY || !dtype_is_float(before[i]))
            EXPECT(n->op, type == before[i]);
        else if (i < n->op->factor_count)
            EXPECT(n->op, type == DTYPE_BF16);
        else
            EXPECT(n->op, type == DTYPE_F32);
    }
}

static void every_op_of_a_model_bears_the_types_its_precision_asks_for(void **state) {
    (void)state;
    draw d = draw_create(4, 500);
    for (int i = 0; i < op_list_count(); i++)
        for (int j = 0; op_list_at(i)->class != OP_CLASS_OPTIMIZER && j < TRIALS; j++) {
            op_instance in =
                op_case_build(op_case_find(op_list_at(i)), graph_create("typed"), true, &d);
            dtype before[OP_CASE_MAX_INPUTS];
            for (int k = 0; k < in.n->input_count; k++)
                before[k] = in.n->inputs[k]->type;
            if (precision_apply(in.g, PRECISION_BF16) != DYNO_OK)
                fail_msg("%s", dyno_error_message());
            check_retyped(in.n, before);
            graph_destroy(in.g);
        }
}

static void what_absorbs_casts_gives_the_type_it_takes(void **state) {
    (void)state;
    draw d = draw_create(5, 500);
    for (int i = 0; i < op_list_count(); i++)
        for (int j = 0; op_list_at(i)->absorbs_casts && j < TRIALS; j++) {
            op_instance in =
                op_case_build(op_case_find(op_list_at(i)), graph_create("low"), true, &d);
            value_type out[OP_MAX_OUTPUTS];
            in.n->inputs[0]->type = DTYPE_BF16;
            EXPECT(in.n->op, in.n->op->infer(in.n, out) == DYNO_OK);
            EXPECT(in.n->op, out[0].type == DTYPE_BF16);
            graph_destroy(in.g);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_op_is_of_two_kinds_at_once),
        cmocka_unit_test(expressions_are_of_element_wise_ops),
        cmocka_unit_test(views_take_any_type_and_only_views_have_an_order),
        cmocka_unit_test(reductions_are_of_their_class_and_take_one_input),
        cmocka_unit_test(products_have_factors_among_their_inputs),
        cmocka_unit_test(what_is_cheap_overwrites_nothing),
        cmocka_unit_test(views_keep_the_order_they_claim_and_can_be_undone),
        cmocka_unit_test(pieces_are_where_the_inputs_end_up),
        cmocka_unit_test(literals_are_the_number_of_their_attribute),
        cmocka_unit_test(every_op_of_a_model_bears_the_types_its_precision_asks_for),
        cmocka_unit_test(what_absorbs_casts_gives_the_type_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
