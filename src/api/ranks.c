/* ranks.c - starting ranks, and which one this process is. */
#include <stdlib.h>

#include "api/options.h"
#include "base/memory.h"
#include "distributed/launch.h"
#include "distributed/world.h"

dyno_status dyno_ranks_start(const dyno_ranks_options *options, int *exit_code) {
    RETURN_IF_NULL(exit_code);
    *exit_code = 1;
    RETURN_IF_NULL(options);
    dyno_ranks_options known = {0};
    RETURN_IF_FAILED(options_take("dyno_ranks_options", options, &known, sizeof known));
    const char *const *arguments = known.arguments;
    RETURN_IF_NULL(arguments);
    launch_options how = {.ranks = known.ranks,
                          .program = known.program,
                          .arguments = arguments,
                          .timeout_s = known.timeout_s};
    return status_conclude(launch_ranks(&how, exit_code));
}

dyno_status dyno_rank(int *rank, int *count) {
    RETURN_IF_NULL(rank, count);
    *rank = *count = 0;
    world_place place;
    RETURN_IF_FAILED(world_find_place(&place));
    *rank = place.rank;
    *count = place.count;
    return status_conclude(DYNO_OK);
}

bool dyno_rank_reports(void) { return world_may_report(); }

dyno_status dyno_ranks_agree(bool mine, bool *any) {
    RETURN_IF_NULL(any);
    *any = mine;
    world *w;
    RETURN_IF_FAILED(world_open(&(world_options){0}, &w));
    char given = mine, *all = memory_allocate((size_t)world_count(w), sizeof *all);
    dyno_status status = world_exchange(w, &given, all, sizeof given);
    for (int i = 0; i < world_count(w); i++)
        *any = *any || all[i];
    free(all);
    status = world_conclude(w, status);
    return status_conclude(status);
}
