/* fuse.c - greedy: in graph order, each node joins the groups of its inputs, and then those that
 * read the same memory.
 *
 * Invariant: groups form no cycle. No path leaves a group through a node or group outside and
 * comes back, so that the members can run as one launch. Checked before every merge by walking back
 * from all inputs of the members, through other groups as a whole: what enters any member of a
 * group reaches all of its outputs. */
#include "compiler/passes/fuse.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/codegen/fused_kernel.h"
#include "compiler/passes/fusion_space.h"
#include "graph/op.h"

/* Row buffers of a kernel with several stages live on the stack, and sums of columns in a GPU's
 * registers. */
enum { MOST_COLUMNS = 16384, MOST_MEMBERS = 64 };

/* Nodes that may be between two groups that are merged. A recomputed node far behind its first
 * computation would otherwise be moved up to it, and stay alive in between. */
enum { MOST_DISTANCE = 48 };

/* Other launches that may be between two groups that are merged only because they read the same
 * memory. The second would run that much too early, and its results live that much longer. */
enum { MOST_LAUNCHES_BETWEEN = 3 };

typedef struct fuser {
    graph *g;
    const target *target;
    int *position;       /* node -> place in g->nodes, by node id */
    int *launches;       /* place -> nodes before it that no group can take in */
    int *first, *last;   /* group -> position of its first and last member */
    node **head, **tail; /* group -> its members, a chain */
    node **next;         /* node id -> the next member */
    int *members;        /* group -> how many */
    fusion_space *space; /* group -> rows and columns */
    phase *phase;        /* group -> its members' */
    int *block;          /* group -> the model's block of its first member */
    int *merged_into;    /* group -> the one that took it in, or 0 */
    int group_count;
    int *reader;                  /* value id -> the group that read it last from outside */
    int *visited, *visited_group; /* node id, group -> mark of the walk that saw it */
    int mark;
} fuser;

static bool fits(fusion_space node_space, fusion_space group_space) {
    return node_space.rows == group_space.rows &&
           (node_space.columns == group_space.columns || node_space.columns == 1);
}

/* Two groups that may become one. */
typedef struct pair {
    int early, late, from; /* from: position of the first member of either */
} pair;

static bool comes_back(fuser *f, const node *p, const pair *both, bool outside);

static bool inputs_come_back(fuser *f, const node *n, const pair *both, bool outside) {
    for (int i = 0; i < n->input_count; i++)
        if (n->inputs[i]->producer && comes_back(f, n->inputs[i]->producer, both, outside))
            return true;
    return false;
}

/* Whether `p` is, or depends on, a member of the pair by a path that leads outside. */
static bool comes_back(fuser *f, const node *p, const pair *both, bool outside) {
    int group = p->group;
    if (group && (group == both->early || group == both->late))
        return outside;
    if (group) {
        if (f->last[group] < both->from || f->visited_group[group] == f->mark)
            return false;
        f->visited_group[group] = f->mark;
        for (const node *m = f->head[group]; m; m = f->next[m->id])
            if (inputs_come_back(f, m, both, true))
                return true;
        return false;
    }
    outside = outside || !p->op->view;
    if (f->position[p->id] < both->from || (outside && f->visited[p->id] == f->mark))
        return false;
    if (outside)
        f->visited[p->id] = f->mark;
    return inputs_come_back(f, p, both, outside);
}

static bool joins(const fuser *f, const node *n, int index, fusion_space wide, int *group) {
    fusion_read read = fusion_read_of(n, index, wide);
    const node *p = read.source->producer;
    if (!p || !p->group || read.access == FUSION_OTHER)
        return false;
    if (p->phase != n->phase)
        return false;
    *group = p->group;
    /* A full value can only be read element by element; a row's scalar anywhere on its row. */
    fusion_space theirs = f->space[p->group];
    if (!fits(wide, theirs) && !fits(theirs, wide))
        return false;
    bool is_row = fusion_is_row_value(read.source, theirs);
    fusion_kind kind = fusion_kind_of(p);
    if (kind == FUSION_BLOCK_REDUCE)
        return false; /* complete only when the block is */
    return read.access == FUSION_OF_ROW ? is_row || theirs.columns == 1
                                        : !is_row || wide.columns == 1;
}

static bool can_merge(fuser *f, int early, int late) {
    if (f->members[early] + f->members[late] > MOST_MEMBERS ||
        f->first[late] - f->last[early] > MOST_DISTANCE)
        return false;
    fusion_space wide =
        f->space[early].columns > f->space[late].columns ? f->space[early] : f->space[late];
    pair both = {early, late, f->first[early] < f->first[late] ? f->first[early] : f->first[late]};
    f->mark++;
    const node *heads[] = {f->head[early], f->head[late]};
    for (int side = 0; side < 2; side++)
        for (const node *n = heads[side]; n; n = f->next[n->id]) {
            int other = side ? early : late, group;
            for (int j = 0; j < n->input_count; j++) {
                /* A member read in another order must have been written to memory before. */
                const node *p = fusion_root_of(n->inputs[j])->producer;
                if (p && p->group == other && !joins(f, n, j, wide, &group))
                    return false;
            }
            if (inputs_come_back(f, n, &both, false))
                return false;
        }
    return true;
}

static void merge(fuser *f, int early, int late) {
    for (node *m = f->head[late]; m; m = f->next[m->id])
        m->group = early;
    f->next[f->tail[early]->id] = f->head[late];
    f->tail[early] = f->tail[late];
    f->merged_into[late] = early;
    f->members[early] += f->members[late];
    f->first[early] = f->first[early] < f->first[late] ? f->first[early] : f->first[late];
    f->last[early] = f->last[early] > f->last[late] ? f->last[early] : f->last[late];
    if (f->space[late].columns > f->space[early].columns)
        f->space[early] = f->space[late];
}

static void try_merge(fuser *f, int a, int b) {
    int early = f->first[a] < f->first[b] ? a : b, late = early == a ? b : a;
    if (can_merge(f, early, late))
        merge(f, early, late);
}

static bool are_near(const fuser *f, int a, int b) {
    int early = f->first[a] < f->first[b] ? a : b, late = early == a ? b : a;
    return f->launches[f->first[late]] - f->launches[f->last[early]] <= MOST_LAUNCHES_BETWEEN;
}

/* Groups that read the same full value from memory read it once if they are merged. Only within a
 * block of the model: what another block recomputes is wanted when that block runs, not now. */
static void join_readers(fuser *f, const node *n) {
    for (int i = 0; i < n->input_count; i++) {
        fusion_read read = fusion_read_of(n, i, f->space[n->group]);
        const node *p = read.source->producer;
        if (read.access != FUSION_SAME || (p && (p->group == n->group || p->op->view)))
            continue;
        int other = f->reader[read.source->id];
        while (other && f->merged_into[other])
            other = f->merged_into[other];
        if (other && other != n->group && f->phase[other] == n->phase &&
            f->block[other] == f->block[n->group] && are_near(f, other, n->group) &&
            f->space[other].rows == f->space[n->group].rows &&
            f->space[other].columns == f->space[n->group].columns)
            try_merge(f, other, n->group);
        f->reader[read.source->id] = n->group;
    }
}

static void place_node(fuser *f, int at) {
    node *n = f->g->nodes[at];
    fusion_kind kind = fusion_kind_of(n);
    if (kind == FUSION_NONE || kind == FUSION_VIEW)
        return;
    fusion_space own = fusion_space_of(n);
    bool is_long = own.columns > MOST_COLUMNS;
    if (is_long && (!renderer_of(f->target)->takes_long_rows || kind == FUSION_BLOCK_REDUCE))
        return;
    int group = ++f->group_count;
    n->group = group;
    f->first[group] = f->last[group] = at;
    f->head[group] = f->tail[group] = n;
    f->members[group] = 1;
    f->space[group] = own;
    f->phase[group] = n->phase;
    f->block[group] = f->g->scopes[n->scope].block;
    for (int i = 0; i < n->input_count; i++) {
        int other;
        if (!joins(f, n, i, f->space[n->group], &other) || other == n->group)
            continue;
        try_merge(f, other, n->group);
    }
    join_readers(f, n);
}

/* A group of a single node still gains over its eager kernel: it is vectorized for its exact shape
 * and stores low types. So every fusable node keeps its group. */
dyno_status fuse_groups(graph *g, const target *chip) {
    size_t nodes = (size_t)g->node_count;
    fuser f = {.g = g,
               .target = chip,
               .position = memory_allocate(nodes, sizeof(int)),
               .launches = memory_allocate(nodes + 1, sizeof(int)),
               .first = memory_allocate(nodes + 2, sizeof(int)),
               .last = memory_allocate(nodes + 2, sizeof(int)),
               .head = memory_allocate(nodes + 2, sizeof(node *)),
               .tail = memory_allocate(nodes + 2, sizeof(node *)),
               .next = memory_allocate(nodes, sizeof(node *)),
               .visited_group = memory_allocate(nodes + 2, sizeof(int)),
               .members = memory_allocate(nodes + 2, sizeof(int)),
               .space = memory_allocate(nodes + 2, sizeof(fusion_space)),
               .phase = memory_allocate(nodes + 2, sizeof(phase)),
               .block = memory_allocate(nodes + 2, sizeof(int)),
               .merged_into = memory_allocate(nodes + 2, sizeof(int)),
               .reader = memory_allocate((size_t)g->value_count, sizeof(int)),
               .visited = memory_allocate(nodes, sizeof(int))};
    for (int i = 0; i < g->node_count; i++) {
        f.position[g->nodes[i]->id] = i;
        f.launches[i + 1] = f.launches[i] + (fusion_kind_of(g->nodes[i]) == FUSION_NONE);
    }
    for (int i = 0; i < g->node_count; i++)
        place_node(&f, i);
    free(f.position);
    free(f.launches);
    free(f.first);
    free(f.last);
    free(f.head);
    free(f.tail);
    free(f.next);
    free(f.visited_group);
    free(f.members);
    free(f.space);
    free(f.phase);
    free(f.block);
    free(f.merged_into);
    free(f.reader);
    free(f.visited);
    return graph_status(g);
}

dyno_status fuse_each(graph *g) {
    int groups = 0;
    for (int i = 0; i < g->node_count; i++) {
        fusion_kind kind = fusion_kind_of(g->nodes[i]);
        if (kind == FUSION_ELEMENTWISE || kind == FUSION_ROW_REDUCE)
            g->nodes[i]->group = ++groups;
    }
    return graph_status(g);
}
