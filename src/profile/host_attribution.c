/* host_attribution.c - walks up from the innermost span around a call. */
#define _GNU_SOURCE
#include "profile/host_attribution.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* Of the threads of a process that have ranges, at most so many are asked about a launch on one that has none. */
enum { MOST_RANGE_THREADS = 256, MOST_SCOPE_BYTES = 120 };

struct host_attributor {
    const host_timeline *t;
    int *range_threads; /* by process */
    int range_thread_count;
    text scope;
};

static int by_process(const void *a, const void *b, void *timeline) {
    const host_thread *threads = ((const host_timeline *)timeline)->threads;
    int x = *(const int *)a, y = *(const int *)b;
    int64_t p = threads[x].process, q = threads[y].process;
    return p == q ? (x > y) - (x < y) : p < q ? -1 : 1;
}

host_attributor *host_attributor_create(const host_timeline *t) {
    host_attributor *a = memory_allocate(1, sizeof *a);
    a->t = t;
    a->range_threads = memory_allocate((size_t)t->thread_count, sizeof *a->range_threads);
    for (int i = 0; i < t->thread_count; i++)
        if (t->threads[i].range_count)
            a->range_threads[a->range_thread_count++] = i;
    qsort_r(a->range_threads, (size_t)a->range_thread_count, sizeof *a->range_threads, by_process,
            (void *)(uintptr_t)t);
    return a;
}

void host_attributor_destroy(host_attributor *a) {
    if (!a)
        return;
    text_release(&a->scope);
    free(a->range_threads);
    free(a);
}

/* What is found on the way up from a span. */
typedef struct surroundings {
    int op, outermost_op; /* spans; HOST_NONE as all the others */
    int range;            /* the outermost of the program's that is around the backward, too */
    int step, optimizer;
    int64_t backward; /* the sequence number of the innermost op that is of the backward */
    bool is_backward, has_sequence;
} surroundings;

static surroundings look_around(const host_timeline *t, int span, int64_t at_ns) {
    surroundings s = {HOST_NONE, HOST_NONE, HOST_NONE, HOST_NONE,
                      HOST_NONE, HOST_NONE, false,     false};
    for (; span != HOST_NONE; span = host_timeline_around(t, span, at_ns)) {
        const host_span *at = &t->spans[span];
        switch (at->kind) {
        case RANGE_OP:
            s.op = s.op == HOST_NONE ? span : s.op;
            s.outermost_op = span;
            s.has_sequence = s.has_sequence || at->sequence >= 0;
            if (at->is_backward) {
                s.is_backward = true;
                s.backward = s.backward == HOST_NONE ? at->sequence : s.backward;
                s.range = HOST_NONE; /* those below are of hooks that the backward called */
            }
            break;
        case RANGE_OF_PROGRAM:
            s.range = span;
            break;
        case RANGE_STEP:
            s.step = span;
            break;
        case RANGE_OPTIMIZER:
            s.optimizer = span;
            break;
        case RANGE_OF_LIBRARY:
            break;
        }
    }
    return s;
}

/* The outermost range of the program that is open on the thread. */
static int open_range(const host_timeline *t, int thread, int64_t at_ns) {
    int found = HOST_NONE;
    for (int span = host_timeline_innermost(t, thread, at_ns); span != HOST_NONE;
         span = host_timeline_around(t, span, at_ns))
        if (t->spans[span].kind == RANGE_OF_PROGRAM)
            found = span;
    return found;
}

/* Where the threads of the process begin among those that have ranges. */
static int first_of_process(const host_attributor *a, int64_t process) {
    int low = 0, high = a->range_thread_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (a->t->threads[a->range_threads[middle]].process < process)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The range that is open in the process: that of the threads that launch work, or, where these have
 * none, of any. HOST_NONE where they differ, and where there are too many to ask. */
static int open_in_process(const host_attributor *a, int thread, int64_t at_ns) {
    const host_timeline *t = a->t;
    int64_t process = t->threads[thread].process;
    int first = first_of_process(a, process), end = first;
    while (end < a->range_thread_count && end - first <= MOST_RANGE_THREADS &&
           t->threads[a->range_threads[end]].process == process)
        end++;
    for (int must_launch = 1; must_launch >= 0 && end - first <= MOST_RANGE_THREADS;
         must_launch--) {
        int found = HOST_NONE;
        for (int i = first; i < end; i++) {
            int other = a->range_threads[i];
            if (other == thread || (must_launch && !t->threads[other].call_count))
                continue;
            int range = open_range(t, other, at_ns);
            if (range == HOST_NONE)
                continue;
            if (found != HOST_NONE && t->spans[found].name != t->spans[range].name)
                return HOST_NONE;
            found = range;
        }
        if (found != HOST_NONE)
            return found;
    }
    return HOST_NONE;
}

/* ---- scopes ---- */

/* Whether there was room for it. What has none is told as such, and what is inside it is left out. */
static bool append_part(text *scope, const char *name) {
    static const char MODULE[] = "nn.Module: ";
    if (strncmp(name, MODULE, strlen(MODULE)) == 0)
        name += strlen(MODULE);
    bool has_room = scope->length + strlen(name) + 1 <= MOST_SCOPE_BYTES;
    text_format(scope, "%s%s", scope->length ? "." : "", has_room ? name : "(more)");
    return has_room;
}

/* The ranges that are open around `span` at that time and inside the phase's, from the outermost; where
 * there is none, the outermost operation. `phase` may be HOST_NONE. */
static void describe_scope(host_attributor *a, int span, int64_t at_ns, int phase,
                           int outermost_op) {
    const host_timeline *t = a->t;
    int chain[HOST_MOST_NESTING], count = 0;
    a->scope.length = 0;
    text_append(&a->scope, "");
    for (; span != HOST_NONE && span != phase; span = host_timeline_around(t, span, at_ns))
        if (t->spans[span].kind == RANGE_OF_PROGRAM || t->spans[span].kind == RANGE_OF_LIBRARY)
            chain[count++] = span;
    bool has_room = true;
    while (count > 0 && has_room)
        has_room = append_part(&a->scope, t->names[t->spans[chain[--count]].name]);
    if (!a->scope.length && outermost_op != HOST_NONE)
        text_append(&a->scope, t->shown[t->spans[outermost_op].name]);
}

/* ---- the rules ---- */

static host_attribution attribute(host_attributor *a, int thread, int span, int64_t at_ns) {
    const host_timeline *t = a->t;
    surroundings s = look_around(t, span, at_ns);
    host_attribution out = {
        .join = JOINED_BY_THREAD, .op_span = s.op, .is_backward = s.is_backward};
    if (s.op != HOST_NONE)
        out.op = t->shown[t->spans[s.op].name];
    if (s.step != HOST_NONE)
        out.step = host_timeline_step_of(t, thread, t->spans[s.step].begin_ns);
    out.is_in_step = s.step != HOST_NONE && out.step != HOST_NONE;
    if (!out.is_in_step)
        out.step = host_timeline_find_step(t, t->threads[thread].process, at_ns, &out.is_in_step);
    int range = s.range;
    if (range == HOST_NONE && (s.is_backward || !t->threads[thread].range_count)) {
        range = open_in_process(a, thread, at_ns);
        out.join = JOINED_BY_PROCESS;
    }
    if (range != HOST_NONE) {
        out.phase = t->names[t->spans[range].name];
    } else {
        out.join = JOINED_BY_SEQUENCE;
        if (s.optimizer != HOST_NONE)
            out.phase = "optimizer";
        else if (s.is_backward)
            out.phase = "backward";
        else if (s.has_sequence)
            out.phase = "forward";
        else
            out.join = JOINED_TO_NOTHING;
        if (!out.phase && s.step != HOST_NONE && !t->has_program_ranges &&
            !t->meanings[t->spans[s.step].name].is_profilers) {
            out.phase = t->shown[t->spans[s.step].name];
            out.join = JOINED_BY_THREAD;
        }
    }
    int forward = s.backward >= 0 ? host_timeline_find_forward(t, s.backward) : HOST_NONE;
    if (forward != HOST_NONE) {
        int64_t then = t->spans[forward].begin_ns;
        surroundings of_forward = look_around(t, forward, then);
        describe_scope(a, forward, then, of_forward.range, of_forward.outermost_op);
    } else {
        describe_scope(a, span, at_ns, range, s.outermost_op);
    }
    if (out.phase || a->scope.length)
        out.scope = text_string(&a->scope);
    return out;
}

/* The thread that made a call. PyTorch also names the operation that was under way, which decides: CUPTI
 * may number threads in another way. */
static int calling_thread(const host_timeline *t, const host_call *call, int64_t id) {
    int span = call->id || id ? host_timeline_find_id(t, call->id ? call->id : id) : HOST_NONE;
    bool is_around = span != HOST_NONE && t->spans[span].begin_ns <= call->begin_ns &&
                     t->spans[span].end_ns >= call->begin_ns;
    return is_around ? t->spans[span].thread : call->thread;
}

host_attribution host_attribute(host_attributor *a, int64_t process, int64_t correlation,
                                int64_t id) {
    const host_timeline *t = a->t;
    const host_call *call = host_timeline_find_call(t, process, correlation);
    if (call) {
        int thread = calling_thread(t, call, id);
        int span = host_timeline_innermost(t, thread, call->begin_ns);
        host_attribution out = attribute(a, thread, span, call->begin_ns);
        out.host_begin_ns = call->begin_ns;
        out.host_end_ns = call->end_ns;
        return out;
    }
    int span = id ? host_timeline_find_id(t, id) : HOST_NONE;
    if (span != HOST_NONE)
        return host_attribute_span(a, span);
    return (host_attribution){.join = JOINED_NOT, .op_span = HOST_NONE};
}

host_attribution host_attribute_span(host_attributor *a, int span) {
    const host_span *at = &a->t->spans[span];
    return attribute(a, at->thread, span, at->begin_ns);
}
