/* nccl_communicator.c - communicators between GPUs.
 *
 * Collectives are enqueued on streams, also while one is captured into a graph. NCCL waits without end
 * for a rank that has died: joining therefore runs on a thread of its own, and the host waits for
 * enqueued work by looking, so that both can be given up. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/nccl.h"

/* Events of collectives that were started; the slot of an old one is taken again once it is complete. */
enum { EVENT_SLOTS = 64 };

typedef struct nccl_communicator {
    communicator base;
    cuda_device *device;
    const nccl_functions *nccl;
    nccl_comm comm;
    nccl_join how;
    cudaEvent_t events[EVENT_SLOTS];
    collective_handle started;
    float *barrier; /* on the device */
    bool has_failed;
} nccl_communicator;

/* ---- joining ---- */

typedef struct joining {
    const nccl_functions *nccl;
    nccl_join how;
    int ordinal;
    nccl_comm comm;
    int result;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended, is_given_up; /* who comes last frees it */
} joining;

static void *join_ranks(void *context) {
    joining *j = context;
    nccl_comm comm = NULL;
    int result = -1;
    if (cudaSetDevice(j->ordinal) == cudaSuccess)
        result = j->nccl->init_rank(&comm, j->how.count, j->how.id, j->how.rank);
    pthread_mutex_lock(&j->lock);
    j->comm = comm;
    j->result = result;
    j->has_ended = true;
    bool is_last = j->is_given_up;
    pthread_cond_signal(&j->ended);
    pthread_mutex_unlock(&j->lock);
    if (is_last)
        free(j);
    return NULL;
}

/* With the lock held. */
static dyno_status wait_for_ranks(joining *j) {
    enum { SLICE_NS = 50000000, SECOND_NS = 1000000000 };
    int64_t end = clock_now_ns() + (int64_t)(j->how.timeout_s * SECOND_NS);
    while (!j->has_ended) {
        RETURN_IF_FAILED(j->how.check(j->how.context));
        if (clock_now_ns() > end)
            return dyno_fail(DYNO_RANK_FAILED,
                             "rank %d waited %g s for the other %d ranks to join NCCL; --timeout "
                             "sets how long",
                             j->how.rank, j->how.timeout_s, j->how.count - 1);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += SLICE_NS;
        until.tv_sec += until.tv_nsec / SECOND_NS;
        until.tv_nsec %= SECOND_NS;
        pthread_cond_timedwait(&j->ended, &j->lock, &until);
    }
    return DYNO_OK;
}

static dyno_status join(nccl_communicator *n) {
    joining *j = memory_allocate(1, sizeof *j);
    *j = (joining){.nccl = n->nccl, .how = n->how, .ordinal = n->device->ordinal};
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->ended, NULL);
    pthread_t thread;
    int problem = pthread_create(&thread, NULL, join_ranks, j);
    if (problem) {
        free(j);
        return dyno_fail(DYNO_OUT_OF_MEMORY, "starting the thread that joins NCCL: %s",
                         strerror(problem));
    }
    pthread_detach(thread);
    pthread_mutex_lock(&j->lock);
    dyno_status status = wait_for_ranks(j);
    j->is_given_up = !j->has_ended;
    bool is_last = j->has_ended;
    pthread_mutex_unlock(&j->lock);
    if (!is_last)
        return status;
    n->comm = j->comm;
    int result = j->result;
    free(j);
    if (result < 0)
        return dyno_fail(DYNO_DEVICE_FAILED, "NCCL: the GPU could not be used from a thread");
    return status == DYNO_OK ? nccl_status(result, n->comm, "joining the ranks") : status;
}

/* ---- waiting ---- */

static dyno_status give_up(nccl_communicator *n, dyno_status status) {
    n->has_failed = true;
    return status;
}

static dyno_status wait_for_event(nccl_communicator *n, cudaEvent_t event) {
    int64_t end = clock_now_ns() + (int64_t)(n->how.timeout_s * 1e9), looks = 0;
    for (;; looks++) {
        cudaError_t state = cudaEventQuery(event);
        if (state == cudaSuccess)
            return DYNO_OK;
        if (state != cudaErrorNotReady)
            return give_up(n, cuda_status(state, "waiting for a collective"));
        if (looks < 1000)
            continue; /* most are complete soon */
        int result = NCCL_SUCCESS;
        n->nccl->async_error(n->comm, &result);
        if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS)
            return give_up(n, nccl_status(result, n->comm, "waiting for a collective"));
        dyno_status others = n->how.check(n->how.context);
        if (others != DYNO_OK)
            return give_up(n, others);
        if (clock_now_ns() > end)
            return give_up(n,
                           dyno_fail(DYNO_RANK_FAILED,
                                     "rank %d waited %g s for a collective of %d GPUs; a rank is "
                                     "missing, or --timeout is too short",
                                     n->how.rank, n->how.timeout_s, n->how.count));
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

/* ---- collectives ---- */

/* Copies are of any type: bytes. */
static int type_of(dtype type, int64_t *count) {
    if (type == DTYPE_F32)
        return NCCL_FLOAT32;
    if (type == DTYPE_BF16)
        return NCCL_BFLOAT16;
    if (type == DTYPE_F16)
        return NCCL_FLOAT16;
    *count *= dtype_bytes(type);
    return NCCL_UINT8;
}

static int enqueue(const nccl_communicator *n, const collective *what, cudaStream_t stream) {
    int64_t count = what->count;
    int type = type_of(what->type, &count);
    switch (what->op) {
    case COLLECTIVE_ALL_REDUCE:
        return n->nccl->all_reduce(what->from, what->to, (size_t)count, type, NCCL_SUM, n->comm,
                                   stream);
    case COLLECTIVE_REDUCE_SCATTER:
        return n->nccl->reduce_scatter(what->from, what->to, (size_t)count, type, NCCL_SUM, n->comm,
                                       stream);
    case COLLECTIVE_ALL_GATHER:
        return n->nccl->all_gather(what->from, what->to, (size_t)count, type, n->comm, stream);
    case COLLECTIVE_BROADCAST:
        return n->nccl->broadcast(what->from ? what->from : what->to, what->to, (size_t)count, type,
                                  what->root, n->comm, stream);
    case COLLECTIVE_BARRIER:
        return n->nccl->all_reduce(n->barrier, n->barrier, 1, NCCL_FLOAT32, NCCL_SUM, n->comm,
                                   stream);
    case COLLECTIVE_OP_COUNT:
        break;
    }
    return NCCL_SUCCESS;
}

static cudaStream_t stream_of(const nccl_communicator *n, const collective *what) {
    return what->stream ? (cudaStream_t)what->stream : n->device->stream;
}

static dyno_status run(communicator *c, const collective *what, int threads) {
    nccl_communicator *n = (nccl_communicator *)c;
    (void)threads;
    cuda_device_use(&n->device->base);
    dyno_status status =
        nccl_status(enqueue(n, what, stream_of(n, what)), n->comm, "enqueuing a collective");
    if (status != DYNO_OK)
        return give_up(n, status);
    if (what->op != COLLECTIVE_BARRIER)
        return DYNO_OK;
    /* The host waits at a barrier, too. */
    cudaEvent_t event = n->events[0];
    RETURN_IF_FAILED(cuda_status(cudaEventRecord(event, stream_of(n, what)), "a barrier's event"));
    return wait_for_event(n, event);
}

static cudaEvent_t *slot_of(nccl_communicator *n, collective_handle handle) {
    return &n->events[1 + handle % (EVENT_SLOTS - 1)];
}

static dyno_status start(communicator *c, const collective *what, collective_handle *handle) {
    nccl_communicator *n = (nccl_communicator *)c;
    RETURN_IF_FAILED(run(c, what, 1));
    cudaEvent_t *slot = slot_of(n, n->started + 1);
    if (n->started + 1 >= EVENT_SLOTS)
        RETURN_IF_FAILED(wait_for_event(n, *slot)); /* of an older one */
    RETURN_IF_FAILED(cuda_status(cudaEventRecord(*slot, stream_of(n, what)), "an event"));
    *handle = ++n->started;
    return DYNO_OK;
}

/* An older one than the slots hold was complete when its slot was taken again. */
static bool is_forgotten(const nccl_communicator *n, collective_handle handle) {
    return handle <= n->started - (EVENT_SLOTS - 1);
}

static dyno_status wait(communicator *c, collective_handle handle) {
    nccl_communicator *n = (nccl_communicator *)c;
    cuda_device_use(&n->device->base);
    if (handle <= 0 || is_forgotten(n, handle))
        return DYNO_OK;
    return wait_for_event(n, *slot_of(n, handle));
}

static bool is_complete(communicator *c, collective_handle handle) {
    nccl_communicator *n = (nccl_communicator *)c;
    cuda_device_use(&n->device->base);
    return is_forgotten(n, handle) || cudaEventQuery(*slot_of(n, handle)) == cudaSuccess;
}

/* ---- memory ---- */

static dyno_status memory_create(communicator *c, int64_t bytes, void **base) {
    nccl_communicator *n = (nccl_communicator *)c;
    cuda_device_use(&n->device->base);
    *base = NULL;
    RETURN_IF_FAILED(cuda_status(cudaMalloc(base, (size_t)bytes), "memory for collectives"));
    dyno_status status =
        cuda_status(cudaMemsetAsync(*base, 0, (size_t)bytes, n->device->stream), "clearing it");
    if (status == DYNO_OK)
        status = cuda_status(cudaStreamSynchronize(n->device->stream), "clearing it");
    if (status != DYNO_OK) {
        cudaFree(*base);
        *base = NULL;
    }
    return status;
}

static void memory_destroy(communicator *c, void *base) {
    nccl_communicator *n = (nccl_communicator *)c;
    cuda_device_use(&n->device->base);
    if (!n->has_failed) /* freeing waits for the device, which may wait for a rank that is gone */
        cudaFree(base);
}

static void destroy(communicator *c) {
    nccl_communicator *n = (nccl_communicator *)c;
    cuda_device_use(&n->device->base);
    if (n->comm && n->has_failed)
        n->nccl->abort(n->comm);
    else if (n->comm)
        n->nccl->destroy(n->comm);
    for (int i = 0; i < EVENT_SLOTS; i++)
        if (n->events[i])
            cudaEventDestroy(n->events[i]);
    if (n->barrier && !n->has_failed)
        cudaFree(n->barrier);
    free(n);
}

static const communicator_functions FUNCTIONS = {.memory_create = memory_create,
                                                 .memory_destroy = memory_destroy,
                                                 .run = run,
                                                 .start = start,
                                                 .wait = wait,
                                                 .is_complete = is_complete,
                                                 .destroy = destroy};

/* ---- making one ---- */

dyno_status cuda_nccl_id(device *d, nccl_id *out) {
    const nccl_functions *nccl;
    cuda_device_use(d);
    RETURN_IF_FAILED(nccl_load(&nccl));
    return nccl_status(nccl->get_unique_id(out), NULL, "making an id");
}

static dyno_status prepare(nccl_communicator *n) {
    void *barrier = NULL;
    for (int i = 0; i < EVENT_SLOTS; i++)
        RETURN_IF_FAILED(
            cuda_status(cudaEventCreateWithFlags(&n->events[i], cudaEventDisableTiming),
                        "an event for collectives"));
    RETURN_IF_FAILED(memory_create(&n->base, sizeof *n->barrier, &barrier));
    n->barrier = barrier;
    return join(n);
}

dyno_status cuda_nccl_join(device *d, const nccl_join *how, communicator **out) {
    *out = NULL;
    nccl_communicator *n = memory_allocate(1, sizeof *n);
    n->base.functions = &FUNCTIONS;
    n->device = cuda_device_use(d);
    n->how = *how;
    dyno_status status = nccl_load(&n->nccl);
    if (status == DYNO_OK)
        status = prepare(n);
    if (status != DYNO_OK) {
        n->has_failed = true;
        destroy(&n->base);
        return status;
    }
    *out = &n->base;
    return DYNO_OK;
}
