/* test_cuda_kernels.c - every op on a GPU against its reference in double: hand-written kernels on
 * operands in any layout, and all ops, generated kernels included, as the pipeline compiles them.
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

#include "base/memory.h"
#include "compiler/pipeline.h"
#include "ops/cast/cast.h"
#include "ops/op_list.h"
#include "ops/transpose/transpose.h"
#include "support/device_bench.h"
#include "support/device_run.h"
#include "support/kernel_sweep.h"
#include "support/numbers.h"
#include "support/random_graph.h"
#include "support/reference_run.h"

enum { ROUNDS = 24, PIPELINE_ROUNDS = 9 };

/* ---- hand-written kernels ---- */

static kernel_sweep sweep_on(device_kernel *how) {
    return (kernel_sweep){.target = how->d->target.kind, .run = device_kernel_run, .context = how};
}

static void kernels_agree_with_the_reference_on_operands_in_any_layout(void **state) {
    device_kernel how = {.d = device_bench_open(state), .pads_outputs = true};
    int rounds = device_bench_rounds(ROUNDS, 8);
    for (int o = 0; o < op_list_count(); o++) {
        const op_case *c = op_case_find(op_list_at(o));
        kernel_sweep sweep = sweep_on(&how);
        for (int round = 0; round < rounds; round++) {
            draw d = draw_create((uint64_t)(1000 * o + round), round < 6 ? 20 : 4000);
            kernel_sweep_case(&sweep, c, &d, round % 4 == 0, NULL);
        }
        for (int k = 0; c->kind->kernels[k]; k++)
            if (c->kind->kernels[k]->target == how.d->target.kind && !sweep.runs[k])
                print_message("kernel %s took none of %d operands\n", c->kind->kernels[k]->name,
                              rounds);
    }
}

static void kernels_agree_on_larger_operands(void **state) {
    device_kernel how = {.d = device_bench_open(state), .pads_outputs = true};
    for (int o = 0; o < op_list_count(); o++)
        for (int round = 0; round < device_bench_rounds(3, 1); round++) {
            kernel_sweep sweep = sweep_on(&how);
            draw d = draw_create((uint64_t)(77 * o + round), device_bench_rounds(60000, 20000));
            d.is_full = true;
            kernel_sweep_case(&sweep, op_case_find(op_list_at(o)), &d, round != 1, NULL);
        }
}

/* ---- any op, as the pipeline compiles it ---- */

static plan *compile(graph *g, const device *d, step_mode mode) {
    pipeline_options options = {.extent = STEP_FORWARD, .mode = mode, .target = &d->target};
    plan *p;
    if (pipeline_compile(g, &options, &p) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return p;
}

/* A node of an op in a graph of many, and all that is needed when the pipeline is through. */
typedef struct island {
    const op_case *c;
    node kept; /* as it was built: the pipeline may replace nodes */
    value *inputs[OP_CASE_MAX_INPUTS];
    double *dense[OP_CASE_MAX_INPUTS]; /* as the node reads them */
    char names[OP_CASE_MAX_OUTPUTS][16];
    expectation e;
} island;

/* Generated kernels know the types that models have; to and from others casts are the host's. */
static bool has_generated_types(const node *n) {
    const dtype types[] = {n->inputs[0]->type, n->outputs[0]->type};
    for (int i = 0; i < 2; i++)
        if (types[i] == DTYPE_F64 || types[i] == DTYPE_I64 || types[i] == DTYPE_U16 ||
            types[i] == DTYPE_U8)
            return false;
    return true;
}

/* Hand-written kernels may want dense rows, all others take what views give them. */
static bool takes_any_layout(const op *kind) {
    return kind->expression || kind->view || kind == &op_cast || kind == &op_sum ||
           kind == &op_mean || kind == &op_max;
}

/* A node's input, which is a leaf, becomes a transposed view of another leaf. */
static value *turn_leaf(graph *g, const value *v, draw *d) {
    char name[16];
    shape order = draw_order(d, v->shape.rank), stored = v->shape;
    for (int i = 0; i < order.rank; i++)
        stored.dim[order.dim[i]] = v->shape.dim[i];
    snprintf(name, sizeof name, "t%d", g->value_count);
    return build_transpose(g, graph_add_leaf(g, v->role, v->type, &stored, name), &order);
}

static void turn_inputs(graph *g, node *n, draw *d) {
    int before = g->node_count - 1; /* the node is the last */
    for (int i = 0; i < n->input_count; i++)
        if (draw_chance(d, 0.7))
            n->inputs[i] = turn_leaf(g, n->inputs[i], d);
    node **order = memory_allocate((size_t)g->node_count, sizeof *order);
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        if (i != before)
            order[count++] = g->nodes[i];
    order[count++] = n;
    graph_set_order(g, order, count);
    free(order);
}

static island *island_add(graph *g, const op_case *c, draw *d, bool is_turned,
                          const fill *special) {
    op_instance in = op_case_build(c, g, false, d);
    if (is_turned && takes_any_layout(c->kind))
        turn_inputs(g, in.n, d);
    island *made = memory_allocate(1, sizeof *made);
    made->c = c;
    made->kept = *in.n;
    made->kept.inputs = made->inputs;
    for (int i = 0; i < in.n->output_count; i++) {
        snprintf(made->names[i], sizeof *made->names, "y%d", in.n->outputs[i]->id);
        graph_add_output(g, in.n->outputs[i], made->names[i]);
    }
    for (int i = 0; i < in.n->input_count; i++) {
        const value *v = made->inputs[i] = in.n->inputs[i];
        bool is_special = special && v->type == DTYPE_F32;
        operand o =
            operand_create(v->type, &v->shape, LAYOUT_DENSE, is_special ? *special : in.fill[i], d);
        made->dense[i] = o.dense;
        o.dense = NULL;
        operand_release(&o);
    }
    made->e = expectation_create(c, in.n, (const double *const *)made->dense);
    return made;
}

static void island_release(island *i) {
    for (int j = 0; j < i->kept.input_count; j++)
        free(i->dense[j]);
    expectation_release(&i->e);
    free(i);
}

/* A leaf as it is stored: the input itself, or what the input is a transposed view of. */
static void fill_input(device_run *r, const value *v, const double *dense) {
    if (!v->producer) {
        device_run_fill_leaf(r, v->name, dense);
        return;
    }
    const value *leaf = v->producer->inputs[0];
    const shape *order = attribute_list(&v->producer->attributes, "order");
    tensor stored = tensor_contiguous(NULL, leaf->type, &leaf->shape);
    tensor view = tensor_view_transpose(&stored, order->dim);
    int64_t elements = shape_elements(&v->shape);
    double *turned = memory_allocate((size_t)elements, sizeof *turned);
    for (int64_t i = 0; i < elements; i++)
        turned[tensor_offset(&view, i)] = dense[i];
    device_run_fill_leaf(r, leaf->name, turned);
    free(turned);
}

static void check_island(const device_run *r, const island *i, step_mode mode) {
    char who[64];
    snprintf(who, sizeof who, "%s, %s", i->c->kind->name, step_mode_name(mode));
    for (int j = 0; j < i->kept.output_count; j++) {
        tensor out = device_run_find_name(r, i->names[j]);
        expectation_check(&i->e, i->c, &i->kept, who, j, &out);
    }
}

typedef struct round_options {
    uint64_t seed;
    int64_t budget;
    bool is_full, is_turned;
    step_mode mode;
    const fill *special; /* only for ops that take any float */
} round_options;

/* All ops once, in one graph: compiling one source with many kernels is what takes the time. */
static void run_round(device *d, const round_options *o) {
    island **islands = memory_allocate((size_t)op_list_count(), sizeof *islands);
    int count = 0;
    graph *g = graph_create("all ops");
    for (int i = 0; i < op_list_count(); i++) {
        const op_case *c = op_case_find(op_list_at(i));
        if (o->special && !c->takes_any_float)
            continue;
        if (c->kind->advances) /* it makes the whole graph repeat; tests/train has such */
            continue;
        draw random = draw_create(o->seed + (uint64_t)(1000 * i), o->budget);
        random.is_full = o->is_full;
        if (c->kind == &op_cast) { /* drawn until the types are known */
            graph *trial = graph_create("trial");
            draw ahead = random;
            bool is_known = has_generated_types(op_case_build(c, trial, false, &ahead).n);
            graph_destroy(trial);
            if (!is_known)
                continue;
        }
        islands[count] = island_add(g, c, &random, o->is_turned, o->special);
        islands[count++]->e.rounds_factors = true; /* both devices have such products */
    }
    if (graph_status(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    plan *p = compile(g, d, o->mode);
    device_run *r = device_run_create(d, p);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < islands[i]->kept.input_count; j++)
            fill_input(r, islands[i]->inputs[j], islands[i]->dense[j]);
    device_run_launch(r);
    for (int i = 0; i < count; i++) {
        check_island(r, islands[i], o->mode);
        island_release(islands[i]);
    }
    device_run_destroy(r);
    plan_destroy(p);
    graph_destroy(g);
    free(islands);
}

static void every_op_agrees_with_the_reference_through_the_pipeline(void **state) {
    device *d = device_bench_open(state);
    for (int round = 0; round < device_bench_rounds(PIPELINE_ROUNDS, 3); round++)
        run_round(d, &(round_options){.seed = (uint64_t)round,
                                      .budget = round % 4 ? 4000 : 20,
                                      .is_turned = round % 2,
                                      .mode = round % 3 ? STEP_EAGER : STEP_COMPILED});
}

static void every_op_agrees_on_larger_operands_through_the_pipeline(void **state) {
    device *d = device_bench_open(state);
    for (int round = 0; round < device_bench_rounds(2, 1); round++)
        run_round(d, &(round_options){.seed = 77 + (uint64_t)round,
                                      .budget = device_bench_rounds(200000, 30000),
                                      .is_full = true,
                                      .is_turned = round % 2});
}

static void single_operations_take_any_float_as_ieee_has_it(void **state) {
    device *d = device_bench_open(state);
    fill special = fill_special_floats();
    for (int round = 0; round < device_bench_rounds(3, 2); round++)
        run_round(d, &(round_options){.seed = 31 + (uint64_t)round,
                                      .budget = 3000,
                                      .is_full = true,
                                      .is_turned = round == 2,
                                      .mode = round % 2 ? STEP_COMPILED : STEP_EAGER,
                                      .special = &special});
}

/* ---- fused groups ---- */

typedef struct random_options {
    uint64_t seed;
    int islands;
    int64_t budget;
    bool has_low;
    step_mode mode;
} random_options;

/* Values that the pipeline may drop from the graph, by name. */
typedef struct named {
    char name[32];
    double *data;
    int64_t elements;
    bool is_leaf;
} named;

static named *keep_named(const graph *g, draw *d, int *count) {
    double **leaves = memory_allocate((size_t)g->value_count, sizeof *leaves);
    named *list = memory_allocate((size_t)g->value_count, sizeof *list);
    *count = 0;
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        if (v->producer)
            continue;
        int64_t elements = shape_elements(&v->shape);
        leaves[i] = memory_allocate((size_t)elements, sizeof **leaves);
        for (int64_t j = 0; j < elements; j++)
            leaves[i][j] = (double)(float)draw_normal(d);
        named *n = &list[(*count)++];
        *n = (named){.data = leaves[i], .elements = elements, .is_leaf = true};
        snprintf(n->name, sizeof n->name, "%s", v->name);
    }
    reference_run *exact = reference_run_create(g, (const double *const *)leaves);
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        if (!v->is_output)
            continue;
        named *n = &list[(*count)++];
        *n = (named){.elements = shape_elements(&v->shape)};
        n->data = memory_allocate((size_t)n->elements, sizeof *n->data);
        memcpy(n->data, reference_run_value(exact, v), (size_t)n->elements * sizeof *n->data);
        snprintf(n->name, sizeof n->name, "%s", v->name);
    }
    reference_run_destroy(exact);
    free(leaves);
    return list;
}

static void run_random_graph(device *d, const random_options *o) {
    draw random = draw_create(o->seed, o->budget);
    graph *g = graph_create("random");
    random.is_full = o->budget > 10000;
    for (int i = 0; i < o->islands; i++)
        random_graph_add(g, &random, o->has_low, i);
    if (graph_status(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    int count;
    named *list = keep_named(g, &random, &count);
    plan *p = compile(g, d, o->mode);
    device_run *r = device_run_create(d, p);
    for (int i = 0; i < count; i++)
        if (list[i].is_leaf)
            device_run_fill_leaf(r, list[i].name, list[i].data);
    device_run_launch(r);
    for (int i = 0; i < count; i++) {
        if (!list[i].is_leaf) {
            tensor out = device_run_find_name(r, list[i].name);
            double *got = tensor_to_doubles(&out);
            double error = relative_error(got, list[i].data, list[i].elements);
            if (!(error < (o->has_low ? 2e-3 : 2e-6)))
                fail_msg("seed %d, %s: '%s' [%s] is %g off", (int)o->seed, step_mode_name(o->mode),
                         list[i].name, shape_format(&out.shape).text, error);
            free(got);
        }
        free(list[i].data);
    }
    free(list);
    device_run_destroy(r);
    plan_destroy(p);
    graph_destroy(g);
}

static void fused_groups_agree_with_the_reference_on_drawn_graphs(void **state) {
    device *d = device_bench_open(state);
    for (int i = 0; i < device_bench_rounds(6, 3); i++)
        run_random_graph(d, &(random_options){.seed = (uint64_t)i,
                                              .islands = 12,
                                              .budget = i % 3 ? 3000 : 40,
                                              .has_low = i % 2,
                                              .mode = i == 5 ? STEP_EAGER : STEP_COMPILED});
}

static void fused_groups_agree_with_the_reference_on_larger_graphs(void **state) {
    device *d = device_bench_open(state);
    for (int i = 0; i < 2; i++)
        run_random_graph(d, &(random_options){.seed = 500 + (uint64_t)i,
                                              .islands = 5,
                                              .budget = device_bench_rounds(300000, 40000),
                                              .has_low = i % 2,
                                              .mode = STEP_COMPILED});
}

/* ---- casts ---- */

/* Every pattern of a low type and the floats around it, there and back. */
static void check_cast(device *d, dtype low, const float *numbers, const shape *all) {
    graph *g = graph_create("cast");
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, all, "x");
    value *narrow = build_cast(g, x, low);
    graph_add_output(g, narrow, "narrow");
    graph_add_output(g, build_cast(g, narrow, DTYPE_F32), "wide");
    plan *p = compile(g, d, STEP_EAGER);
    device_run *r = device_run_create(d, p);
    int64_t count = shape_elements(all);
    device_run_fill(r, plan_find_name(p, "x")->buffer, 0, numbers, count * (int64_t)sizeof(float));
    device_run_launch(r);
    const uint16_t *half = device_run_find_name(r, "narrow").data;
    const float *back = device_run_find_name(r, "wide").data;
    for (int64_t i = 0; i < count; i++) {
        uint16_t want =
            low == DTYPE_F16 ? dtype_f32_to_f16(numbers[i]) : dtype_f32_to_bf16(numbers[i]);
        float wide = low == DTYPE_F16 ? dtype_f16_to_f32(half[i]) : dtype_bf16_to_f32(half[i]);
        if (isnan(numbers[i]) ? !isnan(wide) : half[i] != want)
            fail_msg("%a became %04x in %s, not %04x", (double)numbers[i], half[i], dtype_name(low),
                     want);
        if (!(back[i] == wide || (isnan(back[i]) && isnan(wide))))
            fail_msg("%04x of %s became %a, not %a", half[i], dtype_name(low), (double)back[i],
                     (double)wide);
    }
    device_run_destroy(r);
    plan_destroy(p);
    graph_destroy(g);
}

static void casts_to_and_from_low_types_are_exact_for_every_pattern(void **state) {
    enum { PATTERNS = 0x10000, EACH = 7, ALL = PATTERNS * EACH };
    device *d = device_bench_open(state);
    const shape all = SHAPE(PATTERNS, EACH);
    float *numbers = memory_allocate(ALL, sizeof *numbers);
    for (int type = 0; type < 2; type++) {
        float (*widen)(uint16_t) = type ? dtype_bf16_to_f32 : dtype_f16_to_f32;
        for (uint32_t i = 0; i < ALL; i++) {
            float at = widen((uint16_t)(i / EACH)), next = widen((uint16_t)(i / EACH + 1));
            float middle = isfinite(at) && isfinite(next) ? at / 2 + next / 2 : at;
            float around[EACH] = {at,   middle,  nextafterf(middle, at),  nextafterf(middle, next),
                                  next, -middle, nextafterf(at, INFINITY)};
            numbers[i] = around[i % EACH];
        }
        check_cast(d, type ? DTYPE_BF16 : DTYPE_F16, numbers, &all);
    }
    free(numbers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_the_reference_on_operands_in_any_layout),
        cmocka_unit_test(kernels_agree_on_larger_operands),
        cmocka_unit_test(every_op_agrees_with_the_reference_through_the_pipeline),
        cmocka_unit_test(every_op_agrees_on_larger_operands_through_the_pipeline),
        cmocka_unit_test(single_operations_take_any_float_as_ieee_has_it),
        cmocka_unit_test(fused_groups_agree_with_the_reference_on_drawn_graphs),
        cmocka_unit_test(fused_groups_agree_with_the_reference_on_larger_graphs),
        cmocka_unit_test(casts_to_and_from_low_types_are_exact_for_every_pattern),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
