/* foreign_trace.c - what the readers of both formats have in common. */
#define _GNU_SOURCE
#include "profile/foreign_trace.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/stop.h"

/* ---- FLOPs ---- */

/* Whether a kernel of this class can be what an operation's FLOPs are of. One that adds up the parts of
 * a product split along k is filed with the products and computes none. */
static bool is_product(const char *name, const char *class_name) {
    if (strcasestr(name, "splitk") && strcasestr(name, "reduc"))
        return false;
    return strcmp(class_name, CLASS_MATMUL) == 0 || strcmp(class_name, CLASS_SOFTMAX) == 0;
}

/* The FLOPs of an operation belong to the longest product or softmax that it launches, or to itself in
 * a trace of the host alone. What else it launches for that, to add up parts of it for instance, adds
 * none. */
static void take_flops(foreign_reading *r, int op_span, launch_record *record) {
    host_timeline *t = r->timeline;
    if (record->has_cost || op_span == HOST_NONE || !(t->spans[op_span].flops > 0) ||
        (strcmp(record->class_name, CLASS_MATMUL) != 0 &&
         strcmp(record->class_name, CLASS_SOFTMAX) != 0))
        return;
    host_span *op = &t->spans[op_span];
    bool is_longest = r->trace->is_of_host || (is_product(record->recorded, record->class_name) &&
                                               record->end_ns - record->begin_ns == op->product_ns);
    record->has_cost = true;
    record->flops = is_longest && !op->is_counted ? op->flops : 0;
    record->bytes = is_longest && !op->is_counted ? op->bytes : 0;
    op->is_counted = op->is_counted || is_longest;
}

/* Which operation launched a kernel is known only when all of the host is, and the kernels of one may
 * be anywhere in the file: what may be a product is kept in 32 bytes until then, so that the second
 * reading can hand on every record at once. */
dyno_status foreign_note_kernel(foreign_reading *r, const char *name, foreign_product product) {
    product.class_name = kernel_classes_find(r->visitor->classes, name, NULL);
    bool is_told_by_op = strcmp(product.class_name, CLASS_OTHER) == 0;
    if (!is_told_by_op && !is_product(name, product.class_name))
        return DYNO_OK;
    if (r->product_count == r->product_capacity) {
        int64_t larger = r->product_capacity ? r->product_capacity + r->product_capacity / 2 : 1024;
        foreign_product *moved =
            memory_try_resize(r->products, (size_t)larger * sizeof *r->products);
        if (!moved)
            return dyno_fail(DYNO_OUT_OF_MEMORY,
                             "the trace has more than %lld matrix products, which is more than "
                             "there is memory for; record fewer steps",
                             (long long)r->product_count);
        r->products = moved;
        r->product_capacity = larger;
    }
    r->products[r->product_count++] = product;
    return DYNO_OK;
}

static void find_longest_products(foreign_reading *r) {
    host_timeline *t = r->timeline;
    for (int64_t i = 0; i < r->product_count; i++) {
        const foreign_product *p = &r->products[i];
        host_attribution cause = host_attribute(r->attributor, 0, p->correlation, p->id);
        if (cause.op_span == HOST_NONE || !(t->spans[cause.op_span].flops > 0))
            continue;
        const char *class_name = strcmp(p->class_name, CLASS_OTHER) != 0
                                     ? p->class_name
                                     : kernel_classes_find(r->visitor->classes, NULL, cause.op);
        host_span *op = &t->spans[cause.op_span];
        if (is_product("", class_name) && p->ns > op->product_ns)
            op->product_ns = p->ns;
    }
    free(r->products);
    r->products = NULL;
    r->product_count = r->product_capacity = 0;
}

/* ---- the host's time ---- */

/* When the range becomes the outermost of the program's on its thread: as long as another is open
 * around it, it is a part of that one. HOST_NONE where it never does. */
static int64_t begin_as_phase(const host_timeline *t, const host_span *span) {
    int64_t begin_ns = span->begin_ns;
    for (int at = host_timeline_around(t, (int)(span - t->spans), begin_ns); at != HOST_NONE;
         at = host_timeline_around(t, at, begin_ns))
        if (t->spans[at].kind == RANGE_OF_PROGRAM || t->spans[at].is_backward)
            begin_ns = t->spans[at].end_ns;
    return begin_ns == span->begin_ns || begin_ns < span->end_ns ? begin_ns : HOST_NONE;
}

static dyno_status tell_phase(foreign_reading *r, const host_span *span) {
    host_timeline *t = r->timeline;
    int64_t begin_ns = begin_as_phase(t, span);
    if (span->kind != RANGE_OF_PROGRAM || begin_ns == HOST_NONE)
        return DYNO_OK;
    foreign_range range = {t->names[span->name], t->threads[span->thread].process, begin_ns,
                           span->end_ns};
    return r->visitor->on_range(r->visitor->caller, &range);
}

dyno_status foreign_seal_host(foreign_reading *r) {
    host_timeline *t = r->timeline;
    RETURN_IF_FAILED(host_timeline_seal(t));
    r->attributor = host_attributor_create(t);
    find_longest_products(r);
    r->trace->steps = t->step_numbers;
    for (int64_t i = 0; i < t->step_count; i++) {
        foreign_range step = {NULL, t->steps[i].process, t->steps[i].begin_ns, t->steps[i].end_ns};
        RETURN_IF_FAILED(r->visitor->on_range(r->visitor->caller, &step));
    }
    for (int64_t i = 0; i < t->span_count; i++)
        RETURN_IF_FAILED(tell_phase(r, &t->spans[i]));
    return DYNO_OK;
}

/* ---- records ---- */

/* What the record says itself stands. */
static dyno_status hand_on(foreign_reading *r, const host_attribution *cause,
                           launch_record *record) {
    foreign_trace *trace = r->trace;
    RETURN_IF_FAILED(stop_check("reading a trace"));
    trace->records++;
    trace->joined[cause->join]++;
    trace->outside_steps += trace->steps > 0 && !cause->is_in_step;
    record->launch = LAUNCH_UNKNOWN;
    record->step = cause->step;
    if (!record->phase) {
        record->op = cause->op;
        record->scope = cause->scope;
        record->phase = cause->phase;
    }
    if (!record->class_name)
        record->class_name = kernel_classes_find(r->visitor->classes, record->recorded, record->op);
    record->host_begin_ns = cause->host_begin_ns;
    record->host_end_ns = cause->host_end_ns;
    record->share_ns = (double)(record->end_ns - record->begin_ns);
    take_flops(r, cause->op_span, record);
    return r->visitor->on_record(r->visitor->caller, record);
}

dyno_status foreign_hand_on(foreign_reading *r, int64_t process, int64_t id,
                            launch_record *record) {
    host_attribution cause = host_attribute(r->attributor, process, record->correlation, id);
    if (cause.join == JOINED_NOT) /* for gaps and spans, not for phases */
        cause.step =
            host_timeline_find_step(r->timeline, HOST_NONE, record->begin_ns, &cause.is_in_step);
    if (record->phase)
        cause.join = JOINED_BY_RECORD;
    record->process = process;
    r->trace->in_graphs += record->graph_node != 0;
    return hand_on(r, &cause, record);
}

/* ---- a trace of the host alone ---- */

/* An operation's own time is not in one piece: those that it calls run in between. The own times of all
 * operations inside one outermost are laid end to end, so that they neither overlap nor leave a gap:
 * their sum is the time of the outermost, and only their order inside it is lost. */
typedef struct own_times {
    int first;   /* span of the outermost operation */
    int64_t *ns; /* by span from there on */
    int64_t count, capacity;
} own_times;

static dyno_status hand_on_own_times(foreign_reading *r, const own_times *own) {
    host_timeline *t = r->timeline;
    int64_t at = own->count ? t->spans[own->first].begin_ns : 0;
    for (int64_t i = 0; i < own->count; i++) {
        int span = own->first + (int)i;
        const host_span *op = &t->spans[span];
        if (op->kind != RANGE_OP)
            continue;
        host_attribution cause = host_attribute_span(r->attributor, span);
        launch_record record = {
            .recorded = t->shown[op->name], .stream = op->thread, .begin_ns = at, .end_ns = at};
        /* Less than nothing is left where operations of one thread overlap. */
        record.end_ns += own->ns[i] > 0 ? own->ns[i] : 0;
        at = record.end_ns;
        RETURN_IF_FAILED(hand_on(r, &cause, &record));
    }
    return DYNO_OK;
}

/* The op that called this one: it is inside it, with nothing but ranges between. */
static int calling_op(const host_timeline *t, int op) {
    for (int link = t->spans[op].around; link != HOST_NONE; link = t->links[link].next) {
        int at = t->links[link].span;
        if (t->spans[at].kind == RANGE_OP && t->spans[at].end_ns >= t->spans[op].end_ns)
            return at;
    }
    return HOST_NONE;
}

static void add_own_time(own_times *own, int64_t ns) {
    if (own->count == own->capacity) {
        own->capacity = own->capacity ? 2 * own->capacity : 256;
        own->ns = memory_resize(own->ns, (size_t)own->capacity, sizeof *own->ns);
    }
    own->ns[own->count++] = ns;
}

dyno_status foreign_hand_on_host(foreign_reading *r) {
    const host_timeline *t = r->timeline;
    own_times own = {0};
    dyno_status status = DYNO_OK;
    r->trace->is_of_host = true;
    for (int i = 0; i < (int)t->span_count && status == DYNO_OK; i++) {
        const host_span *span = &t->spans[i];
        int caller = span->kind == RANGE_OP ? calling_op(t, i) : HOST_NONE;
        if (span->kind == RANGE_OP && caller == HOST_NONE) {
            status = hand_on_own_times(r, &own);
            own.first = i;
            own.count = 0;
        }
        if (span->kind != RANGE_OP && !own.count)
            continue; /* before the first operation */
        add_own_time(&own, span->end_ns - span->begin_ns);
        if (caller != HOST_NONE)
            own.ns[caller - own.first] -= span->end_ns - span->begin_ns;
    }
    if (status == DYNO_OK)
        status = hand_on_own_times(r, &own);
    free(own.ns);
    return status;
}

/* ---- which format ---- */

static bool has_ending(const char *path, const char *ending) {
    size_t length = strlen(path), bytes = strlen(ending);
    return length >= bytes && strcasecmp(path + length - bytes, ending) == 0;
}

typedef dyno_status format_reader(foreign_reading *reading);

static dyno_status find_reader(const char *path, format_reader **out) {
    static const char SQLITE[] = "SQLite format 3";
    char first[16] = "";
    int descriptor;
    int64_t size;
    RETURN_IF_FAILED(file_open_regular(path, &descriptor, &size));
    ssize_t got = pread(descriptor, first, sizeof first, 0);
    close(descriptor);
    size_t blank = got > 3 && memcmp(first, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark */
    while (got > 0 && blank < (size_t)got && strchr(" \t\r\n", first[blank]) && first[blank])
        blank++;
    if (size == 0)
        return dyno_fail(DYNO_CORRUPT, "'%s' is empty", path);
    if (got == sizeof first && memcmp(first, SQLITE, sizeof SQLITE) == 0)
        *out = read_nsys;
    else if ((got > 2 && memcmp(first, "\x1f\x8b", 2) == 0) || blank == (size_t)got ||
             first[blank] == '{' || first[blank] == '[')
        *out = read_pytorch;
    else if (has_ending(path, ".nsys-rep") || has_ending(path, ".qdrep"))
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s' is a report of Nsight Systems; export it first: nsys export --type "
                         "sqlite '%s'",
                         path, path);
    else
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s' is neither an .sqlite export of Nsight Systems nor the JSON of "
                         "PyTorch's profiler (.json, .json.gz)",
                         path);
    return DYNO_OK;
}

dyno_status foreign_trace_read(const char *path, const foreign_visitor *visitor,
                               foreign_trace *out) {
    format_reader *read = NULL;
    *out = (foreign_trace){0};
    RETURN_IF_FAILED(find_reader(path, &read));
    foreign_reading reading = {
        .path = path, .visitor = visitor, .trace = out, .timeline = host_timeline_create()};
    dyno_status status = read(&reading);
    free(reading.products);
    host_attributor_destroy(reading.attributor);
    host_timeline_destroy(reading.timeline);
    return status;
}
