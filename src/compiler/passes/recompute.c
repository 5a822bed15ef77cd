/* recompute.c - lets the backward of each segment of blocks read recomputed forward values.
 *
 *   forward    | seg 0 | seg 1 | seg 2 |
 *   backward                           | seg 2 | again 1 | seg 1 | again 0 | seg 0 |
 *
 * Segments are processed from the last to the first, in the order of the backward. The last one is
 * not recomputed: its backward follows immediately, while all it needs is still alive. For every
 * other one, a walk back from what its backward reads finds the nodes to recompute; they are added
 * in their old order right before the segment's first backward node.
 *
 * What they read from outside the segment stays saved: leaves, constants shared by all blocks and
 * the block's input. Only the nested mode has block inputs that are copies themselves.
 *
 * Values of the forward are called originals here, recomputed ones copies. */
#include "compiler/passes/recompute.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/reemit.h"

/* The forward or the backward nodes of the segments: those of segment s, by position, are
 * nodes[start[s]] up to nodes[start[s + 1]]. */
typedef struct segment_nodes {
    int *nodes, *start;
} segment_nodes;

typedef struct recomputation {
    graph *g;
    int node_count; /* before anything was added */
    int segment_count;
    int *segment; /* by node: of forward and backward ones; -1 outside of blocks */
    segment_nodes forward, backward;
    int *range;      /* room for the nodes of a range of segments */
    bool *is_kept;   /* by value: the original is read in the backward, so it is saved anyway */
    bool *is_wanted; /* by value: to be recomputed in the current range */
    value **copy;    /* by value: the copy made for the current range */
    value **carried; /* by value: a copy that enters the current range; NULL: the original does */
    int *copies_before; /* by segment: of all copies made, those its backward has to come after */
} recomputation;

/* The segment whose forward makes the value; -1 when none does. */
static int home(const recomputation *r, const value *v) {
    return v->producer && v->producer->phase == PHASE_FORWARD ? r->segment[v->producer->id] : -1;
}

static bool is_in_range(const recomputation *r, const value *v, int begin, int end) {
    int segment = home(r, v);
    return segment >= begin && segment < end;
}

/* What replaces `v` in the backward of [begin, end). */
static value *stand_in(recomputation *r, value *v, int begin, int end) {
    if (home(r, v) < 0)
        return v;
    value *other = is_in_range(r, v, begin, end) ? r->copy[v->id] : r->carried[v->id];
    if (other)
        return other;
    r->is_kept[v->id] = true;
    return v;
}

/* Marks what these nodes of segments [readers, readers_end) read of values made in [begin, end). */
static void want_inputs(recomputation *r, const segment_nodes *of, int readers, int readers_end,
                        int begin, int end) {
    for (int i = of->start[readers]; i < of->start[readers_end]; i++) {
        const node *n = r->g->nodes[of->nodes[i]];
        for (int j = 0; j < n->input_count; j++)
            if (is_in_range(r, n->inputs[j], begin, end) && !r->is_kept[n->inputs[j]->id])
                r->is_wanted[n->inputs[j]->id] = true;
    }
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* The forward nodes of [begin, end) in the graph's order, in r->range; how many there are. */
static int collect_forward(recomputation *r, int begin, int end) {
    int first = r->forward.start[begin], count = r->forward.start[end] - first;
    memcpy(r->range, r->forward.nodes + first, (size_t)count * sizeof *r->range);
    bool is_sorted = true;
    for (int i = 1; i < count && is_sorted; i++)
        is_sorted = r->range[i - 1] < r->range[i];
    if (!is_sorted)
        qsort(r->range, (size_t)count, sizeof *r->range, by_number);
    return count;
}

static bool makes_wanted(const recomputation *r, const node *n) {
    for (int i = 0; i < n->output_count; i++)
        if (r->is_wanted[n->outputs[i]->id])
            return true;
    return false;
}

/* Recomputes the wanted values of those made in [begin, end), and what they depend on. */
static void run_again(recomputation *r, int begin, int end) {
    graph *g = r->g;
    int count = collect_forward(r, begin, end);
    for (int i = count - 1; i >= 0; i--) {
        const node *n = g->nodes[r->range[i]];
        if (!makes_wanted(r, n))
            continue;
        for (int j = 0; j < n->input_count; j++) {
            const value *v = n->inputs[j];
            if (is_in_range(r, v, begin, end) && !r->is_kept[v->id])
                r->is_wanted[v->id] = true;
        }
    }
    for (int i = 0; i < count; i++) {
        const node *n = g->nodes[r->range[i]];
        if (!makes_wanted(r, n))
            continue;
        value **inputs = memory_allocate((size_t)n->input_count, sizeof *inputs);
        for (int j = 0; j < n->input_count; j++)
            inputs[j] = stand_in(r, n->inputs[j], begin, end);
        const node *again = reemit_node(g, n, inputs);
        for (int j = 0; j < n->output_count; j++)
            r->copy[n->outputs[j]->id] = again->outputs[j];
        free(inputs);
    }
}

/* Forgets the copies of what [begin, end) makes. `carries`: they enter ranges that follow. */
static void end_range(recomputation *r, int begin, int end, bool carries) {
    for (int i = r->forward.start[begin]; i < r->forward.start[end]; i++) {
        const node *n = r->g->nodes[r->forward.nodes[i]];
        for (int j = 0; j < n->output_count; j++) {
            int id = n->outputs[j]->id;
            if (carries && r->copy[id])
                r->carried[id] = r->copy[id];
            r->copy[id] = NULL;
            r->is_wanted[id] = false;
        }
    }
}

static void redirect_backward(recomputation *r, int begin, int end) {
    for (int i = r->backward.start[begin]; i < r->backward.start[end]; i++) {
        node *n = r->g->nodes[r->backward.nodes[i]];
        for (int j = 0; j < n->input_count; j++)
            n->inputs[j] = stand_in(r, n->inputs[j], begin, end);
    }
}

static void back_through_segment(recomputation *r, int s, bool is_just_made) {
    if (!is_just_made) {
        want_inputs(r, &r->backward, s, s + 1, s, s + 1);
        run_again(r, s, s + 1);
    }
    redirect_backward(r, s, s + 1);
    end_range(r, s, s + 1, false);
    r->copies_before[s] = r->g->node_count;
}

/* The backward of [begin, end), whose input is alive. `is_just_made`: the forward has just run
 * through it, so that its originals serve wherever this needs a middle. */
static void back_by_halves(recomputation *r, int begin, int end, bool is_just_made) {
    if (end - begin == 1) {
        back_through_segment(r, begin, is_just_made);
        return;
    }
    int middle = begin + (end - begin) / 2;
    if (!is_just_made) {
        want_inputs(r, &r->forward, middle, end, begin, middle);
        want_inputs(r, &r->backward, middle, end, begin, middle);
        run_again(r, begin, middle);
        end_range(r, begin, middle, true); /* carried even without readers past the middle */
    }
    back_by_halves(r, middle, end, is_just_made);
    back_by_halves(r, begin, middle, false);
}

static segment_nodes list_nodes(const recomputation *r, phase of) {
    segment_nodes list = {.nodes = memory_allocate((size_t)r->node_count, sizeof *list.nodes),
                          .start =
                              memory_allocate((size_t)r->segment_count + 2, sizeof *list.start)};
    int *next = list.start + 1; /* filling segment s moves the start of the one behind it */
    for (int i = 0; i < r->node_count; i++)
        if (r->segment[i] >= 0 && r->g->nodes[i]->phase == of)
            next[r->segment[i] + 1]++;
    for (int s = 0; s < r->segment_count; s++)
        next[s + 1] += next[s];
    for (int i = 0; i < r->node_count; i++)
        if (r->segment[i] >= 0 && r->g->nodes[i]->phase == of)
            list.nodes[next[r->segment[i]]++] = i;
    return list;
}

/* Segments by scope; what is read outside of blocks or by the caller is there anyway. */
static recomputation begin_recomputation(graph *g, int every) {
    recomputation r = {.g = g, .node_count = g->node_count};
    size_t nodes = (size_t)g->node_count, values = (size_t)g->value_count;
    r.segment = memory_allocate(nodes, sizeof *r.segment);
    r.is_kept = memory_allocate(values, sizeof *r.is_kept);
    r.is_wanted = memory_allocate(values, sizeof *r.is_wanted);
    r.copy = memory_allocate(values, sizeof *r.copy);
    r.carried = memory_allocate(values, sizeof *r.carried);
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        int block = n->phase <= PHASE_BACKWARD ? g->scopes[n->scope].block : -1;
        r.segment[i] = block < 0 ? -1 : block / every;
        if (r.segment[i] >= r.segment_count)
            r.segment_count = r.segment[i] + 1;
        for (int j = 0; j < n->output_count; j++)
            r.is_kept[n->outputs[j]->id] = n->outputs[j]->is_output;
        for (int j = 0; r.segment[i] < 0 && n->phase != PHASE_FORWARD && j < n->input_count; j++)
            r.is_kept[n->inputs[j]->id] = true;
    }
    r.forward = list_nodes(&r, PHASE_FORWARD);
    r.backward = list_nodes(&r, PHASE_BACKWARD);
    r.range = memory_allocate(nodes, sizeof *r.range);
    r.copies_before = memory_allocate((size_t)r.segment_count, sizeof *r.copies_before);
    return r;
}

/* The old nodes, in their order, and the copies, in theirs, each as late as possible. */
static void order_nodes(recomputation *r) {
    graph *g = r->g;
    node **order = memory_allocate((size_t)g->node_count, sizeof *order);
    int count = 0, copied = r->node_count;
    for (int i = 0; i < r->node_count; i++) {
        bool is_backward = g->nodes[i]->phase == PHASE_BACKWARD && r->segment[i] >= 0;
        while (is_backward && copied < r->copies_before[r->segment[i]])
            order[count++] = g->nodes[copied++];
        order[count++] = g->nodes[i];
    }
    graph_set_order(g, order, count);
    free(order);
}

dyno_status recompute_check(const recompute_options *options, int64_t blocks) {
    if (options->mode == RECOMPUTE_MLP && (options->every < 1 || options->every > blocks))
        return dyno_fail(DYNO_INVALID,
                         "recompute mlp:%d: the MLP of every %d-th block, but the model has %lld "
                         "blocks; give mlp:1 (all but the last) to mlp:%lld (the first)",
                         options->every, options->every, (long long)blocks, (long long)blocks);
    /* The last segment is never recomputed: with one segment nothing is. */
    int64_t most = blocks > 1 ? blocks - 1 : 1;
    if (options->mode == RECOMPUTE_EVERY && options->every > most)
        return dyno_fail(
            DYNO_INVALID,
            "recompute every:%d: segments of %d blocks, but the model has %lld, and the "
            "last segment is never recomputed; give every:K with K up to %lld",
            options->every, options->every, (long long)blocks, (long long)most);
    return DYNO_OK;
}

dyno_status recompute_apply(graph *g, const recompute_options *options) {
    if (options->mode == RECOMPUTE_NONE || options->mode == RECOMPUTE_MLP)
        return DYNO_OK;
    int every = options->mode == RECOMPUTE_EVERY ? options->every : 1;
    if (every < 1)
        return dyno_fail(DYNO_INVALID, "recompute: a segment of %d blocks; it must be at least 1",
                         every);
    recomputation r = begin_recomputation(g, every);
    if (options->mode == RECOMPUTE_NESTED && r.segment_count > 0)
        back_by_halves(&r, 0, r.segment_count, true);
    else
        for (int s = r.segment_count - 1; s >= 0; s--)
            back_through_segment(&r, s, s == r.segment_count - 1);
    order_nodes(&r);
    free(r.segment);
    free(r.forward.nodes);
    free(r.forward.start);
    free(r.backward.nodes);
    free(r.backward.start);
    free(r.range);
    free(r.is_kept);
    free(r.is_wanted);
    free(r.copy);
    free(r.carried);
    free(r.copies_before);
    RETURN_IF_FAILED(graph_status(g));
    return mark_saved_activations(g);
}

dyno_status recompute_parse(const char *text, recompute_options *out) {
    static const struct {
        const char *name;
        recompute_mode mode;
    } names[] = {{"none", RECOMPUTE_NONE}, {"full", RECOMPUTE_FULL}, {"nested", RECOMPUTE_NESTED}};
    *out = (recompute_options){RECOMPUTE_NONE, 0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0) {
            out->mode = names[i].mode;
            return DYNO_OK;
        }
    static const char mlp[] = "mlp:", segments[] = "every:";
    bool is_mlp = strncmp(text, mlp, sizeof mlp - 1) == 0;
    if (!is_mlp && strncmp(text, segments, sizeof segments - 1) != 0)
        return dyno_fail(DYNO_INVALID,
                         "there is no recompute level '%s'; there are none, mlp:K (the MLP of "
                         "every K-th block), every:K (K blocks a segment), full and nested",
                         text);
    const char *digits = text + (is_mlp ? sizeof mlp : sizeof segments) - 1;
    char *end;
    errno = 0;
    long every = strtol(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end || errno || every < 1 || every > 1000000)
        return dyno_fail(DYNO_INVALID,
                         "recompute '%s': %s '%s'; give a whole number from 1 to 1000000, as in "
                         "%s2",
                         text,
                         is_mlp ? "the K of every K-th block is" : "the blocks of a segment are",
                         digits, is_mlp ? mlp : segments);
    *out = (recompute_options){is_mlp ? RECOMPUTE_MLP : RECOMPUTE_EVERY, (int)every};
    return DYNO_OK;
}

recompute_text recompute_format(const recompute_options *options) {
    static const char *const names[] = {"none", "mlp", "every", "full", "nested"};
    recompute_text out;
    if (options->mode == RECOMPUTE_MLP || options->mode == RECOMPUTE_EVERY)
        snprintf(out.text, sizeof out.text, "%s:%d", names[options->mode], options->every);
    else
        snprintf(out.text, sizeof out.text, "%s", names[options->mode]);
    return out;
}
