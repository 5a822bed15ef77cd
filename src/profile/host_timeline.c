/* host_timeline.c - arrays that are sorted once, and binary searches in them.
 *
 * Spans of a thread mostly nest, but need not: ranges that are started and ended by hand can overlap. So a span has a list
 * of all that are open when it begins. Lists share their ends: a new one is the last one's with one link more, as
 * long as not too many of that one have ended. */
#define _GNU_SOURCE
#include "profile/host_timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "profile/kernel_groups.h"

/* Beyond it a time is no time, and sums could overflow. */
#define MOST_NS ((int64_t)1 << 61)
enum { MOST_EVENTS = 1 << 30, MOST_THREADS = 1 << 16, MOST_NAME_BYTES = 256 << 20 };

host_timeline *host_timeline_create(void) {
    host_timeline *t = memory_allocate(1, sizeof *t);
    t->strings = arena_create();
    return t;
}

void host_timeline_destroy(host_timeline *t) {
    if (!t)
        return;
    free(t->spans);
    free(t->links);
    free(t->calls);
    free(t->threads);
    free(t->steps);
    free(t->by_sequence);
    free(t->by_id);
    name_table_release(&t->thread_names);
    name_table_release(&t->name_numbers);
    free(t->names);
    free(t->shown);
    free(t->meanings);
    arena_destroy(t->strings);
    free(t);
}

/* ---- adding ---- */

/* Room for one more: the size is the file's, so a system that refuses is an error and no abort. */
static dyno_status make_room(void **array, int64_t count, int64_t *capacity, size_t size) {
    if (count < *capacity)
        return DYNO_OK;
    int64_t larger = *capacity ? *capacity + *capacity / 2 : 1024;
    void *moved = larger <= MOST_EVENTS ? memory_try_resize(*array, (size_t)larger * size) : NULL;
    if (!moved)
        return dyno_fail(DYNO_OUT_OF_MEMORY,
                         "the trace has more than %" PRId64
                         " events of the host, which is more than "
                         "there is memory for; record fewer steps",
                         count);
    *array = moved;
    *capacity = larger;
    return DYNO_OK;
}

#define MAKE_ROOM(array, count, capacity)                                                          \
    RETURN_IF_FAILED(make_room((void **)&(array), count, &(capacity), sizeof *(array)))

static const char *shorten(arena *strings, const char *name, int length) {
    return name[length] ? arena_format(strings, "%.*s", length, name) : name;
}

/* What a table calls its own rows must not be the name of a range. */
static bool is_reserved(const char *name) {
    return strcmp(name, ROW_UNATTRIBUTED) == 0 || strcmp(name, ROW_ALL_PHASES) == 0;
}

dyno_status host_timeline_name(host_timeline *t, const char *name, int *out) {
    *out = name_table_find(&t->name_numbers, name);
    if (*out >= 0)
        return DYNO_OK;
    t->name_bytes += (int64_t)strlen(name) + 64;
    if (t->name_bytes > MOST_NAME_BYTES)
        return dyno_fail(DYNO_OUT_OF_MEMORY,
                         "the trace has more than %d different names, %d MiB of them; names that "
                         "hold numbers, as those of requests do, are better left out of it",
                         t->name_count, MOST_NAME_BYTES >> 20);
    if (t->name_count == t->name_capacity) {
        t->name_capacity = t->name_capacity ? 2 * t->name_capacity : 64;
        t->names = memory_resize(t->names, (size_t)t->name_capacity, sizeof *t->names);
        t->shown = memory_resize(t->shown, (size_t)t->name_capacity, sizeof *t->shown);
        t->meanings = memory_resize(t->meanings, (size_t)t->name_capacity, sizeof *t->meanings);
    }
    *out = t->name_count++;
    const char *kept = arena_copy_string(t->strings, name);
    t->meanings[*out] = range_judge(name);
    if (is_reserved(name)) {
        t->names[*out] = t->shown[*out] = arena_format(t->strings, "%s, as a range", name);
    } else {
        t->names[*out] = kept;
        t->shown[*out] = shorten(t->strings, kept, t->meanings[*out].shown_length);
    }
    name_table_set(&t->name_numbers, kept, *out);
    return DYNO_OK;
}

dyno_status host_timeline_thread(host_timeline *t, int64_t process, int64_t id, int *out) {
    char name[64];
    snprintf(name, sizeof name, "%" PRId64 " %" PRId64, process, id);
    *out = name_table_find(&t->thread_names, name);
    if (*out >= 0)
        return DYNO_OK;
    if (t->thread_count == MOST_THREADS)
        return dyno_fail(DYNO_UNSUPPORTED, "the trace has more than %d threads", MOST_THREADS);
    MEMORY_GROW(t->threads, t->thread_count, t->thread_capacity);
    *out = t->thread_count++;
    t->threads[*out] = (host_thread){.process = process, .id = id};
    name_table_set(&t->thread_names, arena_copy_string(t->strings, name), *out);
    return DYNO_OK;
}

static dyno_status check_times(const char *what, int64_t begin_ns, int64_t end_ns) {
    if (begin_ns >= 0 && begin_ns <= end_ns && end_ns <= MOST_NS)
        return DYNO_OK;
    return dyno_fail(DYNO_CORRUPT, "'%s' is from %" PRId64 " to %" PRId64 " ns",
                     text_quote(what).text, begin_ns, end_ns);
}

dyno_status host_timeline_add_span(host_timeline *t, host_span span) {
    const range_meaning *meaning = &t->meanings[span.name];
    RETURN_IF_FAILED(check_times(t->names[span.name], span.begin_ns, span.end_ns));
    if (span.kind == RANGE_OF_PROGRAM)
        span.kind = meaning->kind;
    span.around = HOST_NONE;
    if (span.kind == RANGE_OP && span.sequence == HOST_NONE)
        span.sequence = meaning->number;
    if (span.kind == RANGE_OP && range_is_backward_op(t->names[span.name]))
        span.is_backward = true;
    t->has_program_ranges = t->has_program_ranges || span.kind == RANGE_OF_PROGRAM;
    t->threads[span.thread].range_count +=
        span.kind == RANGE_OF_PROGRAM || (span.kind == RANGE_STEP && !meaning->is_profilers);
    if (span.kind == RANGE_STEP) {
        MAKE_ROOM(t->steps, t->step_count, t->step_capacity);
        t->steps[t->step_count++] = (host_step){.number = meaning->number,
                                                .process = t->threads[span.thread].process,
                                                .begin_ns = span.begin_ns,
                                                .end_ns = span.end_ns,
                                                .thread = span.thread};
    }
    MAKE_ROOM(t->spans, t->span_count, t->span_capacity);
    t->spans[t->span_count++] = span;
    return DYNO_OK;
}

dyno_status host_timeline_add_call(host_timeline *t, host_call call) {
    RETURN_IF_FAILED(check_times("a call that launches work", call.begin_ns, call.end_ns));
    MAKE_ROOM(t->calls, t->call_count, t->call_capacity);
    t->calls[t->call_count++] = call;
    t->threads[call.thread].call_count++;
    return DYNO_OK;
}

/* ---- sorting ---- */

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* Until it is sorted, `around` is a span's place in the file, which breaks ties. */
static int by_thread_and_time(const void *a, const void *b) {
    const host_span *x = a, *y = b;
    int order = compare(x->thread, y->thread);
    order = order ? order : compare(x->begin_ns, y->begin_ns);
    order = order ? order : compare(y->end_ns, x->end_ns);
    return order ? order : compare(x->around, y->around);
}

static int by_correlation(const void *a, const void *b) {
    const host_call *x = a, *y = b;
    int order = compare(x->process, y->process);
    order = order ? order : compare(x->correlation, y->correlation);
    return order ? order : compare(x->begin_ns, y->begin_ns);
}

static int by_thread_and_begin(const void *a, const void *b) {
    const host_step *x = a, *y = b;
    int order = compare(x->thread, y->thread);
    order = order ? order : compare(x->begin_ns, y->begin_ns);
    return order ? order : compare(y->end_ns, x->end_ns);
}

static int by_process_and_number(const void *a, const void *b) {
    const host_step *x = a, *y = b;
    int order = compare(x->process, y->process);
    order = order ? order : compare(x->number, y->number);
    return order ? order : compare(x->begin_ns, y->begin_ns);
}

static int by_number(const void *a, const void *b) {
    const host_step *x = a, *y = b;
    int order = compare(x->number, y->number);
    order = order ? order : compare(x->repetition, y->repetition);
    return order ? order : compare(x->begin_ns, y->begin_ns);
}

static int by_begin(const void *a, const void *b) {
    const host_step *x = a, *y = b;
    int order = compare(x->begin_ns, y->begin_ns);
    return order ? order : compare(x->index, y->index);
}

/* The spans of a thread that are open, the last to have begun on top, and fewer that have ended. */
enum { MOST_LISTED = 2 * HOST_MOST_NESTING };
typedef struct open_spans {
    int span[MOST_LISTED];
    int link[MOST_LISTED];          /* the list of it and all below it */
    int64_t first_end[MOST_LISTED]; /* of it and all below it */
    int depth;
} open_spans;

static dyno_status push_open(host_timeline *t, open_spans *open, int span) {
    int below = open->depth - 1;
    int64_t end_ns = t->spans[span].end_ns;
    MAKE_ROOM(t->links, t->link_count, t->link_capacity);
    t->links[t->link_count] =
        (host_link){.span = span, .next = below >= 0 ? open->link[below] : HOST_NONE};
    open->span[open->depth] = span;
    open->link[open->depth] = (int)t->link_count++;
    open->first_end[open->depth++] =
        below >= 0 && open->first_end[below] < end_ns ? open->first_end[below] : end_ns;
    return DYNO_OK;
}

/* Ranges that are started and ended by hand may end below others that are open. They are taken out when they are as
 * many as the others, so that lists stay short and so does making them. *ended: how many are left of them. */
static dyno_status drop_ended(host_timeline *t, open_spans *open, int64_t at_ns, int *ended) {
    *ended = 0;
    while (open->depth && t->spans[open->span[open->depth - 1]].end_ns <= at_ns)
        open->depth--;
    if (!open->depth || open->first_end[open->depth - 1] > at_ns)
        return DYNO_OK;
    int depth = open->depth;
    for (int i = 0; i < depth; i++)
        *ended += t->spans[open->span[i]].end_ns <= at_ns;
    if (2 * *ended < depth)
        return DYNO_OK;
    *ended = 0;
    open->depth = 0;
    for (int i = 0; i < depth; i++)
        if (t->spans[open->span[i]].end_ns > at_ns)
            RETURN_IF_FAILED(push_open(t, open, open->span[i]));
    return DYNO_OK;
}

static dyno_status nest_span(host_timeline *t, open_spans *open, int i) {
    host_span *span = &t->spans[i];
    host_thread *thread = &t->threads[span->thread];
    int ended;
    if (i == 0 || t->spans[i - 1].thread != span->thread) {
        open->depth = 0;
        thread->first_span = i;
    }
    thread->span_count++;
    RETURN_IF_FAILED(drop_ended(t, open, span->begin_ns, &ended));
    span->around = open->depth ? open->link[open->depth - 1] : HOST_NONE;
    if (open->depth - ended >= HOST_MOST_NESTING)
        return dyno_fail(DYNO_CORRUPT,
                         "more than %d ranges and operations of a thread are open at once, the "
                         "last is '%s'; are they all ended?",
                         HOST_MOST_NESTING, text_quote(t->names[span->name]).text);
    return push_open(t, open, i);
}

static dyno_status nest(host_timeline *t) {
    open_spans *open = memory_allocate(1, sizeof *open);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < (int)t->span_count && status == DYNO_OK; i++)
        status = nest_span(t, open, i);
    free(open);
    return status;
}

/* Steps inside another step of their thread are left out. */
static void keep_outermost_steps(host_timeline *t) {
    int64_t kept = 0;
    qsort(t->steps, (size_t)t->step_count, sizeof *t->steps, by_thread_and_begin);
    for (int64_t i = 0; i < t->step_count; i++) {
        const host_step *last = kept ? &t->steps[kept - 1] : NULL;
        if (!last || last->thread != t->steps[i].thread || t->steps[i].end_ns > last->end_ns)
            t->steps[kept++] = t->steps[i];
    }
    t->step_count = kept;
}

/* A program that begins again with the same numbers, in another epoch for instance, makes other steps. */
static void count_repetitions(host_timeline *t) {
    int64_t end_ns = 0; /* of all with this number so far */
    qsort(t->steps, (size_t)t->step_count, sizeof *t->steps, by_process_and_number);
    for (int64_t i = 0; i < t->step_count; i++) {
        host_step *step = &t->steps[i], *last = i ? step - 1 : NULL;
        bool is_known = last && last->process == step->process && last->number == step->number;
        step->repetition = is_known ? last->repetition + (step->begin_ns >= end_ns) : 0;
        end_ns = is_known && end_ns > step->end_ns ? end_ns : step->end_ns;
    }
}

static void number_steps(host_timeline *t) {
    keep_outermost_steps(t);
    count_repetitions(t);
    qsort(t->steps, (size_t)t->step_count, sizeof *t->steps, by_number);
    for (int64_t i = 0; i < t->step_count; i++) {
        t->step_numbers += i == 0 || t->steps[i].number != t->steps[i - 1].number ||
                           t->steps[i].repetition != t->steps[i - 1].repetition;
        t->steps[i].index = t->step_numbers - 1;
    }
    qsort(t->steps, (size_t)t->step_count, sizeof *t->steps, by_begin);
    int *place = memory_allocate((size_t)t->step_numbers, sizeof *place), next = 0;
    for (int64_t i = 0; i < t->step_count; i++) {
        int *at = &place[t->steps[i].index]; /* 0: not seen yet */
        *at = *at ? *at : ++next;
        t->steps[i].index = *at - 1;
    }
    free(place);
}

static int by_sequence(const void *a, const void *b, void *timeline) {
    const host_span *spans = ((host_timeline *)timeline)->spans;
    const host_span *x = &spans[*(const int *)a], *y = &spans[*(const int *)b];
    int order = compare(x->sequence, y->sequence);
    return order ? order : compare(x->begin_ns, y->begin_ns);
}

static int by_id(const void *a, const void *b, void *timeline) {
    const host_span *spans = ((host_timeline *)timeline)->spans;
    return compare(spans[*(const int *)a].id, spans[*(const int *)b].id);
}

static bool has_forward_sequence(const host_span *s) {
    return s->kind == RANGE_OP && s->sequence >= 0 && !s->is_backward;
}

static bool has_id(const host_span *s) { return s->id != 0; }

static dyno_status make_index(host_timeline *t, bool (*is_wanted)(const host_span *),
                              int (*order)(const void *, const void *, void *), int **index,
                              int64_t *count) {
    int64_t wanted = 0;
    for (int64_t i = 0; i < t->span_count; i++)
        wanted += is_wanted(&t->spans[i]);
    *index = memory_try_allocate((size_t)(wanted + 1) * sizeof **index);
    if (!*index)
        return dyno_fail(DYNO_OUT_OF_MEMORY,
                         "no memory for an index of %" PRId64 " operations; record fewer steps",
                         wanted);
    for (int64_t i = 0; i < t->span_count; i++)
        if (is_wanted(&t->spans[i]))
            (*index)[(*count)++] = (int)i;
    qsort_r(*index, (size_t)*count, sizeof **index, order, t);
    return DYNO_OK;
}

dyno_status host_timeline_seal(host_timeline *t) {
    for (int64_t i = 0; i < t->span_count; i++)
        t->spans[i].around = (int)i;
    if (t->span_count)
        qsort(t->spans, (size_t)t->span_count, sizeof *t->spans, by_thread_and_time);
    if (t->call_count)
        qsort(t->calls, (size_t)t->call_count, sizeof *t->calls, by_correlation);
    if (t->step_count)
        number_steps(t);
    RETURN_IF_FAILED(nest(t));
    RETURN_IF_FAILED(
        make_index(t, has_forward_sequence, by_sequence, &t->by_sequence, &t->by_sequence_count));
    return make_index(t, has_id, by_id, &t->by_id, &t->by_id_count);
}

/* ---- finding ---- */

int host_timeline_innermost(const host_timeline *t, int thread, int64_t at_ns) {
    const host_thread *of = &t->threads[thread];
    int low = of->first_span, high = of->first_span + of->span_count;
    while (low < high) { /* the first that begins later */
        int middle = low + (high - low) / 2;
        if (t->spans[middle].begin_ns <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    int span = low > of->first_span ? low - 1 : HOST_NONE;
    bool is_open = span == HOST_NONE || t->spans[span].end_ns > at_ns;
    return is_open ? span : host_timeline_around(t, span, at_ns);
}

int host_timeline_around(const host_timeline *t, int span, int64_t at_ns) {
    int link = t->spans[span].around;
    while (link != HOST_NONE && t->spans[t->links[link].span].end_ns <= at_ns)
        link = t->links[link].next;
    return link == HOST_NONE ? HOST_NONE : t->links[link].span;
}

const host_call *host_timeline_find_call(const host_timeline *t, int64_t process,
                                         int64_t correlation) {
    int64_t low = 0, high = t->call_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const host_call *call = &t->calls[middle];
        int order = compare(call->process, process);
        if ((order ? order : compare(call->correlation, correlation)) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const host_call *found = low < t->call_count ? &t->calls[low] : NULL;
    return found && found->process == process && found->correlation == correlation ? found : NULL;
}

int host_timeline_find_id(const host_timeline *t, int64_t id) {
    int64_t low = 0, high = t->by_id_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (t->spans[t->by_id[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->by_id_count && t->spans[t->by_id[low]].id == id ? t->by_id[low] : HOST_NONE;
}

int host_timeline_find_forward(const host_timeline *t, int64_t sequence) {
    int64_t low = 0, high = t->by_sequence_count;
    while (low < high) { /* behind the last */
        int64_t middle = low + (high - low) / 2;
        if (t->spans[t->by_sequence[middle]].sequence <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    int found = low > 0 ? t->by_sequence[low - 1] : HOST_NONE;
    if (found == HOST_NONE || t->spans[found].sequence != sequence)
        return HOST_NONE;
    /* A number is shared by an op and those that it calls, which are few. */
    enum { MOST_ALIKE = 64 };
    for (int64_t i = low - 1; i >= 0 && i >= low - MOST_ALIKE; i--)
        if (t->spans[t->by_sequence[i]].sequence == sequence &&
            t->spans[t->by_sequence[i]].thread != t->spans[found].thread)
            return HOST_NONE;
    return found;
}

/* Of the steps that are sorted by begin, the first that begins later. */
static int64_t find_later_step(const host_timeline *t, int64_t at_ns) {
    int64_t low = 0, high = t->step_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (t->steps[middle].begin_ns <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int host_timeline_step_of(const host_timeline *t, int thread, int64_t begin_ns) {
    for (int64_t i = find_later_step(t, begin_ns) - 1; i >= 0 && t->steps[i].begin_ns == begin_ns;
         i--)
        if (t->steps[i].thread == thread)
            return t->steps[i].index;
    return HOST_NONE;
}

int host_timeline_find_step(const host_timeline *t, int64_t process, int64_t at_ns,
                            bool *is_inside) {
    enum { MOST_LOOKED_AT = 1024 }; /* steps of many processes at once */
    int64_t low = find_later_step(t, at_ns);
    int last = HOST_NONE;
    *is_inside = false;
    for (int64_t i = low - 1; i >= 0 && i >= low - MOST_LOOKED_AT; i--) {
        if (process != HOST_NONE && t->steps[i].process != process)
            continue;
        last = last == HOST_NONE ? t->steps[i].index : last;
        *is_inside = t->steps[i].end_ns > at_ns;
        if (*is_inside)
            return t->steps[i].index;
    }
    return last == HOST_NONE ? 0 : last;
}
