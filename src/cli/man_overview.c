#include "cli/man_overview.h"

#include "base/roff.h"
#include "cli/cli.h"

typedef struct man_entry {
    const char *name, *meaning;
} man_entry;

static const man_entry EXIT_CODES[] = {
    {"0", "It was done."},
    {"1", "It failed: a file, the memory or the device; or dyno compare found something worse."},
    {"2", "It was misused: a flag, a value or a file of settings is wrong, and nothing was run."},
    {"130, 143", "It was interrupted by Ctrl-C or a signal, 128 and the signal's number. What was "
                 "finished by then is kept."},
};

static const man_entry VARIABLES[] = {
    {"DYNO_DEVICE", "The device where --device is auto or not given: cpu, cuda or cuda:N."},
    {"DYNO_CUDA_MODULE", "The file of the CUDA module, instead of libdyno_cuda.so beside dyno."},
    {"DYNO_MPI_MODULE", "The file of the MPI module, instead of libdyno_mpi.so beside dyno."},
    {"DYNO_HOST",
     "The name of this host among those of a job, where the system's own does not tell "
     "it apart."},
    {"DYNO_CUDA_PDL", "0 switches programmatic dependent launch off."},
    {"CUDA_VISIBLE_DEVICES", "The GPUs that CUDA shows, and their order."},
    {"CUDA_HOME", "Where dyno doctor looks for the CUDA toolkit."},
    {"CC", "The compiler of generated kernels; otherwise cc, gcc or clang of PATH."},
    {"PATH", "Where that compiler is looked for, and what dyno doctor lists."},
    {"XDG_CACHE_HOME, HOME", "Where the cache is, see FILES."},
    {"TMPDIR", "Where temporary files are made; otherwise /tmp."},
    {"NO_COLOR", "If it is not empty, nothing is printed in bold."},
    {"COLUMNS", "The width of the terminal, where it does not say so itself."},
    {"NVTX_INJECTION64_PATH",
     "The profiler's library that gets the ranges of --nvtx; nsys sets it."},
    {"OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID, SLURM_STEP_ID",
     "With their like, which rank of how many this process is; mpirun and srun set them."},
    {"DYNO_FAIL_ALLOCATION", "For tests: the allocation that fails, or count."},
};

static const man_entry FILES[] = {
    {"DIR/run.json", "What a verb that measures records with --out DIR; dyno show prints it."},
    {"DIR/suite.json", "What became of the parts of a study of dyno suite."},
    {"DIR/report.html", "The page of dyno report DIR."},
    {"$XDG_CACHE_HOME/dyno, ~/.cache/dyno",
     "Compiled kernels and what tuning found best. It may be removed."},
};

static void append_entries(text *out, const char *heading, const man_entry *entries, size_t count) {
    text_format(out, ".SH %s\n", heading);
    for (size_t i = 0; i < count; i++) {
        text_append(out, ".TP\n.B ");
        text_append_roff(out, entries[i].name);
        text_append(out, "\n");
        text_append_roff(out, entries[i].meaning);
        text_append(out, "\n");
    }
}
#define APPEND_ENTRIES(out, heading, table)                                                        \
    append_entries(out, heading, table, sizeof(table) / sizeof *(table))

static void append_verbs(text *out) {
    text_append(out, ".SH VERBS\n");
    for (int i = 0; i < CLI_VERB_COUNT; i++) {
        if (CLI_VERBS[i].question) {
            text_append(out, ".SS ");
            text_append_roff(out, CLI_VERBS[i].question);
            text_append(out, "\n");
        }
        text_format(out, ".TP\n.BR dyno\\-%s (1)\n", CLI_VERBS[i].name);
        text_append_roff(out, CLI_VERBS[i].summary);
        text_append(out, "\n");
    }
}

static void append_references(text *out) {
    text_append(out, ".SH SEE ALSO\n");
    for (int i = 0; i < CLI_VERB_COUNT; i++)
        text_format(out, ".BR dyno\\-%s (1)%s\n", CLI_VERBS[i].name,
                    i + 1 < CLI_VERB_COUNT ? "," : "");
}

void man_append_overview(text *out) {
    text_format(out, ".TH DYNO 1 \"\" \"dyno %s\" \"dyno\"\n.ad l\n.nh\n.SH NAME\n",
                dyno_version());
    text_append(out, "dyno \\- builds, plans, trains and measures decoder\\-only Transformers\n"
                     ".SH SYNOPSIS\n.B dyno\n.I VERB\n[flags]\n.br\n.B dyno \\-\\-help\n.br\n"
                     ".B dyno \\-\\-version\n.SH DESCRIPTION\n");
    text_append_roff(out,
                     "A training step is compiled to a plan of launches, of which time, bytes and "
                     "FLOPs are known before it is run, and measured when it is. Each verb "
                     "answers a question; ");
    text_append(out, "\n.B dyno\n.I VERB\n.B \\-\\-help\nand its page explain it with examples. "
                     "Start with\n.BR \"dyno doctor\" .\n");
    append_verbs(out);
    APPEND_ENTRIES(out, "EXIT STATUS", EXIT_CODES);
    APPEND_ENTRIES(out, "ENVIRONMENT", VARIABLES);
    APPEND_ENTRIES(out, "FILES", FILES);
    append_references(out);
}
