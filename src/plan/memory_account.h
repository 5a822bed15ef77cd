/* memory_account.h - every byte of a step, at every launch, before anything runs. */
#ifndef PLAN_MEMORY_ACCOUNT_H
#define PLAN_MEMORY_ACCOUNT_H

#include "plan/plan.h"

/* Of an eager plan, peak_bytes are the most alive at once: the sum of at_peak. A static plan takes
 * its arena for good, so its peak is what the pool hands out, to the byte: persistent buffers in
 * whole blocks, and the arena; at_peak adds up to less, by what rounding and gaps cost. */
typedef struct memory_account {
    int64_t peak_bytes;
    int peak_launch;             /* the launch at which most bytes are alive */
    int64_t at_peak[ROLE_COUNT]; /* alive then, by role */
    int64_t persistent_bytes;    /* alive all the time: inputs, parameters, state */
    int64_t total[ROLE_COUNT];   /* bytes of all buffers ever made, by role */
    int64_t alive_bytes;         /* the sum of at_peak, in either mode */
    int64_t peak_block_bytes;    /* the most of values alive at once, in whole blocks */
    int64_t reserved_bytes;      /* what the pool holds at its largest */
} memory_account;

/* Walks the launches as an executor does, with the same allocator policy. */
memory_account memory_account_plan(const plan *p);

/* Whether the buffer holds memory while that launch runs; at -1, before the first, only what is
 * persistent does. */
bool memory_account_is_alive(const plan_buffer *b, int launch);

/* Bytes in use between the previous launch and this one: what is persistent, and what was computed
 * earlier and is read from here on. Gaps in the arena of a static plan do not count. */
int64_t memory_account_bytes_before(const plan *p, int launch);

/* The launch that the backward begins with; the number of launches where there is none. */
int memory_account_first_backward(const plan *p);
/* Whether the buffer waits for the backward when it begins: it was made before and has the role "saved".
 */
bool memory_account_is_saved(const plan_buffer *b, int first_backward);
/* Bytes that wait for the backward when it begins: values of the role "saved". 0 without one. */
int64_t memory_account_saved_bytes(const plan *p);

#endif
