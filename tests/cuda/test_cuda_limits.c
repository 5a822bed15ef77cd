/* test_cuda_limits.c - hand-written kernels past what one launch of them, or the shared memory of
 * one block, holds: more tensors than fit into a launch's arguments, more tokens of one row than a
 * block takes down at a time. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "compiler/pipeline.h"
#include "graph/op.h"
#include "ops/adamw_many/adamw_many.h"
#include "ops/global_norm/global_norm.h"
#include "ops/scatter_add/scatter_add.h"
#include "support/device_bench.h"
#include "support/device_run.h"
#include "support/draw.h"
#include "support/expect.h"
#include "support/numbers.h"
#include "support/operand.h"
#include "support/reference_run.h"

/* A graph of one node and, by value id, what its leaves are. */
typedef struct subject {
    graph *g;
    double **data;
    int data_count;
    draw d;
} subject;

static subject subject_create(uint64_t seed) {
    return (subject){.g = graph_create("limits"), .d = draw_create(seed, 1)};
}

/* Multiples of 1/8 in [low, high): every float type has them. */
static value *add_leaf(subject *s, const char *what, int index, dtype type, const shape *dims,
                       double low, double high) {
    char name[32];
    snprintf(name, sizeof name, "%s%d", what, index);
    value *v = graph_add_leaf(s->g, ROLE_INPUT, type, dims, name);
    int64_t elements = shape_elements(dims);
    s->data = memory_resize(s->data, (size_t)v->id + 1, sizeof *s->data);
    for (; s->data_count <= v->id; s->data_count++)
        s->data[s->data_count] = NULL;
    s->data[v->id] = memory_allocate((size_t)elements, sizeof **s->data);
    for (int64_t i = 0; i < elements; i++)
        s->data[v->id][i] = low + (double)draw_below(&s->d, (int64_t)((high - low) * 8)) / 8;
    return v;
}

/* Compares every output of the last node with the reference; then all is gone. An output that is
 * written in place is found under the name of what it overwrites, any other is called "y". */
static void check(subject *s, device *d, double limit) {
    graph *g = s->g;
    if (graph_status(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    const node *n = g->nodes[g->node_count - 1];
    int outputs = n->output_count;
    reference_run *exact = reference_run_create(g, (const double *const *)s->data);
    char(*names)[32] = memory_allocate((size_t)outputs, sizeof *names);
    const double **wanted = memory_allocate((size_t)outputs, sizeof *wanted);
    for (int i = 0; i < outputs; i++) {
        int place = op_inplace_input(n, i);
        snprintf(names[i], sizeof *names, "%s", place < 0 ? "y" : n->inputs[place]->name);
        wanted[i] = reference_run_value(exact, n->outputs[i]);
    }
    plan *p;
    pipeline_options options = {.extent = STEP_FORWARD, .mode = STEP_EAGER, .target = d->backend};
    expect_ok(pipeline_compile(g, &options, &p));
    device_run *r = device_run_create(d, p);
    for (int i = 0; i < s->data_count; i++)
        if (s->data[i])
            device_run_fill_leaf(r, g->values[i]->name, s->data[i]);
    device_run_launch(r);
    for (int i = 0; i < outputs; i++) {
        tensor out = device_run_find_name(r, names[i]);
        double *got = tensor_to_doubles(&out);
        double off = relative_error(got, wanted[i], shape_elements(&out.shape));
        if (!(off <= limit))
            fail_msg("'%s' [%s] is %g off", names[i], shape_format(&out.shape).text, off);
        free(got);
    }
    device_run_destroy(r);
    plan_destroy(p);
    reference_run_destroy(exact);
    graph_destroy(g);
    for (int i = 0; i < s->data_count; i++)
        free(s->data[i]);
    free(s->data);
    free(names);
    free(wanted);
}

static void norms_are_taken_of_more_tensors_than_a_launch_has_room_for(void **state) {
    device *d = device_bench_open(state);
    static const int counts[] = {1, 1024, 1025, 2100};
    for (int c = 0; c < 4; c++) {
        subject s = subject_create((uint64_t)c);
        value **inputs = memory_allocate((size_t)counts[c], sizeof *inputs);
        for (int i = 0; i < counts[c]; i++) {
            static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
            shape dims = SHAPE(i % 300 == 7 ? 40001 : 1 + i % 11);
            inputs[i] = add_leaf(&s, "x", i, types[i % 3], &dims, -4, 4);
        }
        graph_add_output(s.g, build_global_norm(s.g, inputs, counts[c]), "y");
        free(inputs);
        check(&s, d, 2e-6);
    }
}

static adamw_parameter add_parameter(subject *s, int i, bool has_copy) {
    shape dims = SHAPE(i % 200 == 3 ? 9001 : 1 + i % 13);
    adamw_parameter made = {.weight = add_leaf(s, "w", i, DTYPE_F32, &dims, -4, 4),
                            .gradient =
                                add_leaf(s, "g", i, i % 2 ? DTYPE_BF16 : DTYPE_F32, &dims, -4, 4),
                            .first_moment = add_leaf(s, "m", i, DTYPE_F32, &dims, -1, 1),
                            .second_moment = add_leaf(s, "v", i, DTYPE_F32, &dims, 1, 4)};
    if (has_copy)
        made.low_copy = add_leaf(s, "low", i, DTYPE_BF16, &dims, -4, 4);
    return made;
}

/* Low copies are counted from the first parameter on, also where a second launch begins among
 * them. */
static void more_parameters_are_updated_than_a_launch_has_room_for(void **state) {
    device *d = device_bench_open(state);
    static const struct {
        int count, low;
    } cases[] = {{32, 32}, {33, 7}, {600, 600}, {601, 0}, {1250, 640}};
    const shape scalar = SHAPE_SCALAR;
    for (int c = 0; c < 5; c++) {
        subject s = subject_create((uint64_t)c + 10);
        value *rate = add_leaf(&s, "rate", 0, DTYPE_F64, &scalar, 0.125, 0.25);
        value *step = add_leaf(&s, "step", 0, DTYPE_I64, &scalar, 3, 3.125);
        value *scale = add_leaf(&s, "scale", 0, DTYPE_F32, &scalar, 0.5, 1);
        adamw_parameter *all = memory_allocate((size_t)cases[c].count, sizeof *all);
        for (int i = 0; i < cases[c].count; i++)
            all[i] = add_parameter(&s, i, i < cases[c].low);
        adamw_options options = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1};
        build_adamw_many(s.g, all, cases[c].count, rate, step, scale, &options);
        free(all);
        node *n = s.g->nodes[s.g->node_count - 1];
        for (int i = 0; i < n->output_count; i++)
            n->inputs[op_inplace_input(n, i)]->role = n->outputs[i]->role =
                i < 3 * cases[c].count && i % 3 ? ROLE_OPTIMIZER_STATE : ROLE_PARAMETER;
        check(&s, d, 0x1p-8); /* what rounding a low copy takes */
    }
}

/* Ids of few rows among many tokens: a block's rows have more than it takes down at a time, and in
 * the end one row alone has. */
static void rows_of_more_tokens_than_a_block_takes_down_are_summed(void **state) {
    device *d = device_bench_open(state);
    static const struct {
        int64_t tokens, rows, width, hot; /* hot: every id but each hot-th is 1 */
        dtype type;
    } cases[] = {{2048, 3, 40, 5, DTYPE_F32},    {2049, 1, 40, 1, DTYPE_F32},
                 {9001, 5, 37, 7, DTYPE_F32},    {20000, 2, 8, 3, DTYPE_BF16},
                 {5000, 70, 2056, 2, DTYPE_F16}, {6000, 200, 33, 4, DTYPE_BF16}};
    for (int c = 0; c < 6; c++) {
        if (cases[c].type != DTYPE_F32 && !device_bench_is_real(d))
            continue; /* the CPU adds f32 only */
        subject s = subject_create((uint64_t)c + 20);
        shape ids = SHAPE(cases[c].tokens), rows = SHAPE(cases[c].tokens, cases[c].width);
        value *at = add_leaf(&s, "ids", 0, DTYPE_I32, &ids, 0, 1);
        for (int64_t i = 0; i < cases[c].tokens; i++) {
            int64_t id = i % cases[c].hot ? 1 : draw_below(&s.d, cases[c].rows);
            s.data[at->id][i] = (double)(cases[c].rows == 1 ? 0 : id);
        }
        value *x = add_leaf(&s, "x", 0, cases[c].type, &rows, -1, 1);
        graph_add_output(s.g, build_scatter_add(s.g, at, x, cases[c].rows), "y");
        check(&s, d, cases[c].type == DTYPE_F32 ? 0 : cases[c].type == DTYPE_F16 ? 2e-4 : 2e-3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_taken_of_more_tensors_than_a_launch_has_room_for),
        cmocka_unit_test(more_parameters_are_updated_than_a_launch_has_room_for),
        cmocka_unit_test(rows_of_more_tokens_than_a_block_takes_down_are_summed),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
