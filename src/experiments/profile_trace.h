/* profile_trace.h - `dyno profile --trace FILE`: the traced steps of one cell as a file that trace viewers
 * open (profile/chrome_trace.h). */
#ifndef EXPERIMENTS_PROFILE_TRACE_H
#define EXPERIMENTS_PROFILE_TRACE_H

#include "experiments/experiment.h"
#include "measure/step_trace.h"

/* To be put into the flag table of `profile`. */
#define PROFILE_TRACE_FLAGS                                                                        \
    {                                                                                              \
        "trace", "FILE", FLAG_TEXT, NULL,                                                          \
            .help = "writes the traced steps for ui.perfetto.dev, chrome://tracing and HTA (one "  \
                    "cell); .json, or .json.gz to compress it"                                     \
    }

/* Before anything runs: DYNO_INVALID where there are several cells, the name is none of a trace, or the
 * file is there and may not be replaced; DYNO_IO where no such file can be made. DYNO_OK where no trace is
 * asked for. */
NODISCARD dyno_status profile_trace_check(const flags *given, const experiment_context *context,
                                          int64_t cells);

/* Writes the file, where one is asked for. */
NODISCARD dyno_status profile_trace_write(const flags *given, const experiment_context *context,
                                          const device *d, const plan *p, const step_trace *trace);

#endif
