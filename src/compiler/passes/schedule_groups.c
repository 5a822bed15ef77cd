#include "compiler/passes/schedule_groups.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/fusion_space.h"
#include "graph/op.h"

/* Numbers the groups from 1 in the order of their first members; how many there are. */
static int renumber(graph *g) {
    int *number = memory_allocate((size_t)g->node_count + 2, sizeof *number), count = 0;
    for (int i = 0; i < g->node_count; i++) {
        int old = g->nodes[i]->group;
        if (!old)
            continue;
        if (!number[old])
            number[old] = ++count;
        g->nodes[i]->group = number[old];
    }
    free(number);
    return count;
}

/* Emits everything `n` depends on, group by group: a group goes out whole, after all that any
 * member reads from outside. */
typedef struct scheduler {
    graph *g;
    node **order;
    int count;
    char *done;          /* by node id */
    node ***group_nodes; /* group -> members in order */
    int *group_size;
} scheduler;

static void schedule_node(scheduler *s, node *n);

static void schedule_inputs(scheduler *s, node *n, int group) {
    for (int i = 0; i < n->input_count; i++) {
        node *p = n->inputs[i]->producer;
        if (!p || s->done[p->id] || (group && p->group == group))
            continue;
        const node *root = fusion_root_of(n->inputs[i])->producer;
        if (group && root && root->group == group)
            continue; /* a view inside the group */
        schedule_node(s, p);
    }
}

static void emit(scheduler *s, node *n) {
    if (s->done[n->id])
        return;
    s->done[n->id] = 1;
    s->order[s->count++] = n;
}

/* Views in front of a member, innermost first. */
static void emit_views(scheduler *s, node *n) {
    for (int i = 0; i < n->input_count; i++) {
        node *p = n->inputs[i]->producer;
        if (p && p->op->view && !s->done[p->id]) {
            emit_views(s, p);
            emit(s, p);
        }
    }
}

static void schedule_node(scheduler *s, node *n) {
    if (s->done[n->id])
        return;
    if (!n->group) {
        schedule_inputs(s, n, 0);
        emit(s, n);
        return;
    }
    int group = n->group;
    for (int i = 0; i < s->group_size[group]; i++)
        schedule_inputs(s, s->group_nodes[group][i], group);
    for (int i = 0; i < s->group_size[group]; i++) {
        emit_views(s, s->group_nodes[group][i]);
        emit(s, s->group_nodes[group][i]);
    }
}

dyno_status schedule_groups(graph *g) {
    int groups = renumber(g);
    size_t nodes = (size_t)g->node_count;
    scheduler s = {.g = g,
                   .order = memory_allocate(nodes, sizeof(node *)),
                   .done = memory_allocate(nodes, 1),
                   .group_nodes = memory_allocate((size_t)groups + 1, sizeof(node **)),
                   .group_size = memory_allocate((size_t)groups + 1, sizeof(int))};
    node **pool = memory_allocate(nodes, sizeof(node *));
    for (int i = 0; i < g->node_count; i++)
        s.group_size[g->nodes[i]->group]++;
    node **next = pool;
    for (int i = 1; i <= groups; i++) {
        s.group_nodes[i] = next;
        next += s.group_size[i];
        s.group_size[i] = 0;
    }
    for (int i = 0; i < g->node_count; i++) {
        node *n = g->nodes[i];
        if (n->group)
            s.group_nodes[n->group][s.group_size[n->group]++] = n;
    }
    for (int i = 0; i < g->node_count; i++)
        schedule_node(&s, g->nodes[i]);
    graph_set_order(g, s.order, s.count);
    free(pool);
    free(s.order);
    free(s.done);
    free(s.group_nodes);
    free(s.group_size);
    return graph_status(g);
}
