/* observe.c - attributes the activity records of CUPTI to the launches of a plan.
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

#include "base/memory.h"
#include "runtime/cuda/cupti.h"
#include "runtime/cuda/program.h"

enum { BUFFER_BYTES = 8 << 20, BUFFER_ALIGNMENT = 64, NO_LAUNCH = -1 };

typedef struct graph_node {
    uint64_t id, original; /* the node it was cloned from; 0: not a clone */
    int launch;            /* of a node that is not a clone */
} graph_node;

typedef struct raw_record {
    uint32_t correlation;
    uint64_t node; /* 0: not part of a graph */
    int name;      /* into session.named.names */
    int64_t begin_ns, end_ns;
} raw_record;

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
    raw_record *records;
    int record_count, record_capacity;
    outside_call *calls;
    int call_count, call_capacity;
    activity named; /* holds the names, which CUPTI may free with its records */
    int64_t dropped;
} session = {.lock = PTHREAD_MUTEX_INITIALIZER, .captured = NO_LAUNCH};

/* ---- callbacks of CUPTI ---- */

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *bytes, size_t *most_records) {
    *buffer = memory_is_refused() ? NULL : aligned_alloc(BUFFER_ALIGNMENT, BUFFER_BYTES);
    *bytes = *buffer ? BUFFER_BYTES : 0; /* without one, records are dropped, and counted */
    *most_records = 0;                   /* no limit but its size */
}

static void keep_record(const char *name, uint32_t correlation, uint64_t node, uint64_t begin,
                        uint64_t end) {
    if (!begin || !end) { /* CUPTI has no timestamps for it */
        session.dropped++;
        return;
    }
    MEMORY_GROW(session.records, session.record_count, session.record_capacity);
    session.records[session.record_count++] =
        (raw_record){correlation, node, activity_add_name(&session.named, name ? name : ""),
                     (int64_t)begin, (int64_t)end};
}

/* Newer versions of these structures only append fields. */
static void take_record(const CUpti_Activity *record) {
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const CUpti_ActivityKernel9 *k = (const void *)record;
        keep_record(k->name, k->correlationId, k->graphNodeId, k->start, k->end);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const CUpti_ActivityMemcpy5 *m = (const void *)record;
        keep_record("memcpy", m->correlationId, m->graphNodeId, m->start, m->end);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const CUpti_ActivityMemset4 *m = (const void *)record;
        keep_record("memset", m->correlationId, m->graphNodeId, m->start, m->end);
        break;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const CUpti_ActivityExternalCorrelation *c = (const void *)record;
        MEMORY_GROW(session.calls, session.call_count, session.call_capacity);
        session.calls[session.call_count++] = (outside_call){c->correlationId, c->externalId};
        break;
    }
    default: /* API calls, recorded only because external correlation needs them */
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
        session.dropped += (int64_t)dropped;
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
    /* Only for launches outside a graph: API calls must be recorded to carry our correlation ids.
     * */
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER};
enum { KINDS_OF_GRAPHS = 3, KINDS_OF_ALL = 6 };

static int kind_count(const program *r) {
    return r->p->memory_mode == PLAN_MEMORY_STATIC ? KINDS_OF_GRAPHS : KINDS_OF_ALL;
}

static void forget_all(void) {
    free(session.nodes);
    free(session.records);
    free(session.calls);
    session.nodes = NULL;
    session.records = NULL;
    session.calls = NULL;
    session.node_count = session.node_capacity = 0;
    session.record_count = session.record_capacity = 0;
    session.call_count = session.call_capacity = 0;
    activity_release(&session.named);
    session.dropped = 0;
    session.step = -1;
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
    forget_all();
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
    return compare(((const raw_record *)a)->correlation, ((const raw_record *)b)->correlation);
}

static int launch_of_node(uint64_t id) {
    enum { MOST_CLONINGS = 8 };
    for (int i = 0; i < MOST_CLONINGS && id; i++) {
        graph_node wanted = {.id = id};
        const graph_node *found = bsearch(&wanted, session.nodes, (size_t)session.node_count,
                                          sizeof *session.nodes, by_node);
        if (!found)
            return ACTIVITY_NOBODY;
        if (!found->original)
            return found->launch;
        id = found->original;
    }
    return ACTIVITY_NOBODY;
}

/* Our correlation ids: the step in the upper half, the launch in the lower one. */
static const outside_call *find_call(uint32_t correlation) {
    outside_call wanted = {.correlation = correlation};
    return bsearch(&wanted, session.calls, (size_t)session.call_count, sizeof *session.calls,
                   by_correlation);
}

/* The records of one call. Returns whether they belong to a replay of the observed program. */
static bool add_replay(const raw_record *records, int count, int step, activity *out) {
    bool is_known = false;
    for (int i = 0; i < count && !is_known; i++)
        is_known = records[i].node && launch_of_node(records[i].node) != ACTIVITY_NOBODY;
    for (int i = 0; i < count && is_known; i++)
        activity_add(out, (activity_record){.step = step,
                                            .launch = launch_of_node(records[i].node),
                                            .name = records[i].name,
                                            .begin_ns = records[i].begin_ns,
                                            .end_ns = records[i].end_ns});
    return is_known;
}

/* Records that belong to no step (tuning, copies, other programs) are left out. */
static void put_together(activity *out) {
    int replays = 0, end;
    *out = session.named; /* and its names */
    session.named = (activity){0};
    qsort(session.nodes, (size_t)session.node_count, sizeof *session.nodes, by_node);
    qsort(session.calls, (size_t)session.call_count, sizeof *session.calls, by_correlation);
    qsort(session.records, (size_t)session.record_count, sizeof *session.records, by_call);
    for (int begin = 0; begin < session.record_count; begin = end) {
        const raw_record *first = &session.records[begin];
        for (end = begin + 1; end < session.record_count; end++)
            if (session.records[end].correlation != first->correlation)
                break;
        const outside_call *call = find_call(first->correlation);
        if (!call)
            replays += add_replay(first, end - begin, replays, out);
        for (int i = begin; call && i < end; i++)
            activity_add(out, (activity_record){.step = (int)(call->id >> 32),
                                                .launch = (int)(call->id & UINT32_MAX),
                                                .name = session.records[i].name,
                                                .begin_ns = session.records[i].begin_ns,
                                                .end_ns = session.records[i].end_ns});
    }
    out->dropped = session.dropped;
}

dyno_status cuda_observe_end(program *r, activity *out) {
    *out = (activity){0};
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

void cuda_observe_launch_begin(const program *r, int launch) {
    if (session.observed != r)
        return;
    session.step += launch == 0;
    (void)session.cupti->external_push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                       (uint64_t)session.step << 32 | (uint64_t)launch);
}

void cuda_observe_launch_end(const program *r) {
    uint64_t last;
    if (session.observed == r)
        (void)session.cupti->external_pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
}
