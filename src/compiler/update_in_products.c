/* update_in_products.c - a gradient is a product's result, or a piece of it.
 *
 * The update stands where the product stood, or behind the last that reads one of its weights: what
 * the product reads then lives longer, which autodiff's order does not ask for, as it puts the
 * product with the weight before the one that makes its gradient. */
#include "compiler/update_in_products.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/rewrite.h"
#include "graph/op.h"
#include "ops/matmul_adamw/matmul_adamw.h"
#include "ops/op_list.h"

/* A product and the parameters it makes the gradient of, in the order of its rows. */
typedef struct candidate {
    node *product;
    node *split; /* NULL: the result is one gradient */
    adamw_parameter *parameters;
    int count;
} candidate;

int update_last_reader(const adamw_parameter *p, const int *last_reader) {
    int last = last_reader[p->weight->id];
    if (p->low_copy && last_reader[p->low_copy->id] > last)
        last = last_reader[p->low_copy->id];
    return last;
}

/* Whether an update may write where `v` is, sooner than the product would read it. */
static bool may_be_weights(const value *v) {
    const node *n = v->producer;
    if (!n)
        return v->role == ROLE_PARAMETER;
    for (int i = 0; i < n->input_count; i++)
        if ((n->op->shares_inputs || (n->op->view && i == 0)) && may_be_weights(n->inputs[i]))
            return true;
    return false;
}

static bool is_plain_product(const node *n) {
    return n->op == &op_matmul && n->input_count == 2 && n->outputs[0]->shape.rank == 2 &&
           (n->inputs[0]->type == DTYPE_F32 || n->inputs[0]->type == DTYPE_BF16) &&
           !may_be_weights(n->inputs[0]) && !may_be_weights(n->inputs[1]);
}

/* Adds the only parameter whose gradient `v` is. False when it is not the gradient of one, or
 * somebody else wants it. */
static bool add_parameter(const graph *g, candidate *c, const value *v,
                          const adamw_parameter *parameters, int count) {
    const adamw_parameter *found = NULL;
    if (v->is_output || rewrite_count_uses(g, v) != 0)
        return false;
    for (int i = 0; i < count; i++) {
        if (parameters[i].gradient != v)
            continue;
        if (found)
            return false;
        found = &parameters[i];
    }
    if (!found)
        return false;
    c->parameters[c->count++] = *found;
    return true;
}

static bool match(const graph *g, node *product, const adamw_parameter *parameters, int count,
                  candidate *c) {
    const value *result = product->outputs[0];
    c->product = product;
    c->split = NULL;
    c->count = 0;
    if (!is_plain_product(product) || result->is_output)
        return false;
    node *reader = rewrite_next_user(g, result, NULL);
    if (!reader)
        return add_parameter(g, c, result, parameters, count);
    if (reader->op != &op_split || rewrite_count_uses(g, result) != 1 ||
        attribute_integer(&reader->attributes, "axis") != 0)
        return false;
    c->split = reader;
    for (int i = 0; i < reader->output_count; i++)
        if (c->count == count || !add_parameter(g, c, reader->outputs[i], parameters, count))
            return false;
    return true;
}

/* Low copies of all, of one type, or of none, as matmul_adamw wants them. */
static bool are_kept_alike(const candidate *c) {
    const value *first = c->parameters[0].low_copy;
    for (int i = 1; i < c->count; i++) {
        const value *copy = c->parameters[i].low_copy;
        if ((copy != NULL) != (first != NULL) || (copy && copy->type != first->type))
            return false;
    }
    return true;
}

static placed_update add_update(const update_setting *s, const candidate *c) {
    graph *g = s->g;
    placed_update made = {.behind = c->product->id};
    for (int i = 0; i < c->count; i++) {
        int last = update_last_reader(&c->parameters[i], s->last_reader);
        made.behind = last > made.behind ? last : made.behind;
    }
    phase outer = g->current_phase;
    g->current_phase = c->product->phase;
    g->current_scope = c->product->scope;
    made.update = build_matmul_adamw(g, c->product, c->parameters, c->count, s->learning_rate,
                                     s->step, s->options)
                      ->producer;
    g->current_phase = outer;
    return made;
}

static int take_out(const candidate *c, adamw_parameter *parameters, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        bool is_taken = false;
        for (int j = 0; j < c->count; j++)
            is_taken = is_taken || parameters[i].weight == c->parameters[j].weight;
        if (!is_taken)
            parameters[kept++] = parameters[i];
    }
    return kept;
}

int update_in_products(const update_setting *s, adamw_parameter *parameters, int *count,
                       placed_update *updates, bool *is_dropped) {
    candidate c = {.parameters = memory_allocate((size_t)*count, sizeof *c.parameters)};
    int made = 0, nodes = s->g->node_count;
    for (int i = 0; i<nodes && * count> 0; i++) {
        if (!match(s->g, s->g->nodes[i], parameters, *count, &c) || !are_kept_alike(&c))
            continue;
        updates[made++] = add_update(s, &c);
        is_dropped[c.product->id] = true;
        if (c.split)
            is_dropped[c.split->id] = true;
        *count = take_out(&c, parameters, *count);
    }
    free(c.parameters);
    return made;
}
