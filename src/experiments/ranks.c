#include "experiments/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "measure/keys.h"

static const flag_spec *find_flag(const flags_verb *verb, const char *name) {
    for (int i = 0; i < verb->flag_count; i++)
        if (strcmp(verb->flags[i].name, name) == 0)
            return &verb->flags[i];
    return NULL;
}

int ranks_wanted(const flags_verb *verb, const flags *given) {
    const flag_spec *flag = find_flag(verb, "ranks");
    if (!flag)
        return 1;
    if (flag->kind == FLAG_INTEGER)
        return (int)flags_integer(given, "ranks");
    int count, most = 1;
    const int64_t *ranks = flags_list(given, "ranks", &count);
    for (int i = 0; i < count; i++)
        most = ranks[i] > most ? (int)ranks[i] : most;
    return count ? most : 2;
}

double ranks_timeout_s(const flags_verb *verb, const flags *given) {
    return find_flag(verb, "timeout") ? flags_real(given, "timeout") : 0;
}

/* The arguments as they were typed. Where results are kept and how they are printed is rank 0's
 * matter, but a job starts all ranks alike. */
static void append_arguments(const flags *given, text *out) {
    int count;
    const char *const *arguments = flags_arguments(given, &count);
    for (int i = 1; i < count; i++)
        text_format(out, "%s%s", i > 1 ? " " : "", arguments[i]);
}

dyno_status ranks_open(const flags *given, world **out) {
    world_options options = {.timeout_s = flags_real(given, "timeout")};
    RETURN_IF_FAILED(world_open(&options, out));
    text arguments = {0};
    append_arguments(given, &arguments);
    const world_fact facts[] = {{"the version of dyno", dyno_version()},
                                {"the command line", text_string(&arguments)}};
    dyno_status status = world_compare(*out, facts, sizeof facts / sizeof *facts);
    text_release(&arguments);
    return status;
}

dyno_status ranks_create_communicator(world *w, device *d, communicator **out) {
    communicator_options options = {.kind = target_is_cuda(&d->target) ? COMMUNICATOR_NCCL
                                            : world_hosts(w) > 1       ? COMMUNICATOR_MPI
                                                                       : COMMUNICATOR_SHARED};
    return device_create_communicator(d, w, &options, out);
}

void ranks_describe(int64_t ranks, const parallel_options *how, results_cell *cell) {
    cell_set_integer(cell, PARAM_RANKS, ranks);
    cell_set_text(cell, PARAM_PARALLEL, ranks > 1 ? parallel_format(how).text : "none");
}

dyno_status ranks_check_count(const world *w, int64_t ranks) {
    if (ranks <= world_count(w))
        return DYNO_OK;
    if (world_count(w) == 1)
        return dyno_fail(DYNO_INVALID,
                         "--ranks: %lld ranks are wanted and this process is alone; the command "
                         "line starts them, so do dyno_ranks_start and mpirun -np %lld",
                         (long long)ranks, (long long)ranks);
    return dyno_fail(DYNO_INVALID, "--ranks: %lld ranks are wanted, %d were started",
                     (long long)ranks, world_count(w));
}

dyno_status ranks_agree_to_go_on(world *w, dyno_status status) {
    int mine = status == DYNO_INTERRUPTED;
    int *all = memory_allocate((size_t)world_count(w), sizeof *all);
    dyno_status exchanged = world_exchange(w, &mine, all, sizeof mine);
    bool stops = all[0] != 0;
    free(all);
    RETURN_IF_FAILED(exchanged);
    if (stops && status == DYNO_OK)
        return dyno_fail(DYNO_INTERRUPTED, "rank 0 was interrupted");
    return status;
}
