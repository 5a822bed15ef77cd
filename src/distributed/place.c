/* place.c - which rank of how many this process is, as its environment says.
 *
 * Each starter sets variables of its own. Those of dyno's launcher come first, because a job of
 * `dyno --ranks` may itself run inside a job of mpirun or srun. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/launch.h"
#include "distributed/world.h"

typedef struct starter_names {
    world_starter starter;
    const char *count, *rank, *host_rank, *host_count;
} starter_names;

static const starter_names STARTERS[] = {
    {WORLD_DYNO, LAUNCH_COUNT_VARIABLE, LAUNCH_RANK_VARIABLE, LAUNCH_RANK_VARIABLE,
     LAUNCH_COUNT_VARIABLE},
    {WORLD_MPI, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    /* MPICH and Intel MPI. */
    {WORLD_MPI, "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    /* srun, with or without PMIx: a job step of one task is a program of its own. */
    {WORLD_MPI, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", NULL},
};
enum { STARTER_COUNT = sizeof STARTERS / sizeof *STARTERS };

static dyno_status read_number(const char *name, int most, int *out) {
    const char *text = getenv(name);
    char *end = NULL;
    errno = 0;
    long value = text ? strtol(text, &end, 10) : -1;
    if (!text || !*text || *end || errno || value < 0 || value > most)
        return dyno_fail(DYNO_INVALID,
                         "the environment's %s is '%s', which is no number from 0 to %d; start "
                         "ranks with mpirun, srun or --ranks, or unset it",
                         name, text ? text : "", most);
    *out = (int)value;
    return DYNO_OK;
}

/* Where the starter does not say it, it is learned from the hosts of the other ranks. */
static int read_optional(const char *name) {
    int value;
    if (!name || !getenv(name) || read_number(name, WORLD_MOST_RANKS, &value) != DYNO_OK)
        return -1;
    return value;
}

/* sbatch alone sets Slurm's variables as well, for its script and all that it starts: only tasks of
 * srun, which have a number in a step, are ranks. */
static bool is_there(const starter_names *names) {
    if (!getenv(names->count) || !getenv(names->rank))
        return false;
    const char *step = getenv("SLURM_STEP_ID");
    return strcmp(names->rank, "SLURM_PROCID") != 0 || (step && strcmp(step, "4294967291") != 0);
}

dyno_status world_find_place(world_place *out) {
    *out = (world_place){.count = 1, .host_rank = 0, .host_count = 1};
    for (int i = 0; i < STARTER_COUNT; i++) {
        const starter_names *names = &STARTERS[i];
        if (!is_there(names))
            continue;
        world_place found = {.starter = names->starter, .evidence = names->count};
        RETURN_IF_FAILED(read_number(names->count, WORLD_MOST_RANKS, &found.count));
        RETURN_IF_FAILED(read_number(names->rank, WORLD_MOST_RANKS, &found.rank));
        if (found.rank >= found.count)
            return dyno_fail(DYNO_INVALID,
                             "the environment's %s is %d and %s is %d: a rank is below the number "
                             "of ranks",
                             names->rank, found.rank, names->count, found.count);
        found.host_rank = read_optional(names->host_rank);
        found.host_count = read_optional(names->host_count);
        /* One rank of mpirun, or of srun, is a program like any other. */
        if (found.count > 1 || found.starter == WORLD_DYNO)
            *out = found;
        return DYNO_OK;
    }
    return DYNO_OK;
}
