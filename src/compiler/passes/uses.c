/* uses.c - for each value a list of its uses, in the order of the nodes that read it.
 *
 * Invariant: a node's id is its position in the graph, so that lists are sorted by it. New nodes
 * are the last of the graph and go to the ends of lists. */
#include "compiler/passes/uses.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/graph_parameter.h"
#include "graph/op.h"

enum { END = -1 };

/* One input of one node. */
typedef struct use {
    node *reader;
    int next; /* the value's next use, or END */
} use;

typedef struct use_list {
    int first, last, count;
} use_list;

struct uses {
    const graph *g;
    int node_count;  /* nodes whose inputs are listed */
    use_list *lists; /* by value id */
    int value_count, value_capacity;
    use *all;
    int use_count, use_capacity;
};

static void append(uses *u, use_list *list, int added) {
    u->all[added].next = END;
    if (list->count++)
        u->all[list->last].next = added;
    else
        list->first = added;
    list->last = added;
}

/* Takes in what was added to the graph since; asked before every answer, and mostly nothing was. */
static void catch_up(uses *u) {
    const graph *g = u->g;
    if (u->node_count == g->node_count && u->value_count == g->value_count)
        return;
    while (u->value_count < g->value_count) {
        MEMORY_GROW(u->lists, u->value_count, u->value_capacity);
        u->lists[u->value_count++] = (use_list){END, END, 0};
    }
    for (; u->node_count < g->node_count; u->node_count++) {
        node *n = g->nodes[u->node_count];
        for (int i = 0; i < n->input_count; i++) {
            MEMORY_GROW(u->all, u->use_count, u->use_capacity);
            u->all[u->use_count] = (use){.reader = n};
            append(u, &u->lists[n->inputs[i]->id], u->use_count++);
        }
    }
}

/* Room for the graph as it is, and for a pass that adds about as much again. */
static void reserve(uses *u) {
    const graph *g = u->g;
    int inputs = 0;
    for (int i = 0; i < g->node_count; i++)
        inputs += g->nodes[i]->input_count;
    u->value_capacity = 2 * g->value_count + 1;
    u->use_capacity = 2 * inputs + 1;
    u->lists = memory_resize(NULL, (size_t)u->value_capacity, sizeof *u->lists);
    u->all = memory_resize(NULL, (size_t)u->use_capacity, sizeof *u->all);
}

uses *uses_create(const graph *g) {
    uses *u = memory_allocate(1, sizeof *u);
    u->g = g;
    reserve(u);
    catch_up(u);
    return u;
}

void uses_destroy(uses *u) {
    if (!u)
        return;
    free(u->lists);
    free(u->all);
    free(u);
}

int uses_count(uses *u, const value *v) {
    catch_up(u);
    return u->lists[v->id].count;
}

node *uses_next_reader(uses *u, const value *v, const node *previous) {
    catch_up(u);
    int i = u->lists[v->id].first;
    while (i != END && previous && u->all[i].reader->id <= previous->id)
        i = u->all[i].next;
    return i == END ? NULL : u->all[i].reader;
}

node *uses_private_maker(uses *u, const value *v, const op *kind) {
    if (!v->producer || v->producer->op != kind || v->is_output || uses_count(u, v) != 1)
        return NULL;
    return v->producer;
}

/* Takes one use by that node out of the list; its index. */
static int take_out(uses *u, use_list *list, const node *reader) {
    int before = END, i = list->first;
    while (u->all[i].reader != reader) {
        before = i;
        i = u->all[i].next;
    }
    if (before == END)
        list->first = u->all[i].next;
    else
        u->all[before].next = u->all[i].next;
    if (list->last == i)
        list->last = before;
    list->count--;
    return i;
}

/* Merges the sorted list `from` into `into`. */
static void merge(uses *u, use_list *into, use_list *from) {
    use_list merged = {END, END, 0};
    int a = into->first, b = from->first;
    bool is_behind =
        a != END && b != END && u->all[into->last].reader->id <= u->all[from->first].reader->id;
    if (is_behind) { /* the usual case, in which there is no need to walk */
        u->all[into->last].next = from->first;
        merged = (use_list){into->first, from->last, into->count + from->count};
        a = b = END;
    }
    while (a != END || b != END) {
        bool is_first = b == END || (a != END && u->all[a].reader->id <= u->all[b].reader->id);
        int *taken = is_first ? &a : &b, index = *taken;
        *taken = u->all[index].next;
        append(u, &merged, index);
    }
    *into = merged;
    *from = (use_list){END, END, 0};
}

void uses_set_input(uses *u, node *n, int index, value *v) {
    catch_up(u);
    if (n->inputs[index] == v)
        return;
    use_list moved = {END, END, 0};
    append(u, &moved, take_out(u, &u->lists[n->inputs[index]->id], n));
    merge(u, &u->lists[v->id], &moved);
    n->inputs[index] = v;
}

void uses_set_inputs(uses *u, node *n, value **inputs, int count) {
    catch_up(u);
    for (int i = 0; i < n->input_count; i++)
        take_out(u, &u->lists[n->inputs[i]->id], n);
    n->inputs = inputs;
    n->input_count = count;
    for (int i = 0; i < count; i++) {
        MEMORY_GROW(u->all, u->use_count, u->use_capacity);
        u->all[u->use_count] = (use){.reader = n};
        use_list added = {END, END, 0};
        append(u, &added, u->use_count++);
        merge(u, &u->lists[inputs[i]->id], &added);
    }
}

void uses_replace(uses *u, value *from, value *to) {
    catch_up(u);
    use_list *list = &u->lists[from->id];
    for (int i = list->first; i != END; i = u->all[i].next) {
        node *n = u->all[i].reader;
        for (int j = 0; j < n->input_count; j++)
            if (n->inputs[j] == from)
                n->inputs[j] = to;
    }
    if (to != from)
        merge(u, &u->lists[to->id], list);
    if (!to->producer)
        return;
    if (to->role == ROLE_ACTIVATION || from->role == ROLE_GRADIENT)
        to->role = from->role;
    if (from->name) {
        to->name = from->name;
        to->is_output = from->is_output;
    }
    if (from->parameter && from->producer) {
        graph_bind_part(from->parameter, PARAMETER_GRADIENT, to);
        from->parameter = NULL;
    }
}
