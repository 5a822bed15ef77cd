/* memory_account.h - every byte of a step, at every launch, before anything runs. */
#ifndef PLAN_MEMORY_ACCOUNT_H
#define PLAN_MEMORY_ACCOUNT_H

#include "plan/plan.h"

typedef struct memory_account {
    int64_t peak_bytes;               /* most bytes alive at once */
    int peak_launch;                  /* the launch at which they are */
    int64_t at_peak[ROLE_COUNT];      /* the same, by role */
    int64_t persistent_bytes;         /* alive all the time: inputs, parameters, state */
    int64_t total[ROLE_COUNT];        /* bytes of all buffers ever made, by role */
    int64_t reserved_bytes;           /* what the caching allocator holds at its largest */
} memory_account;

/* Walks the launches as an executor does, with the same allocator policy. */
memory_account memory_account_plan(const plan *p);

/* Whether the buffer holds memory while that launch runs; at -1, before the first, only what is
 * persistent does. */
bool memory_account_is_alive(const plan_buffer *b, int launch);

#endif
