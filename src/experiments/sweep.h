/* sweep.h - what the experiments that measure a grid of cells have in common: their flags, how the
 * run begins and ends, and what becomes of a cell. */
#ifndef EXPERIMENTS_SWEEP_H
#define EXPERIMENTS_SWEEP_H

#include "experiments/experiment.h"
#include "experiments/shared_flags.h"
#include "measure/contention.h"
#include "measure/machine.h"
#include "measure/timing.h"
#include "model/model_flops.h"
#include "plan/memory_account.h"
#include "runtime/autotune.h"
#include "runtime/cuda/module.h"
#include "runtime/memory_pool.h"

/* To be put into an experiment's flag table. */
#define SWEEP_FLAGS                                                                                \
    DEVICE_FLAG("auto"), TARGET_FLAG, THREADS_FLAG,                                                \
        {"memory", "SIZE", FLAG_BYTES, NULL,                                                       \
         .help = "what a cell may use; default: what the device has free"},                        \
    {                                                                                              \
        "peaks", NULL, FLAG_CHOICE, "measure",                                                     \
            .help = "measure: the device's rates at best, which takes about a second, for MFU, "   \
                    "HFU, floors and estimates; none: these are left out",                         \
            .choices = "measure|none"                                                              \
    }

typedef struct sweep {
    const flags *given;
    const experiment_context *context;
    results *run;
    device *device;  /* from sweep_prepare to sweep_finish */
    autotune *tuned; /* likewise */
    int64_t memory_limit;
    bool has_peaks;      /* the next three were measured: not with --peaks none */
    machine_peaks peaks; /* of a GPU: rates of products in fp32, of copies */
    cuda_rates rates;    /* of a GPU */
    machine_peak bf16;   /* of a CPU, if a row is in bf16 */

    /* What is told of progress: work in all, before the cell being measured, and of one step of
     * that. */
    double work_total, work_done, step_work;
    char label[512];
    int64_t planning_since_ns, planning_shown_ns; /* 0: not yet */
} sweep;

/* Takes up SWEEP_FLAGS: sets the number of threads, tells the caller that the work starts and
 * opens the device, so that what is wrong with them is said before anything is measured. */
NODISCARD dyno_status sweep_prepare(sweep *s, const flags *given, const experiment_context *context,
                                    results *run);

/* Puts the machine and, unless --peaks is none, its peaks into the record. On failure, too,
 * sweep_finish is to be called. */
NODISCARD dyno_status sweep_start(sweep *s);

/* Closes the device. `status` is that of the sweep; the record of a whole one is completed first.
 * Returns `status`. */
NODISCARD dyno_status sweep_finish(sweep *s, dyno_status status);

/* Closes the device and nothing else: for a sweep that was only prepared. */
void sweep_close(sweep *s);

/* Whether the caller wants no more. `sweep` is one, for those who know only a pointer. */
bool sweep_should_stop(void *sweep);
/* Says how many cells are planned, where planning takes long, and how many there are in all. */
void sweep_show_planning(sweep *s, int64_t cells_done);
/* How long a step takes if each launch is as fast as arithmetic and memory allow. Without measured
 * peaks no time but a weight: rates are assumed, and only its proportion to others means something. */
double sweep_predict_seconds(const sweep *s, const plan *p, precision math);
/* Tells the caller how many cells there are and, where peaks were measured, how long they take at that
 * rate, and if that is long what would shorten it (NULL: nothing). */
void sweep_tell_estimate(const sweep *s, double seconds, const char *way_out);
/* Says how far the sweep is, so many steps into a cell. */
void sweep_show_progress(void *sweep, int64_t steps_done);
/* Timing that asks the one and tells the other. */
timing_options sweep_timing(sweep *s);

/* Rate of large products in this precision on a GPU; on a CPU what products of bf16 can reach where
 * the CPU has such, else fp32, which all others are converted to. 0: not measured. */
double sweep_peak_gflops(const sweep *s, precision math);

/* Around what times the cell: on a CPU, whether others were busy meanwhile goes into its metrics.
 */
contention_watch *sweep_watch(const sweep *s);
void sweep_watched(contention_watch *watch, results_cell *cell);

/* The parameters device and, of a CPU, threads; of a GPU the peak for this precision, if measured. */
void sweep_describe_device(const sweep *s, precision math, results_cell *cell);

/* What the plan knows of a cell before it is run. */
void sweep_record_plan(results_cell *cell, const plan *p, const memory_account *account);

/* The model's own arithmetic, whichever way a step of this extent is run: what MFU counts. */
void sweep_record_model_flops(results_cell *cell, model_flops flops, step_extent extent);

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
