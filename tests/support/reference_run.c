#include "support/reference_run.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "graph/op.h"

struct reference_run {
    const graph *g;
    const double **data; /* by value id */
};

static void run_node(reference_run *run, const node *n) {
    double **outputs = memory_allocate((size_t)n->output_count, sizeof *outputs);
    const double **inputs = memory_allocate((size_t)n->input_count, sizeof *inputs);
    for (int i = 0; i < n->input_count; i++) {
        inputs[i] = run->data[n->inputs[i]->id];
        assert(inputs[i]);
    }
    for (int i = 0; i < n->output_count; i++) {
        const value *v = n->outputs[i];
        outputs[i] = memory_allocate((size_t)shape_elements(&v->shape), sizeof(double));
        run->data[v->id] = outputs[i];
    }
    n->op->reference(n, inputs, outputs);
    free(outputs);
    free(inputs);
}

reference_run *reference_run_create(const graph *g, const double *const *leaves) {
    reference_run *run = memory_allocate(1, sizeof *run);
    run->g = g;
    run->data = memory_allocate((size_t)g->value_count, sizeof *run->data);
    for (int i = 0; i < g->value_count; i++)
        if (!g->values[i]->producer)
            run->data[i] = leaves[i];
    for (int i = 0; i < g->node_count; i++)
        run_node(run, g->nodes[i]);
    return run;
}

void reference_run_destroy(reference_run *run) {
    if (!run)
        return;
    for (int i = 0; i < run->g->value_count; i++)
        if (run->g->values[i]->producer)
            free((void *)run->data[i]);
    free(run->data);
    free(run);
}

const double *reference_run_value(const reference_run *run, const value *v) {
    return run->data[v->id];
}
