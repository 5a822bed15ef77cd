/* capture.c - captures the launches of a static plan as one CUDA graph.
 *
 * Launches are enqueued on capturing streams as they would be on running ones, and the edges of the
 * graph follow: the order within a stream, and events between streams wherever hazards.h finds that
 * two launches share memory. A graph is therefore correct however the plan assigns its launches to
 * streams; a poor assignment can only be slower. Products are tuned before the capture. Its mode is
 * "relaxed", because a product inside a larger kernel is first seen here, and is tuned on another
 * stream during the capture. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "plan/hazards.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/graph_clears.h"
#include "runtime/cuda/observe.h"
#include "runtime/cuda/program.h"

enum { MOST_STREAMS = 16 };

typedef struct capture {
    program *r;
    const device_launch *steps;
    int step_count;
    const int *event_after;
    int event_count;
    hazard_edge *edges;
    int edge_count;
    cudaEvent_t *is_done; /* by step: the event of one that another stream waits for */
    int stream_count;
    cudaEvent_t *joins; /* events of join(), kept until the capture has ended */
    int join_count, join_capacity;
} capture;

/* ---- dependencies between streams ---- */

static hazard_range workspace_range(const plan *p, const plan_launch *l, const kernel_args *args) {
    uintptr_t begin = (uintptr_t)args->workspace;
    int64_t bytes = l->workspace >= 0 && begin ? p->buffers[l->workspace].bytes : 0;
    return (hazard_range){begin, begin + (uintptr_t)bytes, true};
}

static void find_edges(capture *c) {
    const plan *p = c->r->p;
    size_t total = 0;
    for (int i = 0; i < c->step_count; i++)
        total += (size_t)(c->steps[i].args->input_count + c->steps[i].args->output_count + 1);
    hazard_range *ranges = memory_allocate(total, sizeof *ranges), *next = ranges;
    hazard_launch *launches = memory_allocate((size_t)c->step_count, sizeof *launches);
    for (int i = 0; i < c->step_count; i++) {
        const kernel_args *args = c->steps[i].args;
        const plan_launch *l = &p->launches[c->steps[i].launch];
        launches[i] = (hazard_launch){.stream = l->stream, .ranges = next};
        for (int j = 0; j < args->input_count; j++)
            *next++ = hazard_range_of(&args->inputs[j], false);
        for (int j = 0; j < args->output_count; j++)
            *next++ = hazard_range_of(&args->outputs[j], true);
        *next++ = workspace_range(p, l, args);
        launches[i].range_count = (int)(next - launches[i].ranges);
    }
    c->edge_count = hazards_find(launches, c->step_count, &c->edges);
    free(ranges);
    free(launches);
}

/* ---- streams ---- */

static dyno_status make_side_streams(cuda_device *d, int count) {
    while (d->side_stream_count < count) {
        MEMORY_GROW(d->side_streams, d->side_stream_count, d->side_stream_capacity);
        RETURN_IF_FAILED(
            cuda_status(cudaStreamCreateWithFlags(&d->side_streams[d->side_stream_count],
                                                  cudaStreamNonBlocking),
                        "making a stream"));
        d->side_stream_count++;
    }
    return DYNO_OK;
}

static cudaStream_t stream_of(const capture *c, int stream) {
    const cuda_device *d = c->r->device;
    return stream == 0 ? d->stream : d->side_streams[stream - 1];
}

/* Stream `waiter` waits for all that is enqueued on stream `other` so far. */
static dyno_status join(capture *c, int waiter, int other) {
    MEMORY_GROW(c->joins, c->join_count, c->join_capacity);
    cudaEvent_t *event = &c->joins[c->join_count];
    RETURN_IF_FAILED(
        cuda_status(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event"));
    c->join_count++;
    cudaError_t error = cudaEventRecord(*event, stream_of(c, other));
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(stream_of(c, waiter), *event, 0);
    return cuda_status(error, "joining streams");
}

static dyno_status join_all(capture *c) {
    for (int i = 1; i < c->stream_count; i++)
        RETURN_IF_FAILED(join(c, 0, i));
    return DYNO_OK;
}

static dyno_status record_timing_event(const capture *c, int slot) {
    cuda_device *d = c->r->device;
    cudaEvent_t event = cuda_event(d, slot);
    if (!event)
        return DYNO_OK; /* the failure was kept, and is reported after the capture */
    return cuda_status(cudaEventRecordWithFlags(event, d->stream, cudaEventRecordExternal),
                       "recording an event in a graph");
}

/* ---- the launches ---- */

static dyno_status wait_for_edges(const capture *c, int step, int *next_edge) {
    int stream = c->r->p->launches[c->steps[step].launch].stream;
    for (; *next_edge < c->edge_count && c->edges[*next_edge].launch == step; ++*next_edge) {
        cudaEvent_t event = c->is_done[c->edges[*next_edge].waits_for];
        RETURN_IF_FAILED(cuda_status(cudaStreamWaitEvent(stream_of(c, stream), event, 0),
                                     "waiting for another stream"));
    }
    return DYNO_OK;
}

static dyno_status enqueue_all(capture *c) {
    const plan *p = c->r->p;
    int next_edge = 0, next_event = 0;
    RETURN_IF_FAILED(record_timing_event(c, 0));
    for (int i = 1; i < c->stream_count; i++)
        RETURN_IF_FAILED(join(c, i, 0));
    for (int i = 0; i < c->step_count; i++) {
        int launch = c->steps[i].launch;
        cudaStream_t stream = stream_of(c, p->launches[launch].stream);
        RETURN_IF_FAILED(wait_for_edges(c, i, &next_edge));
        cuda_observe_captured(c->r, launch);
        RETURN_IF_FAILED(program_enqueue(c->r, launch, c->steps[i].args, stream));
        cuda_observe_captured(c->r, -1);
        if (c->is_done[i])
            RETURN_IF_FAILED(
                cuda_status(cudaEventRecord(c->is_done[i], stream), "recording an event"));
        bool is_joined = false;
        for (; next_event < c->event_count && c->event_after[next_event] == i; next_event++) {
            if (!is_joined)
                RETURN_IF_FAILED(join_all(c));
            is_joined = true;
            RETURN_IF_FAILED(record_timing_event(c, next_event + 1));
        }
    }
    return join_all(c);
}

static dyno_status make_events(capture *c) {
    c->is_done = memory_allocate((size_t)c->step_count, sizeof *c->is_done);
    for (int i = 0; i < c->edge_count; i++) {
        cudaEvent_t *event = &c->is_done[c->edges[i].waits_for];
        if (!*event)
            RETURN_IF_FAILED(cuda_status(cudaEventCreateWithFlags(event, cudaEventDisableTiming),
                                         "making an event"));
    }
    return DYNO_OK;
}

static dyno_status record_graph(capture *c, cudaGraph_t *graph) {
    cuda_device *d = c->r->device;
    RETURN_IF_FAILED(cuda_status(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeRelaxed),
                                 "capturing a step"));
    dyno_status status = enqueue_all(c);
    char message[512];
    snprintf(message, sizeof message, "%s", status == DYNO_OK ? "" : dyno_error_message());
    cudaError_t ended = cudaStreamEndCapture(d->stream, graph);
    if (status == DYNO_OK && d->failure != DYNO_OK) { /* creating an event failed */
        status = d->failure;
        snprintf(message, sizeof message, "%.500s", d->failure_message);
    }
    d->failure = DYNO_OK;
    if (status == DYNO_OK)
        return cuda_status(ended, "capturing a step");
    (void)cudaGetLastError();
    if (*graph)
        cudaGraphDestroy(*graph);
    *graph = NULL;
    return dyno_fail(status, "%s: capturing a step: %s", d->base.name, message);
}

static dyno_status instantiate(program *r, cudaGraph_t graph) {
    cuda_device *d = r->device;
    RETURN_IF_FAILED(
        cuda_status(cudaGraphInstantiate(&r->graph, graph, 0), "making a step's graph ready"));
    RETURN_IF_FAILED(cuda_status(cudaGraphUpload(r->graph, d->stream), "uploading a step's graph"));
    return cuda_status(cudaStreamSynchronize(d->stream), "uploading a step's graph");
}

static dyno_status count_streams(capture *c) {
    c->stream_count = 1;
    for (int i = 0; i < c->r->p->launch_count; i++) {
        int stream = c->r->p->launches[i].stream;
        if (stream < 0 || stream >= MOST_STREAMS)
            return dyno_fail(DYNO_UNSUPPORTED, "launch %d is on stream %d; streams are 0 to %d", i,
                             stream, MOST_STREAMS - 1);
        if (stream >= c->stream_count)
            c->stream_count = stream + 1;
    }
    return make_side_streams(c->r->device, c->stream_count - 1);
}

dyno_status cuda_program_capture(program *r, const device_launch *steps, int count,
                                 const int *event_after, int event_count) {
    cuda_device *d = cuda_device_use(&r->device->base);
    capture c = {.r = r,
                 .steps = steps,
                 .step_count = count,
                 .event_after = event_after,
                 .event_count = event_count};
    if (d->failure != DYNO_OK) /* of earlier work, not of this capture */
        return d->base.functions->finish(&d->base);
    if (r->graph) {
        RETURN_IF_FAILED(cuda_status(cudaGraphExecDestroy(r->graph), "destroying a graph"));
        r->graph = NULL;
    }
    RETURN_IF_FAILED(count_streams(&c));
    int64_t before = cuda_device_free_bytes(), libraries = d->footprint.libraries;
    cudaGraph_t graph = NULL;
    find_edges(&c);
    dyno_status status = make_events(&c);
    if (status == DYNO_OK)
        status = program_rehearse(r, steps, count);
    if (status == DYNO_OK) {
        status = record_graph(&c, &graph);
        /* A library may initialize itself at its first use in ways that a capture forbids. That is
         * now done. */
        if (status != DYNO_OK && !graph)
            status = record_graph(&c, &graph);
    }
    if (status == DYNO_OK)
        status = cuda_graph_replace_clears(graph);
    if (status == DYNO_OK)
        status = instantiate(r, graph);
    if (graph)
        cuda_device_check(d, cudaGraphDestroy(graph), "destroying a graph");
    for (int i = 0; i < count; i++)
        if (c.is_done[i])
            cudaEventDestroy(c.is_done[i]);
    for (int i = 0; i < c.join_count; i++)
        cudaEventDestroy(c.joins[i]);
    free(c.is_done);
    free(c.joins);
    free(c.edges);
    cuda_scratch_release(d);
    int64_t taken = before - cuda_device_free_bytes() - (d->footprint.libraries - libraries);
    r->device_bytes += taken;
    d->footprint.programs += taken;
    return status;
}
