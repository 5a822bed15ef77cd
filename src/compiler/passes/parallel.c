/* parallel.c - data parallel: every rank has all weights, and gradients are summed over ranks.
 *
 * A bucket is what one collective sums: parameters whose gradients are ready one after the other. Their
 * sums are made one family, so that they are contiguous in memory. The loss joins the bucket that is
 * sent last, where it costs nothing. */
#include "compiler/passes/parallel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choice.h"
#include "base/memory.h"
#include "compiler/passes/insertions.h"
#include "graph/graph_parameter.h"
#include "graph/op.h"
#include "ops/all_reduce/all_reduce.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
#include "ops/reshape/reshape.h"
#include "ops/slice/slice.h"

/* ---- names ---- */

static const char *const NAMES[PARALLEL_MODE_COUNT] = {"ddp-naive",  "ddp-flat", "ddp-overlap",
                                                       "ddp-bucket", "zero1",    "fsdp"};

bool parallel_is_sharded(const parallel_options *options) {
    return options->ranks > 1 &&
           (options->mode == PARALLEL_ZERO1 || options->mode == PARALLEL_FSDP);
}

static dyno_status parse_bucket(const char *name, const char *number, parallel_options *out) {
    enum { MOST_MB = 1000000 };
    char *end;
    errno = 0;
    double megabytes = strtod(number, &end);
    if (end == number || *end || errno || !(megabytes > 0 && megabytes <= MOST_MB))
        return dyno_fail(DYNO_INVALID,
                         "'%s': the size of a bucket is a number of MB above 0 and up to %d, as in "
                         "ddp-bucket:%d",
                         text_quote(name).text, MOST_MB, PARALLEL_BUCKET_MB);
    out->bucket_bytes = (int64_t)(megabytes * 1e6);
    if (out->bucket_bytes < 1)
        out->bucket_bytes = 1;
    return DYNO_OK;
}

dyno_status parallel_parse(const char *name, parallel_options *out) {
    size_t length = strcspn(name, ":");
    out->bucket_bytes = 0;
    for (int i = 0; i < PARALLEL_MODE_COUNT; i++) {
        if (strlen(NAMES[i]) != length || strncmp(name, NAMES[i], length) != 0)
            continue;
        out->mode = (parallel_mode)i;
        bool is_bucket = out->mode == PARALLEL_DDP_BUCKET;
        out->bucket_bytes = is_bucket ? (int64_t)PARALLEL_BUCKET_MB * 1000000 : 0;
        if (!name[length])
            return DYNO_OK;
        if (is_bucket)
            return parse_bucket(name, name + length + 1, out);
    }
    return dyno_fail(DYNO_INVALID, "there is no parallel mode '%s'; there are %s",
                     text_quote(name).text, PARALLEL_CHOICES);
}

parallel_text parallel_format(const parallel_options *options) {
    parallel_text out;
    if (options->mode == PARALLEL_DDP_BUCKET)
        snprintf(out.text, sizeof out.text, "%s:%g", NAMES[options->mode],
                 (double)options->bucket_bytes / 1e6);
    else
        snprintf(out.text, sizeof out.text, "%s", NAMES[options->mode]);
    return out;
}

dyno_status parallel_parse_reduce(const char *name, parallel_options *out) {
    static const char *const names[] = {"fp32", "bf16", "fp16"};
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    int index;
    RETURN_IF_FAILED(
        choice_parse("type of what is reduced", names, 3, REDUCE_CHOICES, name, &index));
    out->reduce_type = types[index];
    return DYNO_OK;
}

bool parallel_reduces_low(const parallel_options *options) {
    return options->reduce_type == DTYPE_BF16 || options->reduce_type == DTYPE_F16;
}

/* ---- buckets ---- */

/* What is summed over micro-batches: the gradient of a parameter, or the loss. */
typedef struct reduced {
    value *sum;
    graph_parameter *parameter; /* NULL: the loss */
    int ready;                  /* position of what makes it */
} reduced;

static int by_readiness(const void *a, const void *b) {
    const reduced *x = a, *y = b;
    return x->ready != y->ready ? (x->ready < y->ready ? -1 : 1) : x->sum->id - y->sum->id;
}

static int by_leaf(const void *a, const void *b) {
    const reduced *x = a, *y = b;
    int first = x->sum->producer->inputs[0]->id, second = y->sum->producer->inputs[0]->id;
    return first < second ? -1 : 1;
}

static int64_t bytes_of(const value *v) { return shape_elements(&v->shape) * dtype_bytes(v->type); }

/* How many of the `count` that are left go into the next bucket. */
static int bucket_length(const parallel_options *options, const reduced *left, int count) {
    int64_t bytes = 0;
    int length = 0;
    switch (options->mode) {
    case PARALLEL_DDP_FLAT:
        return count;
    case PARALLEL_DDP_BUCKET:
        while (length < count && bytes < options->bucket_bytes)
            bytes += bytes_of(left[length++].sum);
        return length;
    default:
        return 1;
    }
}

static bool is_overlapped(const parallel_options *options) {
    return options->mode == PARALLEL_DDP_OVERLAP || options->mode == PARALLEL_DDP_BUCKET;
}

/* The collective takes the place of its operands in records and among the outputs. */
static void take_over(graph *g, const reduced *from, value *to) {
    value *sum = from->sum;
    const char *name = sum->name;
    bool is_output = sum->is_output;
    sum->name = NULL;
    sum->is_output = false;
    sum->parameter = NULL;
    if (from->parameter)
        graph_set_gradient(g, from->parameter, to);
    else
        to->name = name;
    to->is_output = is_output;
}

/* In a low type: the members as one list of that type, which is summed behind `behind`, and read back in
 * f32 at the end. */
static void add_low_bucket(graph *g, const parallel_options *options, const reduced *members,
                           int count, const node *behind, insertions *made) {
    value **pieces = memory_allocate((size_t)count, sizeof *pieces);
    int64_t offset = 0;
    g->current_phase = behind->phase;
    for (int i = 0; i < count; i++) {
        shape list = SHAPE(shape_elements(&members[i].sum->shape));
        value *low = build_cast(g, members[i].sum, options->reduce_type);
        pieces[i] = build_reshape(g, low, &list);
    }
    value *whole = count > 1 ? build_concat(g, pieces, count, 0) : pieces[0];
    collective_place place = {
        .ranks = options->ranks, .is_overlapped = is_overlapped(options), .is_once = true};
    g->current_phase = PHASE_COMMUNICATION;
    value *sums = build_all_reduce(g, &whole, 1, &place);
    insertions_note(g, made, behind);
    g->current_phase = PHASE_OPTIMIZER;
    for (int i = 0; i < count && g->status == DYNO_OK; i++) {
        value *low = build_slice(g, sums, offset, &members[i].sum->shape);
        offset += shape_elements(&members[i].sum->shape);
        take_over(g, &members[i], build_cast(g, low, DTYPE_F32));
    }
    insertions_note_last(g, made); /* micro-batches repeat what comes before */
    free(pieces);
}

static void add_bucket(graph *g, const parallel_options *options, reduced *members, int count,
                       int number) {
    qsort(members, (size_t)count, sizeof *members, by_leaf);
    value **sums = memory_allocate((size_t)count, sizeof *sums);
    value **leaves = memory_allocate((size_t)count, sizeof *leaves);
    for (int i = 0; i < count; i++) {
        sums[i] = members[i].sum;
        leaves[i] = sums[i]->producer->inputs[0];
    }
    if (count > 1)
        graph_join_family(g, leaves, count, arena_format(g->memory, "sums.bucket.%d", number));
    collective_place place = {
        .ranks = options->ranks, .is_overlapped = is_overlapped(options), .is_once = true};
    const node *made = build_all_reduce(g, sums, count, &place)->producer;
    for (int i = 0; i < count && g->status == DYNO_OK; i++)
        take_over(g, &members[i], made->outputs[i]);
    free(sums);
    free(leaves);
}

static int collect(const graph *g, reduced *all) {
    int count = 0;
    for (int i = 0; i < g->parameter_count; i++) {
        graph_parameter *p = g->parameters[i];
        if (p->gradient)
            all[count++] = (reduced){p->gradient, p, p->gradient->producer->id};
    }
    qsort(all, (size_t)count, sizeof *all, by_readiness);
    value *loss = graph_find_value(g, "loss");
    all[count++] = (reduced){loss, NULL, loss->producer->id};
    return count;
}

/* Members that are ready one after the other, behind the last of them or behind the backward. */
static void insert_bucket(graph *g, const parallel_options *options, reduced *members, int count,
                          int number, insertions *made) {
    int latest = made->first - 1;
    if (is_overlapped(options))
        latest = 0;
    for (int i = 0; i < count && is_overlapped(options); i++)
        latest = members[i].ready > latest ? members[i].ready : latest;
    const node *behind = g->nodes[latest];
    g->current_scope = graph_intern_scope(g, "communication", 0);
    if (parallel_reduces_low(options) && members[0].parameter) {
        add_low_bucket(g, options, members, count, behind, made);
        return;
    }
    g->current_phase = PHASE_COMMUNICATION;
    add_bucket(g, options, members, count, number);
    insertions_note(g, made, behind);
}

dyno_status parallel_insert(graph *g, const parallel_options *options) {
    insertions made = insertions_begin(g);
    reduced *all = memory_allocate((size_t)g->parameter_count + 1, sizeof *all);
    int count = collect(g, all), number = 0;
    bool joins_loss = !parallel_reduces_low(options); /* the loss is not rounded */
    for (int i = 0; i < count; number++) {
        int left = count - i, length = bucket_length(options, all + i, left);
        if (length == left - 1 && joins_loss)
            length = left;
        if (length == left && left > 1 && !joins_loss)
            length = left - 1;
        insert_bucket(g, options, all + i, length, number, &made);
        i += length;
    }
    free(all);
    insertions_apply(g, &made);
    return graph_status(g);
}
