/* launch_record.h - one piece of work that a device did, and the launch that caused it, wherever the
 * record came from: our executor's clock on a CPU, CUPTI on a GPU, the trace of another program.
 *
 * A record belongs to the launch that caused it, which is known by ids, never by its time: a device
 * runs behind the host. What is not known is NULL, 0 or LAUNCH_UNKNOWN. All texts are borrowed. */
#ifndef PROFILE_LAUNCH_RECORD_H
#define PROFILE_LAUNCH_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum { LAUNCH_UNKNOWN = -1 };

/* Of the processor while the launch ran, where the system permits to count them. */
typedef struct launch_counters {
    int64_t cycles, instructions, cache_misses;
} launch_counters;

typedef struct launch_record {
    int step;               /* from 0 */
    int launch;             /* index in the plan, or LAUNCH_UNKNOWN: of no launch that is known */
    int repetition;         /* of the launch in its step: its micro-batch, from 0 */
    bool is_further;        /* another record stands for the launch: this is more of its work */
    const char *kernel;     /* as planned, with its variant; NULL: dyno did not plan it */
    const char *recorded;   /* the device's own function, demangled where it can be */
    const char *op;         /* "matmul", or for a fused kernel all of its ops */
    const char *class_name; /* "matmul", "elementwise", ... */
    const char *scope;      /* "layers.3.attn.softmax" */
    const char *phase;      /* "forward", "backward", ... */
    double backward_part;   /* of the time: of a launch that does work of two phases, else 0 */
    int grid[3], block[3];
    int registers; /* of a thread */
    int64_t shared_bytes;
    int64_t process; /* of another program; 0: there is but one */
    int device, stream;
    int64_t correlation;
    uint64_t graph_node;
    int64_t host_begin_ns, host_end_ns; /* of the call that launched it; both 0: unknown */
    const char *host_call;              /* its function: "cudaLaunchKernel" */
    int64_t begin_ns, end_ns;           /* by the device's clock */
    double share_ns; /* its duration, with overlapping time divided among those that ran */
    bool has_cost;   /* whether these are known: */
    double flops, bytes;
    bool has_counters;
    launch_counters counters;
} launch_record;

#endif
