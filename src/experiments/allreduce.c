/* allreduce.c - `dyno allreduce`: collectives alone, over sizes, numbers of ranks and transports.
 *
 * All ranks run the same program. For each number of ranks the first so many of the job take part; the
 * others wait for the next. A cell is a point of the grid. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "experiments/allreduce_row.h"
#include "experiments/ranks.h"
#include "experiments/shared_flags.h"
#include "measure/environment.h"
#include "measure/keys.h"

#define LIBRARY_TRANSPORT "mpi-library"

static const flag_spec FLAGS[] = {
    {"bytes", "LIST", FLAG_TEXT_LIST, "1MB,10MB,100MB",
     .help = "sizes of the larger operand, as 1MB (a million) or 1MiB"},
    {"ranks", "LIST", FLAG_INTEGER_LIST, NULL,
     .help = "numbers of ranks; the most of them are started on this host, unless mpirun or srun "
             "has started them. Default: 2, or as many as were started",
     .minimum = 1, .maximum = WORLD_MOST_RANKS},
    {"dtype", "LIST", FLAG_CHOICE_LIST, "fp32", .help = "types; sums are always taken in fp32",
     .choices = "fp32|bf16|fp16"},
    {"transport", "LIST", FLAG_CHOICE_LIST, "shared",
     .help = "shared: memory of one host; mpi: between hosts, shared inside; nccl: between GPUs; "
             "mpi-library: MPI's own collectives, to compare with",
     .choices = "shared|mpi|nccl|" LIBRARY_TRANSPORT},
    {"op", "LIST", FLAG_CHOICE_LIST, "all-reduce", .help = "collectives",
     .choices = "all-reduce|reduce-scatter|all-gather|broadcast"},
    {"operands", "LIST", FLAG_CHOICE_LIST, "shared",
     .help = "of shared and mpi: shared: they lie in memory that ranks share and are not copied; "
             "private: in ordinary memory, copied through shared memory in parts",
     .choices = "shared|private"},
    {"warmup", NULL, FLAG_INTEGER, "2", .help = "untimed repetitions before the timed ones",
     .minimum = 0, .maximum = 1000000},
    {"reps", "N", FLAG_INTEGER, NULL,
     .help = "timed repetitions; default: as many as fit --seconds, 3 to 100", .minimum = 1,
     .maximum = 1000000},
    {"seconds", "S", FLAG_REAL, "2", .help = "time for a row, when --reps is not given",
     .real_minimum = 0.001, .real_maximum = 1e6},
    {"threads", NULL, FLAG_INTEGER, "0",
     .help = "threads of each rank; 0 divides the cores among the ranks that take part",
     .minimum = 0, .maximum = 4096},
    TIMEOUT_FLAG,
};

static const flags_example EXAMPLES[] = {
    {"allreduce --ranks 2,4 --bytes 1MB,10MB", "all-reduce in shared memory, two sizes"},
    {"allreduce --bytes 1MB,10MB,100MB,1GB --ranks 2,4,6 --out runs/allreduce",
     "the table of the classic write-up, kept for `dyno show runs/allreduce`"},
    {"allreduce --op reduce-scatter,all-gather --dtype bf16 --operands shared,private --bytes 4MiB",
     "what FSDP does, in memory that ranks share and in ordinary memory"},
    {"allreduce --transport nccl --ranks 8 --bytes 1GiB", "eight GPUs of this host"},
};

static const flags_rule RULES[] = {
    {"seconds", "reps",
     "decides how many repetitions there are, and so does --reps; give one of them"},
};

static const flags_verb VERB = {
    .name = RUN_ALLREDUCE,
    .summary =
        "Times collectives alone, over the grid of --ranks x --op x --dtype x --bytes x "
        "--transport "
        "x --operands; transports take turns, so that they meet the same machine. Starts the ranks "
        "as processes of this host; `mpirun -np N dyno allreduce` and `srun` start them elsewhere. "
        "The columns are those of nccl-tests: time is the slowest rank's, #wrong is counted in a "
        "run before the timed ones and in one after. Under the table: how time grows with bytes "
        "and with ranks. Ctrl-C ends with what was measured so far, marked incomplete.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
    FLAGS_RULES(RULES),
};

typedef struct allreduce_sweep {
    const flags *given;
    const experiment_context *context;
    results *run;
    world *world;
    int64_t *bytes;
    int byte_count;
    int64_t *ranks;
    int rank_count;
    device *gpu;
    char why_no_gpu[512];
} allreduce_sweep;

static const struct {
    const char *name;
    dtype type;
} TYPES[] = {{"fp32", DTYPE_F32}, {"bf16", DTYPE_BF16}, {"fp16", DTYPE_F16}};

static dtype find_type(const char *name) {
    int i = 0;
    while (strcmp(TYPES[i].name, name) != 0)
        i++;
    return TYPES[i].type;
}

/* ---- settings ---- */

static dyno_status parse_bytes(allreduce_sweep *s) {
    const int64_t most = (int64_t)1 << 44;
    const char *const *given = flags_text_list(s->given, "bytes", &s->byte_count);
    s->bytes = memory_allocate((size_t)s->byte_count, sizeof *s->bytes);
    for (int i = 0; i < s->byte_count; i++) {
        dyno_status status = units_parse_bytes(given[i], &s->bytes[i]);
        if (status != DYNO_OK)
            return dyno_fail_within(status, "--bytes");
        if (s->bytes[i] < 4 || s->bytes[i] > most)
            return dyno_fail(DYNO_INVALID, "--bytes: %s is %lld bytes, it must be 4 to %lld",
                             given[i], (long long)s->bytes[i], (long long)most);
    }
    return DYNO_OK;
}

static void choose_ranks(allreduce_sweep *s) {
    const int64_t *given = flags_list(s->given, "ranks", &s->rank_count);
    bool is_open = s->rank_count == 0;
    s->rank_count = is_open ? 1 : s->rank_count;
    s->ranks = memory_allocate((size_t)s->rank_count, sizeof *s->ranks);
    for (int i = 0; i < s->rank_count; i++)
        s->ranks[i] = is_open ? world_count(s->world) : given[i];
}

static int64_t count_cells(const allreduce_sweep *s) {
    int64_t cells = (int64_t)s->byte_count * s->rank_count;
    static const char *const lists[] = {"dtype", "op"};
    for (int i = 0; i < 2; i++)
        cells *= flags_list_length(s->given, lists[i]);
    int ways = 0, transports;
    const char *const *names = flags_text_list(s->given, "transport", &transports);
    for (int t = 0; t < transports; t++) {
        bool has_operands = strcmp(names[t], "shared") == 0 || strcmp(names[t], "mpi") == 0;
        ways += has_operands ? flags_list_length(s->given, "operands") : 1;
    }
    return cells * ways;
}

/* ---- transports ---- */

/* NCCL needs a GPU of every rank: each opens its own, and all learn whether one could not. */
static dyno_status open_gpu(allreduce_sweep *s) {
    if (s->gpu || s->why_no_gpu[0])
        return DYNO_OK;
    dyno_status status = world_agree(s->world, device_open("cuda", &s->gpu));
    if (status == DYNO_RANK_FAILED)
        return status;
    if (status != DYNO_OK)
        snprintf(s->why_no_gpu, sizeof s->why_no_gpu, "%s", dyno_error_message());
    return DYNO_OK;
}

/* What is missing becomes the cells' reason; what ends a rank ends the run. */
static dyno_status note_missing(allreduce_way *way, dyno_status status) {
    if (status != DYNO_UNSUPPORTED && status != DYNO_OUT_OF_MEMORY && status != DYNO_DEVICE_FAILED)
        return status;
    snprintf(way->why_not, sizeof way->why_not, "%s", dyno_error_message());
    return DYNO_OK;
}

static dyno_status find_library(const allreduce_sweep *s, allreduce_way *way) {
    if (!world_mpi(s->world)) {
        snprintf(way->why_not, sizeof way->why_not,
                 "MPI's own collectives are for ranks that mpirun or srun has started");
        return DYNO_OK;
    }
    return note_missing(way, mpi_module_load(&way->library));
}

static dyno_status make_communicator(allreduce_sweep *s, int ranks, allreduce_way *way) {
    communicator_options options = {.ranks = ranks,
                                    .threads = (int)flags_integer(s->given, "threads")};
    communicator_kind_parse(way->transport, &options.kind);
    if (options.kind == COMMUNICATOR_NCCL) {
        RETURN_IF_FAILED(open_gpu(s));
        if (s->why_no_gpu[0]) {
            snprintf(way->why_not, sizeof way->why_not, "%s", s->why_no_gpu);
            return DYNO_OK;
        }
        way->device = s->gpu;
        way->is_in_shared_memory = true;
    }
    if (options.kind == COMMUNICATOR_MPI && !world_mpi(s->world)) {
        snprintf(way->why_not, sizeof way->why_not,
                 "mpi is for ranks that mpirun or srun has started: mpirun -np %d dyno allreduce",
                 ranks);
        return DYNO_OK;
    }
    return note_missing(
        way, device_create_communicator(way->device, s->world, &options, &way->communicator));
}

static dyno_status add_way(allreduce_sweep *s, allreduce_group *group, const char *transport,
                           const char *operands) {
    allreduce_way *way = &group->ways[group->way_count++];
    *way = (allreduce_way){.transport = transport,
                           .is_in_shared_memory = strcmp(operands, "shared") == 0};
    if (strcmp(transport, LIBRARY_TRANSPORT) == 0)
        return find_library(s, way);
    return make_communicator(s, group->ranks, way);
}

static dyno_status add_ways(allreduce_sweep *s, allreduce_group *group) {
    int transport_count, operand_count;
    const char *const *transports = flags_text_list(s->given, "transport", &transport_count);
    const char *const *operands = flags_text_list(s->given, "operands", &operand_count);
    for (int t = 0; t < transport_count; t++) {
        bool is_open = strcmp(transports[t], "shared") == 0 || strcmp(transports[t], "mpi") == 0;
        for (int o = 0; o < (is_open ? operand_count : 1); o++)
            RETURN_IF_FAILED(add_way(s, group, transports[t], is_open ? operands[o] : "private"));
    }
    return DYNO_OK;
}

static void release_group(allreduce_group *group) {
    for (int i = 0; i < group->way_count; i++)
        communicator_destroy(group->ways[i].communicator);
    communicator_destroy(group->control);
}

/* ---- the grid ---- */

static void show_progress(const allreduce_sweep *s, const allreduce_group *group,
                          const allreduce_row *row) {
    char label[128];
    snprintf(label, sizeof label, "%s of %s, %d ranks", collective_op_name(row->op),
             units_bytes(row->bytes).text, group->ranks);
    char doing[WORLD_PHASE_BYTES];
    snprintf(doing, sizeof doing, "timing %s on %d ranks", units_bytes(row->bytes).text,
             group->ranks);
    world_set_phase(s->world, doing);
    experiment_progress(s->context, (double)s->run->cell_count, (double)s->run->planned_cells,
                        label);
}

static dyno_status run_row(allreduce_sweep *s, const allreduce_group *group, collective_op which,
                           const char *type, int64_t bytes) {
    bool has_reps = flags_is_set(s->given, "reps");
    int64_t reps = has_reps ? flags_integer(s->given, "reps") : 0;
    allreduce_row row = {.op = which,
                         .type = find_type(type),
                         .type_name = type,
                         .bytes = bytes,
                         .warmup = flags_integer(s->given, "warmup"),
                         .least_reps = has_reps ? reps : 3,
                         .most_reps = has_reps ? reps : 100,
                         .seconds = flags_real(s->given, "seconds")};
    if (group->control)
        show_progress(s, group, &row);
    RETURN_IF_FAILED(allreduce_row_run(group, &row, s->context, s->run));
    if (group->control)
        experiment_keep_cell(s->context);
    return DYNO_OK;
}

static dyno_status run_rows(allreduce_sweep *s, const allreduce_group *group) {
    int op_count, type_count;
    const char *const *ops = flags_text_list(s->given, "op", &op_count);
    const char *const *types = flags_text_list(s->given, "dtype", &type_count);
    for (int o = 0; o < op_count; o++)
        for (int t = 0; t < type_count; t++)
            for (int b = 0; b < s->byte_count; b++) {
                collective_op which;
                collective_op_parse(ops[o], &which);
                RETURN_IF_FAILED(run_row(s, group, which, types[t], s->bytes[b]));
            }
    return DYNO_OK;
}

static dyno_status run_group(allreduce_sweep *s, int ranks) {
    allreduce_group group = {.world = s->world, .ranks = ranks};
    communicator_options options = {.kind = world_hosts(s->world) > 1 ? COMMUNICATOR_MPI
                                                                      : COMMUNICATOR_SHARED,
                                    .ranks = ranks,
                                    .threads = 1};
    world_bind_cores(s->world, ranks);
    dyno_status status = communicator_create(s->world, &options, &group.control);
    if (status == DYNO_OK)
        status = add_ways(s, &group);
    if (status == DYNO_OK)
        status = run_rows(s, &group);
    release_group(&group);
    return status;
}

static dyno_status run_grid(allreduce_sweep *s) {
    dyno_status status = DYNO_OK;
    for (int i = 0; i < s->rank_count && status == DYNO_OK; i++) {
        world_set_phase(s->world, "start-up");
        status = run_group(s, (int)s->ranks[i]);
        /* Those who take no part learn that rank 0 was asked to stop. */
        if (status == DYNO_OK || status == DYNO_INTERRUPTED)
            status = ranks_agree_to_go_on(s->world, status);
    }
    return status;
}

static dyno_status run_sweep(allreduce_sweep *s) {
    RETURN_IF_FAILED(
        ranks_open(s->given, &s->world)); /* first, so that one rank reports the rest */
    RETURN_IF_FAILED(parse_bytes(s));
    RETURN_IF_FAILED(threads_check((int)flags_integer(s->given, "threads")));
    choose_ranks(s);
    for (int i = 0; i < s->rank_count; i++)
        RETURN_IF_FAILED(ranks_check_count(s->world, s->ranks[i]));
    threads_set_count((int)flags_integer(s->given, "threads"));
    RETURN_IF_FAILED(experiment_start(s->context));
    environment_capture(s->run);
    s->run->planned_cells = count_cells(s);
    return run_grid(s);
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    allreduce_sweep s = {.given = given, .context = context, .run = out->run};
    dyno_status status = run_sweep(&s);
    device_close(s.gpu);
    free(s.bytes);
    free(s.ranks);
    return status;
}

const experiment experiment_allreduce = {
    .settings = &VERB,
    .out_help = "directory for run.json, with what every rank measured",
    .run = run};
