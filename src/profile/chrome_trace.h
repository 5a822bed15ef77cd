/* chrome_trace.h - traced steps as a file for ui.perfetto.dev, chrome://tracing, Holistic Trace Analysis
 * and `dyno profile --from`: Chrome's JSON, with the names that PyTorch's profiler (Kineto) uses.
 *
 *   process "dyno"     thread "host": step > phase > parts of the scope > operation > call
 *   process of each    a thread for each stream: kernels, copies and memsets
 *   device             a thread beside it with their phases and scopes; the counter "memory (bytes)"
 *
 * Steps are named ProfilerStep#N. A flow leads from each call to the work that it launched. Where one call
 * launches a whole graph, the host has no phases and scopes, and only the device's threads show them.
 * Slices of a thread are inside each other or apart: work of one stream that overlaps is on further
 * threads. */
#ifndef PROFILE_CHROME_TRACE_H
#define PROFILE_CHROME_TRACE_H

#include "base/byte_sink.h"
#include "plan/plan.h"
#include "profile/launch_log.h"

typedef struct chrome_trace {
    const launch_log *log; /* settled, and described by the plan */
    const plan *p;
    const char *device_name;        /* "cuda:0" */
    const char *device_description; /* "NVIDIA H200, sm_90, 139.8 GiB" */
    bool is_host;                   /* the device is the host: it runs what it launches */
    bool is_observed;               /* the records are the device's own */
    int64_t unix_offset_ns; /* what is to be added to the log's times for those since 1970 */
    int64_t process;        /* the host's number */
} chrome_trace;

/* `events` may be NULL: how many were written. The sink remains the caller's, to be committed. */
NODISCARD dyno_status chrome_trace_write(const chrome_trace *trace, byte_sink *sink,
                                         int64_t *events);

#endif
