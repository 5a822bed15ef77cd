/* chrome_trace.c - records in, events out.
 *
 * The order of events in the file matters only where slices of a thread begin at the same time: the outer
 * one comes first. */
#include "profile/chrome_trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "plan/memory_walk.h"
#include "profile/chrome_events.h"
#include "profile/nested_ranges.h"

/* Threads of scopes are numbered from here, streams by the device; as PyTorch's profiler does, devices are
 * shown below the host. */
enum { FIRST_SCOPE_THREAD = 1000000, FIRST_FURTHER_THREAD = 2000000, DEVICES_BELOW = 5000000 };

/* Correlation ids are the numbers of calls, from here on: those of CUPTI may come again in another
 * observation, and HTA stores numbers of events in a type just wide enough for the ids. */
enum { FIRST_CORRELATION = 1 << 24 };

/* A record with what the file says of it. */
typedef struct traced_work {
    const launch_record *r;
    int64_t begin_ns, end_ns, host_begin_ns, host_end_ns;
    int64_t correlation;
    int call, lane;
} traced_work;

/* A call of the host, with all that it launched. */
typedef struct host_call {
    ranged_work around; /* its step and times; what the launches have in common */
    const traced_work *first;
    int launch; /* LAUNCH_UNKNOWN: several, or none that is known */
} host_call;

/* Work that does not overlap, of one stream. */
typedef struct lane {
    int device, stream, number; /* number > 0: another of the same stream */
    int64_t thread, end_ns;
} lane;

typedef struct builder {
    const chrome_trace *t;
    chrome_events out;
    traced_work *work; /* in the order of the log */
    traced_work **order;
    int64_t count;
    host_call *calls;
    int call_count, call_capacity;
    lane *lanes;
    int lane_count, lane_capacity;
    chrome_thread host;
    int64_t (*alive)[ROLE_COUNT]; /* before the first launch, then while each runs */
} builder;

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* ---- records ---- */

/* Times taken by events are relative to the first launch of their step, which did not begin with the step.
 * All are moved by so much that nothing begins before its call. */
static void move_behind_calls(traced_work *work, int64_t count) {
    int64_t delay = 0;
    for (int64_t i = 0; i < count; i++)
        delay = most(delay, work[i].host_begin_ns - work[i].begin_ns);
    for (int64_t i = 0; i < count; i++) {
        work[i].begin_ns += delay;
        work[i].end_ns += delay;
    }
}

static void take_records(builder *b) {
    const launch_log *log = b->t->log;
    b->count = log->count;
    b->work = memory_allocate((size_t)log->count, sizeof *b->work);
    b->order = memory_allocate((size_t)log->count, sizeof *b->order);
    for (int64_t i = 0; i < log->count; i++) {
        const launch_record *r = &log->records[i];
        b->work[i] = (traced_work){.r = r,
                                   .begin_ns = r->begin_ns,
                                   .end_ns = r->end_ns,
                                   .host_begin_ns = r->host_begin_ns,
                                   .host_end_ns = r->host_end_ns,
                                   .correlation = r->correlation ? r->correlation : i + 1,
                                   .call = -1};
        if (b->t->is_host) { /* it is in the call as long as the kernel runs */
            b->work[i].host_begin_ns = r->begin_ns;
            b->work[i].host_end_ns = r->end_ns;
        }
        b->order[i] = &b->work[i];
    }
    for (int64_t begin = 0, end; begin < log->count && !b->t->is_observed; begin = end) {
        for (end = begin; end < log->count && log->records[end].step == log->records[begin].step;)
            end++;
        move_behind_calls(b->work + begin, end - begin);
    }
}

/* ---- calls ---- */

static bool has_call(const traced_work *w) { return w->host_begin_ns || w->host_end_ns; }

static int by_call(const void *a, const void *b) {
    const traced_work *x = *(traced_work *const *)a, *y = *(traced_work *const *)b;
    int order = compare(x->r->step, y->r->step);
    order = order ? order : compare(x->host_begin_ns, y->host_begin_ns);
    order = order ? order : compare(x->correlation, y->correlation);
    return order ? order : compare(x - y, 0);
}

/* The length of what two scopes have in common, in whole parts. */
static size_t common_scope(const char *a, size_t length, const char *b) {
    size_t same = 0, parts = 0;
    b = b ? b : "";
    while (same < length && b[same] == a[same]) {
        parts = a[same] == '.' ? same : parts;
        same++;
    }
    bool ends_a = same == length || a[same] == '.', ends_b = !b[same] || b[same] == '.';
    return ends_a && ends_b ? same : parts;
}

static void start_call(builder *b, traced_work *w) {
    MEMORY_GROW(b->calls, b->call_count, b->call_capacity);
    const char *scope = w->r->scope;
    b->calls[b->call_count++] =
        (host_call){.around = {w->r->step, w->r->phase, scope, scope ? strlen(scope) : 0,
                               w->host_begin_ns, w->host_end_ns},
                    .first = w,
                    .launch = w->r->launch};
}

static void join_call(host_call *call, const traced_work *w) {
    ranged_work *around = &call->around;
    around->end_ns = most(around->end_ns, w->host_end_ns);
    if (call->launch != w->r->launch)
        call->launch = LAUNCH_UNKNOWN;
    if (!around->phase || !w->r->phase || strcmp(around->phase, w->r->phase) != 0)
        around->phase = NULL;
    if (around->scope)
        around->scope_length = common_scope(around->scope, around->scope_length, w->r->scope);
}

/* In order of time, all of one thread: none begins before the last has ended. */
static void find_calls(builder *b) {
    if (b->count)
        qsort(b->order, (size_t)b->count, sizeof *b->order, by_call);
    for (int64_t i = 0; i < b->count; i++) {
        traced_work *w = b->order[i];
        const host_call *last = b->call_count ? &b->calls[b->call_count - 1] : NULL;
        if (!has_call(w))
            continue;
        if (last && last->around.step == w->r->step && last->first->correlation == w->correlation)
            join_call(&b->calls[b->call_count - 1], w);
        else
            start_call(b, w);
        w->call = b->call_count - 1;
    }
    for (int64_t i = 0; i < b->count; i++)
        b->work[i].correlation =
            FIRST_CORRELATION + (b->work[i].call >= 0 ? b->work[i].call : b->call_count + i);
    for (int i = 1; i < b->call_count; i++) {
        ranged_work *at = &b->calls[i].around;
        at->begin_ns = most(at->begin_ns, b->calls[i - 1].around.end_ns);
        at->end_ns = most(at->end_ns, at->begin_ns);
    }
}

/* ---- lanes ---- */

static int by_stream(const void *a, const void *b) {
    const traced_work *x = *(traced_work *const *)a, *y = *(traced_work *const *)b;
    int order = compare(x->r->device, y->r->device);
    order = order ? order : compare(x->r->stream, y->r->stream);
    order = order ? order : compare(x->begin_ns, y->begin_ns);
    order = order ? order : compare(x->end_ns, y->end_ns);
    return order ? order : compare(x - y, 0);
}

static int add_lane(builder *b, const launch_record *r, int number) {
    MEMORY_GROW(b->lanes, b->lane_count, b->lane_capacity);
    int64_t thread = number ? FIRST_FURTHER_THREAD + b->lane_count : r->stream;
    b->lanes[b->lane_count] = (lane){r->device, r->stream, number, thread, INT64_MIN};
    return b->lane_count++;
}

/* The first of the stream's on which nothing runs any more. */
static void find_lanes(builder *b) {
    int first = 0;
    if (b->count)
        qsort(b->order, (size_t)b->count, sizeof *b->order, by_stream);
    for (int64_t i = 0; i < b->count; i++) {
        traced_work *w = b->order[i];
        if (i == 0 || b->lanes[first].device != w->r->device ||
            b->lanes[first].stream != w->r->stream)
            first = b->lane_count;
        int at = first;
        while (at < b->lane_count && b->lanes[at].end_ns > w->begin_ns)
            at++;
        w->lane = at < b->lane_count ? at : add_lane(b, w->r, at - first);
        b->lanes[w->lane].end_ns = w->end_ns;
    }
}

/* ---- names of processes and threads ---- */

static void name_thread(builder *b, chrome_thread at, const char *name, int64_t place) {
    chrome_begin(&b->out, 'M', "thread_name", NULL, at);
    chrome_text(&b->out, "name", name);
    chrome_end(&b->out);
    chrome_begin(&b->out, 'M', "thread_sort_index", NULL, at);
    chrome_integer(&b->out, "sort_index", place);
    chrome_end(&b->out);
}

static void name_process(builder *b, int64_t process, const char *name, const char *label,
                         int64_t place) {
    const struct {
        const char *what, *key, *value;
    } texts[] = {{"process_name", "name", name}, {"process_labels", "labels", label}};
    for (int i = 0; i < 2; i++) {
        chrome_begin(&b->out, 'M', texts[i].what, NULL, (chrome_thread){process, 0});
        chrome_text(&b->out, texts[i].key, texts[i].value);
        chrome_end(&b->out);
    }
    chrome_begin(&b->out, 'M', "process_sort_index", NULL, (chrome_thread){process, 0});
    chrome_integer(&b->out, "sort_index", place);
    chrome_end(&b->out);
}

static chrome_thread scopes_of(const builder *b, int at) {
    return (chrome_thread){b->lanes[at].device, FIRST_SCOPE_THREAD + at};
}

static void write_names(builder *b) {
    name_process(b, b->host.process, "dyno", "host", 0);
    name_thread(b, b->host, "host", 0);
    for (int i = 0; i < b->lane_count; i++) {
        const lane *l = &b->lanes[i];
        text name = {0};
        if (i == 0 || b->lanes[i - 1].device != l->device) {
            text_format(&name, "%s, %s", b->t->device_name, b->t->device_description);
            name_process(b, l->device, text_string(&name), b->t->is_host ? "CPU" : "GPU",
                         DEVICES_BELOW + l->device);
            name.length = 0;
        }
        text_format(&name, "stream %d", l->stream);
        if (l->number)
            text_format(&name, ", beside it %d", l->number);
        name_thread(b, (chrome_thread){l->device, l->thread}, text_string(&name), 2 * i + 1);
        text_append(&name, ": scopes");
        name_thread(b, scopes_of(b, i), text_string(&name), 2 * i);
        text_release(&name);
    }
}

/* ---- the host ---- */

static void write_ranges(builder *b, const nested_ranges *ranges, const char *category,
                         chrome_thread at) {
    text name = {0};
    for (int i = 0; i < ranges->count; i++) {
        const nested_range *r = &ranges->ranges[i];
        name.length = 0;
        text_append_bytes(&name, r->name, (size_t)r->length);
        chrome_begin(&b->out, 'X', text_string(&name), category, at);
        chrome_time(&b->out, r->begin_ns);
        chrome_duration(&b->out, r->end_ns - r->begin_ns);
        chrome_end(&b->out);
    }
    text_release(&name);
}

/* A step is around all of its calls, though clocks may differ a little. */
static void write_steps(builder *b) {
    int64_t last_end = INT64_MIN;
    int call = 0;
    for (int i = 0; i < b->t->log->step_count; i++) {
        char name[32];
        int64_t begin = b->t->log->steps[i].begin_ns, end = b->t->log->steps[i].end_ns;
        for (; call < b->call_count && b->calls[call].around.step <= i; call++) {
            ranged_work *at = &b->calls[call].around;
            at->begin_ns = most(at->begin_ns, last_end);
            at->end_ns = most(at->end_ns, at->begin_ns);
            begin = least(begin, at->begin_ns);
            end = most(end, at->end_ns);
        }
        begin = most(begin, last_end);
        end = most(end, begin);
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        chrome_begin(&b->out, 'X', name, "user_annotation", b->host);
        chrome_time(&b->out, begin);
        chrome_duration(&b->out, end - begin);
        chrome_end(&b->out);
        last_end = end;
    }
}

/* The number of a launch in a step, by which kernels name the operation; 0: it has none. */
static int64_t operation_id(const builder *b, const host_call *call) {
    if (!call || call->launch == LAUNCH_UNKNOWN)
        return 0;
    return (int64_t)call->around.step * b->t->p->launch_count + call->launch + 1;
}

/* All calls of a launch. Where the device is the host, that is the call. */
static void write_operations(builder *b) {
    for (int i = 0, end; i < b->call_count; i = end) {
        const host_call *call = &b->calls[i];
        int64_t id = operation_id(b, call);
        for (end = i + 1; id && end < b->call_count && operation_id(b, &b->calls[end]) == id;)
            end++;
        if (!id)
            continue;
        const launch_record *r = call->first->r;
        chrome_begin(&b->out, 'X', r->op ? r->op : "launch", "cpu_op", b->host);
        chrome_time(&b->out, call->around.begin_ns);
        chrome_duration(&b->out, b->calls[end - 1].around.end_ns - call->around.begin_ns);
        chrome_integer(&b->out, "External id", id);
        if (b->t->is_host)
            chrome_integer(&b->out, "correlation", call->first->correlation);
        chrome_integer(&b->out, "launch", call->launch);
        chrome_text(&b->out, "scope", r->scope);
        chrome_text(&b->out, "phase", r->phase);
        chrome_end(&b->out);
    }
}

/* PyTorch's profiler tells functions of the driver from those of the runtime: cuLaunchKernel,
 * cudaLaunchKernel. */
static void write_calls(builder *b) {
    for (int i = 0; i < b->call_count && !b->t->is_host; i++) {
        const host_call *call = &b->calls[i];
        const char *name = call->first->r->host_call;
        bool is_driver = name && strncmp(name, "cu", 2) == 0 && strncmp(name, "cuda", 4) != 0;
        chrome_begin(&b->out, 'X', name ? name : "launch",
                     is_driver ? "cuda_driver" : "cuda_runtime", b->host);
        chrome_time(&b->out, call->around.begin_ns);
        chrome_duration(&b->out, call->around.end_ns - call->around.begin_ns);
        if (operation_id(b, call))
            chrome_integer(&b->out, "External id", operation_id(b, call));
        chrome_integer(&b->out, "correlation", call->first->correlation);
        chrome_end(&b->out);
    }
}

static void write_host(builder *b) {
    nested_ranges ranges = {0};
    write_steps(b);
    for (int i = 0; i < b->call_count; i++)
        nested_ranges_add(&ranges, &b->calls[i].around);
    write_ranges(b, &ranges, "user_annotation", b->host);
    nested_ranges_release(&ranges);
    write_operations(b);
    write_calls(b);
}

/* ---- devices ---- */

static const char *category_of(const launch_record *r) {
    if (r->recorded && strcmp(r->recorded, "memcpy") == 0)
        return "gpu_memcpy";
    return r->recorded && strcmp(r->recorded, "memset") == 0 ? "gpu_memset" : "kernel";
}

/* The keys of PyTorch's profiler first, then those that `dyno profile --from` reads as well. */
static void write_arguments(builder *b, const traced_work *w) {
    const launch_record *r = w->r;
    chrome_events *out = &b->out;
    int64_t id = operation_id(b, w->call < 0 ? NULL : &b->calls[w->call]);
    if (id)
        chrome_integer(out, "External id", id);
    chrome_integer(out, "device", r->device);
    chrome_integer(out, "stream", r->stream);
    chrome_integer(out, "correlation", w->correlation);
    if (r->grid[0] > 0) {
        chrome_extent(out, "grid", r->grid);
        chrome_extent(out, "block", r->block);
        chrome_integer(out, "registers per thread", r->registers);
        chrome_integer(out, "shared memory", r->shared_bytes);
    }
    if (r->graph_node)
        chrome_integer(out, "graph node id", (int64_t)(r->graph_node & INT64_MAX));
    if (r->launch != LAUNCH_UNKNOWN)
        chrome_integer(out, "launch", r->launch);
    chrome_text(out, "phase", r->phase);
    if (r->backward_part > 0)
        chrome_number(out, "backward part", r->backward_part);
    chrome_text(out, "scope", r->scope);
    chrome_text(out, "op", r->op);
    chrome_text(out, "class", r->class_name);
    chrome_text(out, "planned", r->kernel);
    if (r->has_cost) {
        chrome_number(out, "flops", r->flops);
        chrome_number(out, "bytes", r->bytes);
    }
    if (r->has_counters) {
        chrome_integer(out, "cycles", r->counters.cycles);
        chrome_integer(out, "instructions", r->counters.instructions);
        chrome_integer(out, "cache misses", r->counters.cache_misses);
    }
}

static void write_flow(builder *b, const traced_work *w, int64_t id, chrome_thread to) {
    if (w->call < 0)
        return;
    chrome_begin(&b->out, 's', "ac2g", "ac2g", b->host);
    chrome_time(&b->out, b->calls[w->call].around.begin_ns);
    chrome_id(&b->out, id);
    chrome_end(&b->out);
    chrome_begin(&b->out, 'f', "ac2g", "ac2g", to);
    chrome_time(&b->out, w->begin_ns);
    chrome_id(&b->out, id);
    chrome_flow_end(&b->out);
    chrome_end(&b->out);
}

static void write_work(builder *b) {
    for (int64_t i = 0; i < b->count; i++) {
        const traced_work *w = &b->work[i];
        const lane *l = &b->lanes[w->lane];
        chrome_thread at = (chrome_thread){l->device, l->thread};
        const char *name = w->r->recorded ? w->r->recorded : w->r->kernel;
        chrome_begin(&b->out, 'X', name ? name : "(unknown)", category_of(w->r), at);
        chrome_time(&b->out, w->begin_ns);
        chrome_duration(&b->out, w->end_ns - w->begin_ns);
        write_arguments(b, w);
        chrome_end(&b->out);
        write_flow(b, w, i + 1, at);
    }
}

/* Beside each lane, the phases and scopes of its work in order of time. */
static void write_scopes(builder *b) {
    int64_t at = 0;
    for (int i = 0; i < b->lane_count; i++) {
        nested_ranges ranges = {0};
        /* `order` is by stream and time: the lanes of a stream are among each other there. */
        while (at < b->count && (b->order[at]->r->device != b->lanes[i].device ||
                                 b->order[at]->r->stream != b->lanes[i].stream))
            at++;
        for (int64_t j = at; j < b->count && b->order[j]->r->stream == b->lanes[i].stream &&
                             b->order[j]->r->device == b->lanes[i].device;
             j++) {
            const traced_work *w = b->order[j];
            const char *scope = w->r->scope;
            if (w->lane == i)
                nested_ranges_add(&ranges, &(ranged_work){w->r->step, w->r->phase, scope,
                                                          scope ? strlen(scope) : 0, w->begin_ns,
                                                          w->end_ns});
        }
        write_ranges(b, &ranges, "gpu_user_annotation", scopes_of(b, i));
        nested_ranges_release(&ranges);
    }
}

/* ---- memory ---- */

static void keep_moment(void *context, const memory_moment *now) {
    builder *b = context;
    memcpy(b->alive[now->launch + 1], now->alive, sizeof now->alive);
}

static void write_counter(builder *b, int device, int moment, int64_t at_ns) {
    chrome_begin(&b->out, 'C', "memory (bytes)", NULL, (chrome_thread){device, 0});
    chrome_time(&b->out, at_ns);
    for (role r = 0; r < ROLE_COUNT; r++)
        chrome_integer(&b->out, role_name(r), b->alive[moment][r]);
    chrome_end(&b->out);
}

/* What the plan holds while each launch runs, at its begin. */
static void write_memory(builder *b) {
    const plan *p = b->t->p;
    b->alive = memory_allocate((size_t)p->launch_count + 1, sizeof *b->alive);
    memory_walk(p, &(memory_visitor){.context = b, .on_moment = keep_moment});
    for (int64_t i = 0; i < b->count; i++) {
        const launch_record *r = b->work[i].r, *before = i ? b->work[i - 1].r : NULL;
        if (r->launch == LAUNCH_UNKNOWN)
            continue;
        if (!before || before->step != r->step || before->launch != r->launch)
            write_counter(b, r->device, r->launch + 1, b->work[i].begin_ns);
    }
}

/* ---- the file ---- */

static int64_t find_first(const builder *b) {
    const launch_log *log = b->t->log;
    int64_t first = log->step_count ? log->steps[0].begin_ns : INT64_MAX;
    for (int64_t i = 0; i < b->count; i++) {
        first = least(first, b->work[i].begin_ns);
        if (has_call(&b->work[i]))
            first = least(first, b->work[i].host_begin_ns);
    }
    return first < INT64_MAX ? first : 0;
}

/* The space behind "rank": is looked for by readers. */
static void write_head(builder *b) {
    const target *chip = &b->t->p->target;
    text head = {0};
    int device = b->count ? b->work[0].r->device : 0;
    text_append(&head, "{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n");
    text_format(&head, "\"baseTimeNanoseconds\": %" PRId64 ",\n",
                b->out.base_ns + b->t->unix_offset_ns);
    text_append(&head, "\"distributedInfo\": {\"rank\": 0, \"world_size\": 1},\n");
    text_format(&head, "\"deviceProperties\": [{\"id\": %d, \"name\": ", device);
    json_append_string(&head, b->t->device_description);
    if (chip->memory_bytes)
        text_format(&head, ", \"totalGlobalMem\": %" PRId64, chip->memory_bytes);
    if (target_is_cuda(chip))
        text_format(&head, ", \"computeMajor\": %d, \"computeMinor\": %d, \"numSms\": %d",
                    chip->capability / 10, chip->capability % 10, chip->cores);
    text_append(&head, "}],\n\"traceEvents\": [");
    chrome_raw(&b->out, text_string(&head));
    text_release(&head);
}

dyno_status chrome_trace_write(const chrome_trace *trace, byte_sink *sink, int64_t *events) {
    builder b = {.t = trace, .out = {.sink = sink}};
    int most_device = 0;
    take_records(&b);
    find_calls(&b);
    find_lanes(&b);
    for (int i = 0; i < b.lane_count; i++)
        most_device = b.lanes[i].device > most_device ? b.lanes[i].device : most_device;
    /* Devices are processes by their index: the host is another. */
    int64_t process = trace->process > most_device ? trace->process : most_device + 1;
    b.host = (chrome_thread){process, process};
    b.out.base_ns = find_first(&b);
    write_head(&b);
    write_names(&b);
    write_host(&b);
    write_scopes(&b);
    write_work(&b);
    write_memory(&b);
    chrome_raw(&b.out, "\n]\n}\n");
    dyno_status status = chrome_finish(&b.out);
    if (events)
        *events = b.out.count;
    free(b.work);
    free(b.order);
    free(b.calls);
    free(b.lanes);
    free(b.alive);
    return status;
}
