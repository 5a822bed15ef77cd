/* shard.c - the lists are made first, then every use of a weight is redirected to a slice of its list,
 * then gradients are collected in the same order.
 *
 * All parts have one length, a multiple of a cache line; what is beyond the parameters is zero and stays
 * so: its gradients are zero. */
#include "compiler/passes/shard.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/insertions.h"
#include "compiler/passes/weight_views.h"
#include "graph/graph_parameter.h"
#include "graph/op.h"
#include "ops/accumulate/accumulate.h"
#include "ops/all_gather/all_gather.h"
#include "ops/all_reduce/all_reduce.h"
#include "ops/broadcast/broadcast.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
#include "ops/fill/fill.h"
#include "ops/reduce_scatter/reduce_scatter.h"
#include "ops/reshape/reshape.h"
#include "ops/slice/slice.h"

enum { PART_MULTIPLE = 16 }; /* elements; 64 bytes in f32 */

/* Forward and backward: each has its own slices, and with fsdp its own copy of the list. */
enum { FORWARD, BACKWARD, DIRECTIONS };
/* The two leaves that a list may have. */
enum { WEIGHT, LOW, KINDS };

/* Parameters that become one list. */
typedef struct shard_list {
    graph_parameter **members;
    int64_t *offset; /* by member */
    int count, capacity;
    int key;        /* the block, or below 0 a number of its own */
    int64_t length; /* of all members */
    int64_t part;   /* of a rank */
    const char *name;
    graph_parameter *record;
    value *leaf[KINDS];                      /* NULL: none */
    value *source[KINDS][DIRECTIONS];        /* what is sliced: the leaf, or the gathered list */
    int first[DIRECTIONS], last[DIRECTIONS]; /* positions of uses; -1: none */
    int ready; /* position behind which all gradients are there; -1: none */
} shard_list;

/* One input of a node that is a weight. */
typedef struct weight_use {
    node *reader;
    int input, list, member, kind;
} weight_use;

typedef struct sharding {
    graph *g;
    const parallel_options *options;
    shard_list *lists;
    int list_count, list_capacity;
    weight_use *uses;
    int use_count, use_capacity;
    insertions made;
    int old_nodes;
} sharding;

static bool is_fsdp(const sharding *s) { return s->options->mode == PARALLEL_FSDP; }

static const node *node_before(const sharding *s, int position) {
    return position > 0 ? s->g->nodes[position - 1] : NULL;
}

/* ---- values with one dimension ---- */

static value *add_list_leaf(graph *g, role r, dtype type, int64_t length, const char *name) {
    shape s = SHAPE(length);
    return graph_add_leaf(g, r, type, &s, name);
}

static value *slice_list(graph *g, value *list, int64_t offset, int64_t length) {
    shape s = SHAPE(length);
    return build_slice(g, list, offset, &s);
}

static value *flatten(graph *g, value *v) {
    shape s = SHAPE(shape_elements(&v->shape));
    return build_reshape(g, v, &s);
}

static value *add_zeros(graph *g, dtype type, int64_t length) {
    shape s = SHAPE(length);
    return build_broadcast_scalar(g, build_fill(g, type, 0), &s);
}

/* ---- lists ---- */

static bool are_alike(const graph_parameter *a, const graph_parameter *b) {
    bool same_copies = (a->low_copy != NULL) == (b->low_copy != NULL) &&
                       (!a->low_copy || a->low_copy->type == b->low_copy->type);
    return a->value->type == b->value->type && a->is_split == b->is_split && same_copies;
}

static shard_list *find_list(sharding *s, const graph_parameter *p, int key) {
    for (int i = 0; i < s->list_count; i++)
        if (s->lists[i].key == key && are_alike(s->lists[i].members[0], p))
            return &s->lists[i];
    MEMORY_GROW(s->lists, s->list_count, s->list_capacity);
    shard_list *list = &s->lists[s->list_count++];
    *list = (shard_list){.key = key, .ready = -1};
    for (int d = 0; d < DIRECTIONS; d++)
        list->first[d] = list->last[d] = -1;
    return list;
}

static void form_lists(sharding *s) {
    for (int i = 0; i < s->g->parameter_count; i++) {
        graph_parameter *p = s->g->parameters[i];
        shard_list *list = find_list(s, p, p->block >= 0 ? p->block : -1 - i);
        int capacity = list->capacity; /* of both arrays */
        MEMORY_GROW(list->members, list->count, list->capacity);
        MEMORY_GROW(list->offset, list->count, capacity);
        list->members[list->count] = p;
        list->offset[list->count++] = list->length;
        list->length += shape_elements(&p->value->shape);
    }
    for (int i = 0; i < s->list_count; i++) {
        shard_list *list = &s->lists[i];
        const graph_parameter *first = list->members[0];
        int64_t part = (list->length + s->options->ranks - 1) / s->options->ranks;
        list->part = (part + PART_MULTIPLE - 1) / PART_MULTIPLE * PART_MULTIPLE;
        list->name = list->key >= 0 ? arena_format(s->g->memory, "layers.%d.%s", list->key,
                                                   dtype_name(first->value->type))
                                    : first->name;
    }
}

static const char *leaf_name(const sharding *s, const shard_list *list, int kind) {
    const graph_parameter *first = list->members[0];
    const char *prefix = kind == LOW       ? parameter_part_prefix(PARAMETER_LOW_COPY)
                         : first->is_split ? parameter_part_prefix(PARAMETER_REST)
                                           : "";
    return arena_format(s->g->memory, "%s%s.%s", prefix, is_fsdp(s) ? "shard" : "whole",
                        list->name);
}

/* The record whose parts the optimizer updates. Of zero1 value and low copy are set later. */
static void add_record(sharding *s, shard_list *list) {
    graph *g = s->g;
    graph_parameter *first = list->members[0];
    int64_t length = is_fsdp(s) ? list->part : list->part * s->options->ranks;
    value *const old[KINDS] = {first->value, first->low_copy};
    for (int k = 0; k < KINDS; k++)
        if (old[k])
            list->leaf[k] =
                add_list_leaf(g, ROLE_PARAMETER, old[k]->type, length, leaf_name(s, list, k));
    graph_parameter *record = arena_allocate(g->memory, 1, sizeof *record);
    *record = (graph_parameter){.name = arena_format(g->memory, "shard.%s", list->name),
                                .block = first->block,
                                .is_split = first->is_split};
    list->record = record;
    if (is_fsdp(s)) {
        record->value = list->leaf[WEIGHT];
        record->low_copy = list->leaf[LOW];
    } else {
        record->whole = list->leaf[WEIGHT];
        record->whole_low = list->leaf[LOW];
    }
    for (int k = 0; k < KINDS; k++)
        if (list->leaf[k])
            list->leaf[k]->parameter = record;
}

/* ---- uses ---- */

static int member_of(const shard_list *list, const value *v, int *kind) {
    for (int i = 0; i < list->count; i++)
        if (v == list->members[i]->value || v == list->members[i]->low_copy) {
            *kind = v == list->members[i]->value ? WEIGHT : LOW;
            return i;
        }
    return -1;
}

static void note_use(sharding *s, int position, int input) {
    node *n = s->g->nodes[position];
    for (int i = 0; n->inputs[input]->parameter && i < s->list_count; i++) {
        weight_use use = {.reader = n, .input = input, .list = i};
        shard_list *list = &s->lists[i];
        use.member = member_of(list, n->inputs[input], &use.kind);
        if (use.member < 0)
            continue;
        int d = n->phase == PHASE_FORWARD ? FORWARD : BACKWARD;
        list->first[d] = list->first[d] < 0 ? position : list->first[d];
        list->last[d] = position;
        MEMORY_GROW(s->uses, s->use_count, s->use_capacity);
        s->uses[s->use_count++] = use;
        return;
    }
}

static void find_uses(sharding *s) {
    for (int i = 0; i < s->g->node_count; i++)
        for (int j = 0; j < s->g->nodes[i]->input_count; j++)
            note_use(s, i, j);
}

/* ---- gathering ---- */

typedef struct first_use {
    int list, position;
} first_use;

static int by_position(const void *a, const void *b) {
    const first_use *x = a, *y = b;
    return x->position != y->position ? (x->position < y->position ? -1 : 1) : x->list - y->list;
}

/* Lists in the order of their first uses in a direction. */
static int sort_lists(const sharding *s, int direction, first_use *sorted) {
    int count = 0;
    for (int i = 0; i < s->list_count; i++)
        if (s->lists[i].first[direction] >= 0)
            sorted[count++] = (first_use){i, s->lists[i].first[direction]};
    qsort(sorted, (size_t)count, sizeof *sorted, by_position);
    return count;
}

static bool is_read(const sharding *s, int list, int kind, int direction) {
    for (int i = 0; i < s->use_count; i++) {
        const weight_use *use = &s->uses[i];
        int d = use->reader->phase == PHASE_FORWARD ? FORWARD : BACKWARD;
        if (use->list == list && use->kind == kind && d == direction)
            return true;
    }
    return false;
}

static void gather_list(sharding *s, int list, int direction, const node *behind) {
    collective_place place = {.ranks = s->options->ranks, .is_overlapped = true};
    s->g->current_phase = PHASE_COMMUNICATION;
    s->g->current_scope = graph_intern_scope(s->g, "communication", 0);
    for (int k = 0; k < KINDS; k++)
        if (is_read(s, list, k, direction))
            s->lists[list].source[k][direction] =
                build_all_gather(s->g, s->lists[list].leaf[k], &place);
    insertions_note(s->g, &s->made, behind);
}

/* Where to gather list `at` of those sorted by first use: before the first use of what comes before its
 * block, be that one list or several. */
static const node *one_ahead(const sharding *s, const first_use *sorted, int at) {
    const shard_list *lists = s->lists;
    int before = at;
    while (before > 0 && lists[sorted[before].list].key == lists[sorted[at].list].key)
        before--;
    while (before > 0 && lists[sorted[before - 1].list].key == lists[sorted[before].list].key)
        before--;
    return node_before(s, sorted[before].position);
}

/* The list that the backward begins with may still be there from the end of the forward. */
static void gather_lists(sharding *s) {
    first_use *sorted = memory_allocate((size_t)s->list_count, sizeof *sorted);
    int newest = -1;
    for (int d = 0; d < DIRECTIONS; d++) {
        int count = sort_lists(s, d, sorted);
        for (int i = 0; i < count; i++) {
            shard_list *list = &s->lists[sorted[i].list];
            bool is_there = d == BACKWARD && i == 0 && sorted[i].list == newest;
            for (int k = 0; k < KINDS && is_there; k++)
                is_there = !is_read(s, sorted[i].list, k, BACKWARD) || list->source[k][FORWARD];
            for (int k = 0; k < KINDS && is_there; k++)
                list->source[k][BACKWARD] = list->source[k][FORWARD];
            if (!is_there)
                gather_list(s, sorted[i].list, d, one_ahead(s, sorted, i));
        }
        newest = count ? sorted[count - 1].list : newest;
    }
    free(sorted);
}

static void read_leaves(sharding *s) {
    for (int i = 0; i < s->list_count; i++)
        for (int k = 0; k < KINDS; k++)
            for (int d = 0; d < DIRECTIONS; d++)
                s->lists[i].source[k][d] = s->lists[i].leaf[k];
}

/* Every reader of a weight reads a slice of its list: one for each direction. */
static void redirect_uses(sharding *s) {
    graph *g = s->g;
    for (int i = 0; i < s->use_count; i++) {
        const weight_use *use = &s->uses[i];
        const shard_list *list = &s->lists[use->list];
        value *old = use->reader->inputs[use->input];
        if (old->producer) /* replaced with an earlier use of the same */
            continue;
        int d = use->reader->phase == PHASE_FORWARD ? FORWARD : BACKWARD;
        g->current_phase = use->reader->phase;
        g->current_scope = use->reader->scope;
        value *slice = build_slice(g, list->source[use->kind][d], list->offset[use->member],
                                   &list->members[use->member]->value->shape);
        insertions_note(g, &s->made, node_before(s, use->reader->id));
        for (int j = i; j < s->use_count; j++)
            if (s->uses[j].reader->inputs[s->uses[j].input] == old &&
                (s->uses[j].reader->phase == PHASE_FORWARD) == (d == FORWARD))
                s->uses[j].reader->inputs[s->uses[j].input] = slice;
    }
}

/* ---- gradients ---- */

static value *take_gradient(sharding *s, shard_list *list, int member) {
    value *gradient = list->members[member]->gradient;
    gradient->name = NULL;
    gradient->parameter = NULL;
    gradient->is_output = false;
    s->g->current_phase = gradient->producer->phase;
    s->g->current_scope = gradient->producer->scope;
    return gradient;
}

/* The sums of a list in the low type that is sent. They are read through what was written last, so that
 * the order of nodes follows from the graph. */
static value *build_flat_sums(sharding *s, const shard_list *list, value *sum,
                              value *const *written, phase when) {
    graph *g = s->g;
    int64_t rest = list->part * s->options->ranks - list->length;
    value **pieces = memory_allocate((size_t)list->count + 1, sizeof *pieces);
    int count = 0;
    g->current_phase = when;
    for (int i = 0; i < list->count; i++)
        pieces[count++] = flatten(g, build_cast(g, written[i], s->options->reduce_type));
    if (rest > 0) /* zeros, as they are in the sum */
        pieces[count++] =
            build_cast(g, slice_list(g, sum, list->length, rest), s->options->reduce_type);
    value *all = count > 1 ? build_concat(g, pieces, count, 0) : pieces[0];
    free(pieces);
    return all;
}

/* The sums of all members, each made in its place of a list on every rank. */
static value *sum_in_whole(sharding *s, shard_list *list) {
    graph *g = s->g;
    value *sum = add_list_leaf(g, ROLE_GRADIENT, DTYPE_F32, list->part * s->options->ranks,
                               arena_format(g->memory, "sum.%s", list->name));
    value **written = memory_allocate((size_t)list->count, sizeof *written);
    for (int i = 0; i < list->count; i++) {
        const node *behind = list->members[i]->gradient->producer;
        value *gradient = take_gradient(s, list, i);
        value *place = build_slice(g, sum, list->offset[i], &gradient->shape);
        place->role = ROLE_GRADIENT;
        written[i] = build_accumulate(g, place, gradient);
        insertions_note(g, &s->made, behind);
    }
    collective_place how = {.ranks = s->options->ranks, .is_overlapped = true, .is_once = true};
    g->current_phase = PHASE_COMMUNICATION;
    g->current_scope = graph_intern_scope(g, "communication", 0);
    const node *behind = g->nodes[list->ready];
    if (!parallel_reduces_low(s->options)) {
        value *part = build_reduce_scatter(g, sum, written, list->count, &how);
        insertions_note(g, &s->made, behind);
        free(written);
        return part;
    }
    value *all = build_flat_sums(s, list, sum, written, behind->phase);
    g->current_phase = PHASE_COMMUNICATION;
    value *low = build_reduce_scatter(g, all, NULL, 0, &how);
    insertions_note(g, &s->made, behind);
    free(written);
    g->current_phase = PHASE_OPTIMIZER;
    value *part = build_cast(g, low, DTYPE_F32);
    insertions_note_last(g, &s->made);
    return part;
}

/* The gradients of a micro-batch as a list, of which each rank gets the sum of its part. */
static value *scatter_gradients(sharding *s, shard_list *list) {
    graph *g = s->g;
    int64_t rest = list->part * s->options->ranks - list->length;
    value **pieces = memory_allocate((size_t)list->count + 1, sizeof *pieces);
    dtype sent = parallel_reduces_low(s->options) ? s->options->reduce_type : DTYPE_F32;
    int count = 0;
    for (int i = 0; i < list->count; i++) {
        const node *behind = list->members[i]->gradient->producer;
        value *gradient = take_gradient(s, list, i);
        gradient->role = ROLE_ACTIVATION; /* it may be made inside the list */
        if (gradient->type != sent)
            gradient = build_cast(g, gradient, sent);
        pieces[count++] = flatten(g, gradient);
        insertions_note(g, &s->made, behind);
    }
    g->current_phase = g->nodes[list->ready]->phase;
    g->current_scope = graph_intern_scope(g, "communication", 0);
    if (rest > 0)
        pieces[count++] = add_zeros(g, sent, rest);
    value *whole = count > 1 ? build_concat(g, pieces, count, 0) : pieces[0];
    collective_place how = {.ranks = s->options->ranks, .is_overlapped = true};
    g->current_phase = PHASE_COMMUNICATION;
    value *part = build_reduce_scatter(g, whole, NULL, 0, &how);
    insertions_note(g, &s->made, g->nodes[list->ready]);
    free(pieces);
    return part;
}

/* The part's sum over micro-batches, behind `behind`: until then the collective may be under way. */
static void sum_part(sharding *s, shard_list *list, value *part, const node *behind) {
    graph *g = s->g;
    value *sum = add_list_leaf(g, ROLE_GRADIENT, DTYPE_F32, list->part,
                               arena_format(g->memory, "sum.shard.%s", list->name));
    g->current_phase = PHASE_BACKWARD;
    graph_set_gradient(g, list->record, build_accumulate(g, sum, part));
    insertions_note(g, &s->made, behind);
}

/* Also which old nodes make a gradient; the caller frees it. */
static bool *find_ready(sharding *s) {
    bool *makes_gradient = memory_allocate((size_t)s->old_nodes + 1, sizeof *makes_gradient);
    for (int i = 0; i < s->list_count; i++)
        for (int j = 0; j < s->lists[i].count; j++) {
            const value *gradient = s->lists[i].members[j]->gradient;
            if (gradient)
                makes_gradient[gradient->producer->id] = true;
            if (gradient && gradient->producer->id > s->lists[i].ready)
                s->lists[i].ready = gradient->producer->id;
        }
    return makes_gradient;
}

/* Before the next gradient is made: the memory of one list of gradients is enough. */
static const node *before_next(const sharding *s, const bool *makes_gradient, int ready) {
    int next = ready + 1;
    while (next < s->old_nodes && !makes_gradient[next])
        next++;
    return s->g->nodes[next - 1];
}

static void reduce_gradients(sharding *s) {
    graph *g = s->g;
    first_use *sorted = memory_allocate((size_t)s->list_count, sizeof *sorted);
    bool *makes_gradient = find_ready(s);
    int count = 0;
    for (int i = 0; i < s->list_count; i++)
        if (s->lists[i].ready >= 0)
            sorted[count++] = (first_use){i, s->lists[i].ready};
    qsort(sorted, (size_t)count, sizeof *sorted, by_position);
    for (int i = 0; i < count; i++) {
        shard_list *list = &s->lists[sorted[i].list];
        if (is_fsdp(s))
            sum_part(s, list, scatter_gradients(s, list),
                     before_next(s, makes_gradient, list->ready));
        else
            graph_set_gradient(g, list->record, sum_in_whole(s, list));
    }
    free(makes_gradient);
    free(sorted);
}

/* ---- the end ---- */

static void reduce_loss(sharding *s) {
    graph *g = s->g;
    value *loss = graph_find_value(g, "loss");
    const node *behind = loss->producer;
    collective_place how = {.ranks = s->options->ranks, .is_overlapped = true, .is_once = true};
    g->current_phase = PHASE_COMMUNICATION;
    g->current_scope = graph_intern_scope(g, "communication", 0);
    loss->is_output = false;
    loss->name = NULL;
    graph_add_output(g, build_all_reduce(g, &loss, 1, &how), "loss");
    insertions_note(g, &s->made, behind);
}

/* zero1: the parts that the optimizer updates, views of the wholes. */
static void slice_parts(sharding *s) {
    graph *g = s->g;
    g->current_phase = PHASE_OPTIMIZER;
    g->current_scope = graph_intern_scope(g, "optimizer", 0);
    for (int i = 0; i < s->list_count; i++) {
        shard_list *list = &s->lists[i];
        value **const parts[KINDS] = {&list->record->value, &list->record->low_copy};
        for (int k = 0; k < KINDS; k++)
            if (list->leaf[k]) {
                *parts[k] = slice_list(g, list->leaf[k], s->options->rank * list->part, list->part);
                (*parts[k])->parameter = list->record;
            }
    }
    insertions_note_last(g, &s->made);
}

static void replace_records(sharding *s) {
    graph *g = s->g;
    int members = 0;
    g->shard_count = g->parameter_count;
    g->shards = arena_allocate(g->memory, (size_t)g->shard_count, sizeof *g->shards);
    for (int i = 0; i < g->shard_count; i++) { /* in the model's order */
        const graph_parameter *p = g->parameters[i];
        for (int l = 0; l < s->list_count; l++)
            for (int j = 0; j < s->lists[l].count; j++)
                if (s->lists[l].members[j] == p)
                    g->shards[members++] = (graph_shard){p->name, s->lists[l].record,
                                                         s->lists[l].offset[j], p->value->shape};
        p->value->is_dropped = true;
        if (p->low_copy)
            p->low_copy->is_dropped = true;
    }
    name_table_release(&g->parameter_names);
    g->parameter_names = (name_table){0};
    g->parameter_count = 0;
    for (int i = 0; i < s->list_count; i++) {
        name_table_set(&g->parameter_names, s->lists[i].record->name, i);
        g->parameters[g->parameter_count++] = s->lists[i].record;
    }
}

static void release(sharding *s) {
    for (int i = 0; i < s->list_count; i++) {
        free(s->lists[i].members);
        free(s->lists[i].offset);
    }
    free(s->lists);
    free(s->uses);
}

dyno_status shard_parameters(graph *g, const parallel_options *options) {
    if (options->mode == PARALLEL_FSDP)
        weight_views_separate(g);
    sharding s = {
        .g = g, .options = options, .made = insertions_begin(g), .old_nodes = g->node_count};
    form_lists(&s);
    find_uses(&s);
    for (int i = 0; i < s.list_count; i++)
        add_record(&s, &s.lists[i]);
    if (is_fsdp(&s))
        gather_lists(&s);
    else
        read_leaves(&s);
    redirect_uses(&s);
    reduce_gradients(&s);
    reduce_loss(&s);
    if (!is_fsdp(&s))
        slice_parts(&s);
    replace_records(&s);
    insertions_apply(g, &s.made);
    release(&s);
    return graph_status(g);
}

/* What an update in place has made of `part`. */
static value *find_updated(const graph *g, const value *part) {
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        for (int o = 0; o < n->output_count && n->phase == PHASE_OPTIMIZER; o++)
            if (op_inplace_input(n, o) >= 0 && n->inputs[op_inplace_input(n, o)] == part)
                return n->outputs[o];
    }
    return NULL;
}

dyno_status shard_gather_updates(graph *g, const parallel_options *options) {
    insertions made = insertions_begin(g);
    collective_place how = {.ranks = options->ranks, .is_overlapped = true};
    g->current_phase = PHASE_COMMUNICATION;
    g->current_scope = graph_intern_scope(g, "communication", 0);
    for (int i = 0; i < g->parameter_count; i++) {
        const graph_parameter *p = g->parameters[i];
        value *const wholes[] = {p->whole, p->whole_low}, *const parts[] = {p->value, p->low_copy};
        for (int k = 0; k < 2; k++) {
            value *updated = wholes[k] ? find_updated(g, parts[k]) : NULL;
            if (!updated)
                continue;
            build_all_gather_into(g, updated, wholes[k], &how);
            insertions_note(g, &made, updated->producer);
        }
    }
    insertions_apply(g, &made);
    return graph_status(g);
}
