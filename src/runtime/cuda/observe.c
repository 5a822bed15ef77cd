/* observe.c - attributes the activity records of CUPTI to the launches of a plan.
 *
 * Work of the GPU and the calls of the host that launched it are joined by correlation id, and given
 * in the host's clock.
 *
 * A replayed step: every record has the id of the graph node that ran. During capture, CUPTI
 * reports each node as it is created, and it belongs to the launch being captured. Instantiation
 * clones the nodes, and CUPTI reports the original of each clone. All records of one replay have
 * the correlation id of the call that launched the graph; these ids grow from call to call.
 *
 * A step that runs launch by launch: every launch is enclosed in a push and a pop of an external
 * correlation id, and CUPTI reports which calls were made in between.
 *
 * CUPTI delivers full buffers from threads of its own; records are stored as they arrive, and
 * attributed when the observation ends. */
#include "runtime/cuda/observe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/demangle.h"
#include "base/memory.h"
#include "runtime/cuda/cupti.h"
#include "runtime/cuda/program.h"

enum { BUFFER_BYTES = 8 << 20, BUFFER_ALIGNMENT = 64, NO_LAUNCH = -1 };

typedef struct graph_node {
    uint64_t id, original; /* the node it was cloned from; 0: not a clone */
    int launch;            /* of a node that is not a clone */
} graph_node;

/* A call of the host: when it was made, by CUPTI's clock. */
typedef struct host_call {
    uint32_t correlation;
    int64_t begin_ns, end_ns;
    CUpti_ActivityKind kind;   /* of the runtime or of the driver, */
    CUpti_CallbackId function; /* and which */
} host_call;

typedef struct outside_call { /* made between push and pop */
    uint32_t correlation;
    uint64_t id;
} outside_call;

static struct {
    pthread_mutex_t lock;
    const cupti_functions *cupti;
    program *observed; /* NULL: no observation is active */
    CUpti_SubscriberHandle subscriber;
    int captured; /* launch that is being captured, or NO_LAUNCH */
    int64_t step; /* counts steps that run launch by launch */
    graph_node *nodes;
    int node_count, node_capacity;
    launch_log seen; /* as they came: of no step and no launch yet, names mangled */
    outside_call *calls;
    int call_count, call_capacity;
    host_call *host_calls;
    int host_call_count, host_call_capacity;
    int64_t clock_offset_ns; /* from CUPTI's clock to ours */
} session = {.lock = PTHREAD_MUTEX_INITIALIZER, .captured = NO_LAUNCH};

/* ---- callbacks of CUPTI ---- */

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *bytes, size_t *most_records) {
    *buffer = memory_is_refused() ? NULL : aligned_alloc(BUFFER_ALIGNMENT, BUFFER_BYTES);
    *bytes = *buffer ? BUFFER_BYTES : 0; /* without one, records are dropped, and counted */
    *most_records = 0;                   /* no limit but its size */
}

/* CUPTI may free the name with its record. */
static void keep_record(const char *name, uint64_t begin, uint64_t end, launch_record record) {
    if (!begin || !end) { /* CUPTI has no timestamps for it */
        session.seen.dropped++;
        return;
    }
    record.recorded = launch_log_name(&session.seen, name ? name : "");
    record.begin_ns = (int64_t)begin + session.clock_offset_ns;
    record.end_ns = (int64_t)end + session.clock_offset_ns;
    launch_log_add(&session.seen, &record);
}

static void keep_kernel(const CUpti_ActivityKernel9 *k) {
    keep_record(
        k->name, k->start, k->end,
        (launch_record){.grid = {k->gridX, k->gridY, k->gridZ},
                        .block = {k->blockX, k->blockY, k->blockZ},
                        .registers = k->registersPerThread,
                        .shared_bytes = (int64_t)k->staticSharedMemory + k->dynamicSharedMemory,
                        .device = (int)k->deviceId,
                        .stream = (int)k->streamId,
                        .correlation = k->correlationId,
                        .graph_node = k->graphNodeId});
}

static void keep_call(const CUpti_ActivityAPI *call) {
    MEMORY_GROW(session.host_calls, session.host_call_count, session.host_call_capacity);
    session.host_calls[session.host_call_count++] =
        (host_call){call->correlationId, (int64_t)call->start + session.clock_offset_ns,
                    (int64_t)call->end + session.clock_offset_ns, call->kind, call->cbid};
}

/* Newer versions of these structures only append fields. */
static void take_record(const CUpti_Activity *record) {
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        keep_kernel((const void *)record);
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const CUpti_ActivityMemcpy5 *m = (const void *)record;
        keep_record("memcpy", m->start, m->end,
                    (launch_record){.device = (int)m->deviceId,
                                    .stream = (int)m->streamId,
                                    .correlation = m->correlationId,
                                    .graph_node = m->graphNodeId});
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const CUpti_ActivityMemset4 *m = (const void *)record;
        keep_record("memset", m->start, m->end,
                    (launch_record){.device = (int)m->deviceId,
                                    .stream = (int)m->streamId,
                                    .correlation = m->correlationId,
                                    .graph_node = m->graphNodeId});
        break;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const CUpti_ActivityExternalCorrelation *c = (const void *)record;
        MEMORY_GROW(session.calls, session.call_count, session.call_capacity);
        session.calls[session.call_count++] = (outside_call){c->correlationId, c->externalId};
        break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
        keep_call((const void *)record);
        break;
    default:
        break;
    }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                 size_t valid_bytes) {
    (void)bytes;
    CUpti_Activity *record = NULL;
    size_t dropped = 0;
    pthread_mutex_lock(&session.lock);
    while (valid_bytes &&
           session.cupti->activity_next(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
        take_record(record);
    if (session.cupti->activity_dropped(context, stream, &dropped) == CUPTI_SUCCESS)
        session.seen.dropped += (int64_t)dropped;
    pthread_mutex_unlock(&session.lock);
    free(buffer);
}

static uint64_t node_id(CUgraphNode node) {
    uint64_t id = 0;
    return session.cupti->node_id(node, &id) == CUPTI_SUCCESS ? id : 0;
}

static void CUPTIAPI note_node(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId what,
                               const void *data) {
    (void)unused;
    if (domain != CUPTI_CB_DOMAIN_RESOURCE)
        return;
    const CUpti_GraphData *graph = ((const CUpti_ResourceData *)data)->resourceDescriptor;
    graph_node made = {.launch = session.captured};
    if (what == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED)
        made.original = node_id(graph->originalNode);
    else if (what != CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED || session.captured == NO_LAUNCH)
        return;
    made.id = node_id(graph->node);
    pthread_mutex_lock(&session.lock);
    MEMORY_GROW(session.nodes, session.node_count, session.node_capacity);
    session.nodes[session.node_count++] = made;
    pthread_mutex_unlock(&session.lock);
}

/* ---- beginning and ending ---- */

static const CUpti_ActivityKind KINDS[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
    /* Only for launches outside a graph; without records of calls it has none. */
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
enum { KINDS_OF_GRAPHS = 5, KINDS_OF_ALL = 6 };

static int kind_count(const program *r) {
    return r->p->memory_mode == PLAN_MEMORY_STATIC ? KINDS_OF_GRAPHS : KINDS_OF_ALL;
}

static void forget_all(void) {
    free(session.nodes);
    free(session.calls);
    free(session.host_calls);
    session.nodes = NULL;
    session.calls = NULL;
    session.host_calls = NULL;
    session.node_count = session.node_capacity = 0;
    session.call_count = session.call_capacity = 0;
    session.host_call_count = session.host_call_capacity = 0;
    launch_log_release(&session.seen);
    session.step = -1;
}

/* The clocks run alike for the seconds of an observation. CUPTI's clock is read between two readings of ours,
 * several times, and the two readings that are closest to each other count: the first call of CUPTI sets things
 * up, and a busy host interrupts others. */
static void compare_clocks(void) {
    enum { READINGS = 16 };
    int64_t closest = INT64_MAX;
    session.clock_offset_ns = 0;
    for (int i = 0; i < READINGS; i++) {
        uint64_t theirs = 0;
        int64_t before = clock_now_ns();
        if (session.cupti->timestamp(&theirs) != CUPTI_SUCCESS)
            return;
        int64_t apart = clock_now_ns() - before;
        if (apart < closest) {
            closest = apart;
            session.clock_offset_ns = before + apart / 2 - (int64_t)theirs;
        }
    }
}

static dyno_status enable_all(const program *r) {
    const cupti_functions *f = session.cupti;
    static const CUpti_CallbackId NODES[] = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                             CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};
    for (int i = 0; i < 2; i++)
        RETURN_IF_FAILED(cupti_status(
            f->callback_enable(1, session.subscriber, CUPTI_CB_DOMAIN_RESOURCE, NODES[i]),
            "subscribing to graph callbacks"));
    RETURN_IF_FAILED(
        cupti_status(f->activity_register(give_buffer, take_buffer), "asking for records"));
    for (int i = 0; i < kind_count(r); i++)
        RETURN_IF_FAILED(cupti_status(f->activity_enable(KINDS[i]), "asking for records"));
    return DYNO_OK;
}

/* Disabling what was never enabled fails, and that does not matter. */
static void disable_all(const program *r) {
    for (int i = 0; i < kind_count(r); i++)
        (void)session.cupti->activity_disable(KINDS[i]);
    (void)session.cupti->unsubscribe(session.subscriber);
}

dyno_status cuda_observe_begin(program *r) {
    if (session.observed)
        return dyno_fail(DYNO_UNSUPPORTED, "another program is being observed already");
    RETURN_IF_FAILED(cupti_load(&session.cupti));
    (void)cuda_device_use(&r->device->base);
    pthread_mutex_lock(&session.lock); /* a buffer of the observation before may still come */
    forget_all();
    pthread_mutex_unlock(&session.lock);
    compare_clocks();
    RETURN_IF_FAILED(cupti_status(session.cupti->subscribe(&session.subscriber, note_node, NULL),
                                  "attaching to the GPU"));
    dyno_status status = enable_all(r);
    if (status != DYNO_OK) {
        disable_all(r);
        return status;
    }
    session.observed = r;
    return DYNO_OK;
}

/* ---- from records to launches ---- */

static int compare(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int by_node(const void *a, const void *b) {
    return compare(((const graph_node *)a)->id, ((const graph_node *)b)->id);
}

static int by_correlation(const void *a, const void *b) {
    return compare(((const outside_call *)a)->correlation, ((const outside_call *)b)->correlation);
}

static int by_call(const void *a, const void *b) {
    return compare((uint64_t)((const launch_record *)a)->correlation,
                   (uint64_t)((const launch_record *)b)->correlation);
}

static int by_host_call(const void *a, const void *b) {
    return compare(((const host_call *)a)->correlation, ((const host_call *)b)->correlation);
}

static int launch_of_node(uint64_t id) {
    enum { MOST_CLONINGS = 8 };
    for (int i = 0; i < MOST_CLONINGS && id; i++) {
        graph_node wanted = {.id = id};
        const graph_node *found = bsearch(&wanted, session.nodes, (size_t)session.node_count,
                                          sizeof *session.nodes, by_node);
        if (!found)
            return LAUNCH_UNKNOWN;
        if (!found->original)
            return found->launch;
        id = found->original;
    }
    return LAUNCH_UNKNOWN;
}

/* Our correlation ids: the step in the upper half, the launch in the lower one. */
static const outside_call *find_call(uint32_t correlation) {
    outside_call wanted = {.correlation = correlation};
    return bsearch(&wanted, session.calls, (size_t)session.call_count, sizeof *session.calls,
                   by_correlation);
}

/* A function of the runtime may call one of the driver under the same id: the outer one counts. */
static host_call find_host_call(uint32_t correlation) {
    host_call wanted = {.correlation = correlation};
    const host_call *end = session.host_calls + session.host_call_count;
    const host_call *found = bsearch(&wanted, session.host_calls, (size_t)session.host_call_count,
                                     sizeof *session.host_calls, by_host_call);
    if (!found)
        return wanted;
    while (found > session.host_calls && found[-1].correlation == correlation)
        found--;
    wanted = *found;
    for (; found < end && found->correlation == correlation; found++) {
        if (found->begin_ns < wanted.begin_ns) {
            wanted.kind = found->kind;
            wanted.function = found->function;
        }
        wanted.begin_ns = found->begin_ns < wanted.begin_ns ? found->begin_ns : wanted.begin_ns;
        wanted.end_ns = found->end_ns > wanted.end_ns ? found->end_ns : wanted.end_ns;
    }
    return wanted;
}

/* "cudaLaunchKernel_v7000" is cudaLaunchKernel to everybody else; NULL: no name. */
static const char *name_call(const host_call *call, launch_log *out) {
    char name[96] = "";
    const char *full = NULL;
    if (!call->function)
        return NULL;
    CUpti_CallbackDomain domain = call->kind == CUPTI_ACTIVITY_KIND_RUNTIME
                                      ? CUPTI_CB_DOMAIN_RUNTIME_API
                                      : CUPTI_CB_DOMAIN_DRIVER_API;
    if (session.cupti->callback_name(domain, call->function, &full) != CUPTI_SUCCESS || !full)
        return NULL;
    const char *version = strstr(full, "_v");
    size_t length = version ? (size_t)(version - full) : strlen(full);
    if (length >= sizeof name)
        return NULL;
    memcpy(name, full, length);
    return launch_log_name(out, name);
}

/* Adds the records of one call, with the names as people write them. */
static void add_records(const launch_record *records, int64_t count, int step,
                        const outside_call *call, launch_log *out) {
    host_call made = find_host_call((uint32_t)records[0].correlation);
    const char *function = name_call(&made, out);
    for (int64_t i = 0; i < count; i++) {
        launch_record r = records[i];
        char *name = demangle(r.recorded);
        r.step = step;
        r.launch = call ? (int)(call->id & UINT32_MAX) : launch_of_node(r.graph_node);
        r.recorded = launch_log_name(out, name);
        r.host_begin_ns = made.begin_ns;
        r.host_end_ns = made.end_ns;
        r.host_call = function;
        launch_log_add(out, &r);
        free(name);
    }
}

/* Whether the records of one call belong to a replay of the observed program. */
static bool is_replay(const launch_record *records, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (records[i].graph_node && launch_of_node(records[i].graph_node) != LAUNCH_UNKNOWN)
            return true;
    return false;
}

static void sort_all(void) {
    qsort(session.nodes, (size_t)session.node_count, sizeof *session.nodes, by_node);
    qsort(session.calls, (size_t)session.call_count, sizeof *session.calls, by_correlation);
    qsort(session.host_calls, (size_t)session.host_call_count, sizeof *session.host_calls,
          by_host_call);
    qsort(session.seen.records, (size_t)session.seen.count, sizeof *session.seen.records, by_call);
}

/* Records that belong to no step (tuning, copies, other programs) are left out. */
static void put_together(launch_log *out) {
    int replays = 0;
    sort_all();
    out->dropped = session.seen.dropped;
    for (int64_t begin = 0, end; begin < session.seen.count; begin = end) {
        const launch_record *first = &session.seen.records[begin];
        for (end = begin + 1; end < session.seen.count; end++)
            if (session.seen.records[end].correlation != first->correlation)
                break;
        const outside_call *call = find_call((uint32_t)first->correlation);
        if (call)
            add_records(first, end - begin, (int)(call->id >> 32), call, out);
        else if (is_replay(first, end - begin))
            add_records(first, end - begin, replays++, NULL, out);
    }
}

dyno_status cuda_observe_end(program *r, launch_log *out) {
    *out = (launch_log){0};
    if (session.observed != r)
        return dyno_fail(DYNO_UNSUPPORTED, "this program is not being observed");
    (void)cuda_device_use(&r->device->base);
    dyno_status status =
        cupti_status(session.cupti->activity_flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED),
                     "collecting the GPU's records");
    disable_all(r);
    session.observed = NULL;
    pthread_mutex_lock(&session.lock);
    if (status == DYNO_OK)
        put_together(out);
    forget_all();
    pthread_mutex_unlock(&session.lock);
    return status;
}

/* ---- notifications from the program ---- */

void cuda_observe_captured(const program *r, int launch) {
    session.captured = session.observed == r ? launch : NO_LAUNCH;
}

void cuda_observe_captured_like(cudaGraphNode_t node) {
    uint64_t id = session.observed ? node_id(node) : 0;
    session.captured = NO_LAUNCH;
    for (int i = 0; id && i < session.node_count; i++)
        if (session.nodes[i].id == id)
            session.captured = session.nodes[i].launch;
}

void cuda_observe_launch_begin(const program *r, int launch, bool begins_step) {
    if (session.observed != r)
        return;
    session.step += begins_step;
    (void)session.cupti->external_push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                       (uint64_t)session.step << 32 | (uint64_t)launch);
}

void cuda_observe_launch_end(const program *r) {
    uint64_t last;
    if (session.observed == r)
        (void)session.cupti->external_pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
}
