/* profile_from.h - `dyno profile --from FILE`: the same tables for a program that another profiler
 * traced. Nothing runs. */
#ifndef EXPERIMENTS_PROFILE_FROM_H
#define EXPERIMENTS_PROFILE_FROM_H

#include "experiments/experiment.h"

/* To be put into the experiment's flag table. */
#define PROFILE_FROM_FLAGS                                                                         \
    {"from", "FILE", FLAG_TEXT, NULL,                                                              \
     .help = "runs nothing and reads the trace of another program: an .sqlite export of Nsight "   \
             "Systems, or the JSON of PyTorch's profiler (.json, .json.gz)"},                      \
    {                                                                                              \
        "classes", "FILE", FLAG_TEXT, NULL,                                                        \
            .help = "with --from: rules that give kernels their class, a line each: \"pattern, "   \
                    "class\"; they come before the built-in ones"                                  \
    }

/* `given` has --from. */
NODISCARD dyno_status profile_from_run(const flags *given, const experiment_context *context,
                                       experiment_output *out);

#endif
