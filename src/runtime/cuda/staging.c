/* staging.c - a ring buffer of pinned memory. A chunk is free again when the copy from it, which is
 * enqueued behind all earlier work, is complete; an event behind the copy tells. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_status.h"

enum { RING_BYTES = 32 << 20, PIECE_BYTES = 8 << 20, PIECE_COUNT = 256, PIECE_ALIGNMENT = 256 };

typedef struct piece {
    int64_t begin, end;
    cudaEvent_t is_copied;
} piece;

struct staging {
    char *base;
    int64_t head;              /* where the next chunk begins, if it fits there */
    piece pieces[PIECE_COUNT]; /* a ring: `count` in use, from `first` on */
    int first, count;
};

dyno_status staging_create(staging **out) {
    *out = NULL;
    staging *s = memory_allocate(1, sizeof *s);
    void *base = NULL;
    cudaError_t error = cudaHostAlloc(&base, RING_BYTES, cudaHostAllocDefault);
    s->base = base;
    for (int i = 0; i < PIECE_COUNT && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&s->pieces[i].is_copied, cudaEventDisableTiming);
    dyno_status status = cuda_status(error, "taking pinned memory for copies to the GPU");
    if (status == DYNO_OK)
        *out = s;
    else
        staging_destroy(s);
    return status;
}

void staging_destroy(staging *s) {
    if (!s)
        return;
    for (int i = 0; i < PIECE_COUNT; i++)
        if (s->pieces[i].is_copied)
            cudaEventDestroy(s->pieces[i].is_copied);
    if (s->base)
        cudaFreeHost(s->base);
    free(s);
}

static void drop_oldest(staging *s) {
    s->first = (s->first + 1) % PIECE_COUNT;
    s->count--;
}

static bool is_free(const staging *s, int64_t begin, int64_t end) {
    for (int i = 0; i < s->count; i++) {
        const piece *p = &s->pieces[(s->first + i) % PIECE_COUNT];
        if (begin < p->end && p->begin < end)
            return false;
    }
    return s->count < PIECE_COUNT;
}

static cudaError_t take(staging *s, int64_t bytes, piece **out) {
    int64_t room = (bytes + PIECE_ALIGNMENT - 1) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
    int64_t begin = s->head + room <= RING_BYTES ? s->head : 0;
    while (s->count && cudaEventQuery(s->pieces[s->first].is_copied) == cudaSuccess)
        drop_oldest(s);
    if (s->count)
        (void)cudaGetLastError(); /* "not ready" is no failure, but becomes the last error */
    while (!is_free(s, begin, begin + room)) {
        cudaError_t error = cudaEventSynchronize(s->pieces[s->first].is_copied);
        if (error != cudaSuccess)
            return error;
        drop_oldest(s);
    }
    piece *p = &s->pieces[(s->first + s->count++) % PIECE_COUNT];
    p->begin = begin;
    p->end = begin + room;
    s->head = p->end;
    *out = p;
    return cudaSuccess;
}

cudaError_t staging_write(staging *s, void *to, const void *from, int64_t bytes,
                          cudaStream_t stream) {
    for (int64_t done = 0; done < bytes;) {
        int64_t now = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        piece *p;
        cudaError_t error = take(s, now, &p);
        if (error != cudaSuccess)
            return error;
        memcpy(s->base + p->begin, (const char *)from + done, (size_t)now);
        error = cudaMemcpyAsync((char *)to + done, s->base + p->begin, (size_t)now,
                                cudaMemcpyHostToDevice, stream);
        if (error == cudaSuccess)
            error = cudaEventRecord(p->is_copied, stream);
        if (error != cudaSuccess)
            return error;
        done += now;
    }
    return cudaSuccess;
}
