#define _GNU_SOURCE
#include "experiments/profile_trace.h"

#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/byte_sink.h"
#include "base/clock.h"
#include "profile/chrome_trace.h"

static bool ends_with(const char *path, const char *ending) {
    size_t length = strlen(path), bytes = strlen(ending);
    return length > bytes && strcasecmp(path + length - bytes, ending) == 0;
}

dyno_status profile_trace_check(const flags *given, const experiment_context *context,
                                int64_t cells) {
    const char *path = flags_text(given, "trace");
    if (!path)
        return DYNO_OK;
    if (!ends_with(path, ".json") && !ends_with(path, ".json.gz"))
        return dyno_fail(DYNO_INVALID,
                         "--trace: '%s' is no name of a trace, which viewers know by its ending; "
                         "give one that ends in .json or .json.gz",
                         path);
    if (cells != 1)
        return dyno_fail(DYNO_INVALID,
                         "--trace is of one cell, but %lld are asked for; give one --model, "
                         "--context, --pass, --mode, --precision, --attention, --recompute and "
                         "--warmup",
                         (long long)cells);
    dyno_status status = byte_sink_check(path, !context->replaces_anything);
    return status == DYNO_OK ? status : dyno_fail_within(status, "--trace");
}

static int64_t unix_offset_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - clock_now_ns();
}

dyno_status profile_trace_write(const flags *given, const experiment_context *context,
                                const device *d, const plan *p, const step_trace *trace) {
    const char *path = flags_text(given, "trace");
    if (!path)
        return DYNO_OK;
    chrome_trace out = {.log = &trace->log,
                        .p = p,
                        .device_name = d->name,
                        .device_description = d->description,
                        .is_host = device_is_host(d),
                        .is_observed = trace->is_observed,
                        .unix_offset_ns = unix_offset_ns(),
                        .process = getpid()};
    byte_sink *sink;
    int64_t events = 0;
    RETURN_IF_FAILED(byte_sink_create(path, !context->replaces_anything, &sink));
    dyno_status status = chrome_trace_write(&out, sink, &events);
    if (status == DYNO_OK)
        status = byte_sink_commit(sink);
    else
        byte_sink_abandon(sink);
    if (status == DYNO_OK)
        experiment_note(context, "%lld events of %d steps are in %s; ui.perfetto.dev opens it",
                        (long long)events, trace->log.step_count, path);
    return status;
}
