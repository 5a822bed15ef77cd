#include "support/same_gradients.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/mark_saved.h"
#include "graph/verify.h"
#include "support/draw.h"
#include "support/numbers.h"
#include "support/reference_run.h"

static double **draw_leaves(const graph *g, int64_t vocab, uint64_t seed) {
    double **leaves = memory_allocate((size_t)g->value_count, sizeof *leaves);
    draw numbers = draw_create(seed, 1);
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        int64_t count = v->producer ? 0 : shape_elements(&v->shape);
        leaves[i] = count ? memory_allocate((size_t)count, sizeof(double)) : NULL;
        for (int64_t j = 0; j < count; j++)
            leaves[i][j] =
                v->type == DTYPE_I32 ? (double)draw_below(&numbers, vocab) : draw_normal(&numbers);
    }
    return leaves;
}

void expect_same_gradients(graph *first, graph *second, int64_t vocab, uint64_t seed) {
    graph *graphs[2] = {first, second};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(autodiff_append_backward(graphs[i], true), DYNO_OK);
        assert_int_equal(mark_saved_activations(graphs[i]), DYNO_OK);
    }
    expect_same_outputs(first, second, vocab, seed);
}

void expect_same_outputs(graph *first, graph *second, int64_t vocab, uint64_t seed) {
    graph *graphs[2] = {first, second};
    reference_run *runs[2];
    double **leaves[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(graph_verify(graphs[i]), DYNO_OK);
        leaves[i] = draw_leaves(graphs[i], vocab, seed);
        runs[i] = reference_run_create(graphs[i], (const double *const *)leaves[i]);
    }
    int compared = 0;
    for (int i = 0; i < first->value_count; i++) {
        const value *a = first->values[i], *b;
        if (!a->is_output)
            continue;
        b = graph_find_value(second, a->name);
        assert_non_null(b);
        double error = relative_error(reference_run_value(runs[1], b),
                                      reference_run_value(runs[0], a), shape_elements(&a->shape));
        if (!(error < 1e-9))
            fail_msg("%s is off by %g", a->name, error);
        compared++;
    }
    assert_true(compared > 1);
    for (int i = 0; i < 2; i++) {
        reference_run_destroy(runs[i]);
        for (int j = 0; j < graphs[i]->value_count; j++)
            free(leaves[i][j]);
        free(leaves[i]);
        graph_destroy(graphs[i]);
    }
}
