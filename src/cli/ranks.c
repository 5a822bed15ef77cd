#include "cli/ranks.h"

#include <stdlib.h>

#include "base/memory.h"
#include "cli/cli.h"

bool cli_start_ranks(int wanted, double timeout_s, int argc, char **argv, int *code) {
    int rank, count;
    if (wanted < 2 || dyno_rank(&rank, &count) != DYNO_OK || count > 1)
        return false;
    const char **arguments = memory_allocate((size_t)argc + 2, sizeof *arguments);
    arguments[0] = "dyno";
    for (int i = 0; i < argc; i++)
        arguments[1 + i] = argv[i];
    dyno_ranks_options how = {
        .size = sizeof how, .ranks = wanted, .arguments = arguments, .timeout_s = timeout_s};
    dyno_status status = dyno_ranks_start(&how, code);
    free(arguments);
    if (status != DYNO_OK)
        *code = cli_report_failure(status);
    return true;
}

bool cli_rank_is_quiet(void) {
    int rank, count;
    return dyno_rank(&rank, &count) == DYNO_OK && rank > 0;
}
