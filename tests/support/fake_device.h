/* fake_device.h - a device that is as unlike the CPU as one can be without a GPU.
 *
 * Its addresses cannot be touched by the host, which would crash: what they stand for lies
 * elsewhere, and has memory only where it was committed. Work is put off until somebody waits for
 * it, so that nothing done too early or read too soon goes unnoticed. It computes with the CPU's
 * kernels, so that its numbers are those of the CPU to the bit. */
#ifndef TESTS_SUPPORT_FAKE_DEVICE_H
#define TESTS_SUPPORT_FAKE_DEVICE_H

#include "runtime/device.h"

enum { FAKE_GRANULARITY = 1 << 16, FAKE_MOST_RANGES = 8 };

typedef struct fake_range {
    char *shown, *real; /* NULL: this entry is free */
    int64_t bytes;
} fake_range;

typedef struct fake_device {
    device base; /* first: it is a device */
    fake_range ranges[FAKE_MOST_RANGES];
    int64_t memory_bytes;    /* that can be committed in all; may be changed at any time */
    int64_t committed_bytes; /* now */
    bool fails_next_finish;
    bool fails_commits;      /* as a device that broke down, not one that is full */
    bool can_observe;        /* keeps records of its own; false unless set */
    int64_t dropped_records; /* that it then claims to have lost */
    /* Known times instead of the clock's, for records and events alike: launch i takes launch_ns[i],
     * launch_gap_ns lie before each, and the device begins each step step_gap_ns after the last. In the
     * first observed step of each observation everything takes first_factor as long, as where kernels
     * are loaded and caches filled. NULL: the clock. */
    const int64_t *launch_ns;
    int64_t launch_gap_ns, step_gap_ns, first_factor;
    int64_t now_ns;    /* by this device's clock, if it is not the host's */
    int hidden_launch; /* 1 + that of which it keeps no record; 0: none */
    bool has_stranger; /* keeps a record of work that is no launch's, as long as launch 0 */
    program *observed;
    int observed_steps;
    launch_log seen;
    int programs; /* alive */
    /* How often each happened. */
    int launches, captures, replays, finishes, commits, decommits, reads, writes, clears;
    int waiting; /* things put off now */
    int events;  /* of the last replay, but the one before it all */
    struct fake_work *work;
    int work_capacity;
    int64_t *event_ns;
    int event_capacity;
} fake_device;

/* `can_capture`: as a GPU does, else launch by launch as the CPU. device_close ends it, and fails
 * the test when a range or program was left. */
fake_device *fake_device_create(int64_t memory_bytes, bool can_capture);
static inline device *fake_device_base(fake_device *f) { return &f->base; }

#endif
