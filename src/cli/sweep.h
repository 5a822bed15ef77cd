/* sweep.h - what the verbs that measure a grid of cells have in common: their flags, how the run
 * begins and ends, and what becomes of a cell. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include "base/flags.h"
#include "compiler/passes/precision.h"
#include "measure/contention.h"
#include "measure/machine.h"
#include "measure/results.h"
#include "plan/memory_account.h"
#include "report/table.h"
#include "runtime/cuda/module.h"
#include "runtime/device_tiles.h"
#include "runtime/memory_pool.h"

/* "cpu" or "auto" where the user leaves it open. */
#define DEVICE_FLAG(fallback)                                                                      \
    {                                                                                              \
        "device", "NAME", FLAG_TEXT, fallback,                                                     \
            .help = "cpu, cuda, cuda:N, or auto: $DYNO_DEVICE, else a GPU if there is one"         \
    }

/* To be put into a verb's flag table. */
#define SWEEP_FLAGS                                                                                \
    DEVICE_FLAG("auto"), {"threads",                                                               \
                          NULL,                                                                    \
                          FLAG_INTEGER,                                                            \
                          "0",                                                                     \
                          .help = "threads; 0 takes every core there is",                          \
                          .minimum = 0,                                                            \
                          .maximum = 4096},                                                        \
        {"memory", "SIZE", FLAG_BYTES, NULL,                                                       \
         .help = "what a cell may use; default: what the device has free"},                        \
        {"out", "DIR", FLAG_TEXT, NULL, .help = "keeps every sample in DIR/run.json"}, {           \
        "format", NULL, FLAG_CHOICE, "table", .help = "how to print",                              \
                                              .choices = TABLE_FORMAT_CHOICES                      \
    }

typedef struct sweep {
    const flags *given;
    table_format format;
    device *device;      /* from sweep_prepare to sweep_finish */
    device_tiles *tiles; /* likewise */
    int64_t memory_limit;
    results *run;        /* from sweep_start to sweep_finish */
    machine_peaks peaks; /* of a GPU: rates of products in fp32, of copies */
    cuda_rates rates;    /* of a GPU */
    machine_peak bf16;   /* of a CPU, if a row is in bf16 */
} sweep;

/* Takes up SWEEP_FLAGS: sets the number of threads, makes the output directory and opens the
 * device, so that what is wrong with them is said before anything is measured. From here on Ctrl-C
 * only asks. */
NODISCARD dyno_status sweep_prepare(sweep *s, const flags *given);

/* Starts the record, with the machine and its peaks in it. On
 * failure, too, sweep_finish is to be called. */
NODISCARD dyno_status sweep_start(sweep *s, int argc, char **argv);

/* `status` is that of the sweep. Whole or interrupted, it is printed and kept; the record goes.
 * Returns `status`, or what went wrong here. */
NODISCARD dyno_status sweep_finish(sweep *s, dyno_status status);

/* Rate of large products in this precision on a GPU; on a CPU what products of bf16 can reach where
 * the CPU has such, else fp32, which all others are converted to. */
double sweep_peak_gflops(const sweep *s, precision math);

/* Around what times the cell: on a CPU, whether others were busy meanwhile goes into its metrics.
 */
contention_watch *sweep_watch(const sweep *s);
void sweep_watched(contention_watch *watch, results_cell *cell);

/* The parameters device and, of a CPU, threads; of a GPU the peak for this precision. */
void sweep_describe_device(const sweep *s, precision math, results_cell *cell);

/* What the plan knows of a cell before it is run. */
void sweep_record_plan(results_cell *cell, const plan *p, const memory_account *account);

/* What the cell took of the pool and of the process, since pool and peak were reset; on a GPU also
 * what is in use there. */
NODISCARD dyno_status sweep_record_memory(const sweep *s, results_cell *cell,
                                          const memory_pool *pool);

/* False, and the cell is OOM with what it needs, when it does not fit. */
bool sweep_admit(const sweep *s, results_cell *cell, const memory_account *account);

/* The cell's status from that of its measurement. Returns what ends the sweep: an interruption,
 * else DYNO_OK. */
NODISCARD dyno_status sweep_settle(results_cell *cell, dyno_status status);

#endif
