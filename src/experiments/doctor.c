/* doctor.c - `dyno doctor`: the machine, what it can do at best, and what is missing.
 *
 * A cell of the record is one thing that is known: the part it is of, the item, its value and a
 * note. */
#include <stdio.h>
#include <string.h>

#include "base/isa.h"
#include "base/system_memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "distributed/mpi_module.h"
#include "experiments/experiment.h"
#include "measure/contention.h"
#include "measure/environment.h"
#include "measure/gpu.h"
#include "measure/keys.h"
#include "measure/machine.h"
#include "measure/optional.h"
#include "ops/levels.h"

static const flag_spec FLAGS[] = {
    {"threads", "NUMBER", FLAG_INTEGER, "0",
     .help = "peaks are of one thread and of so many; 0: one for each core available", .minimum = 0,
     .maximum = 4096},
};

static const flags_example EXAMPLES[] = {
    {"doctor", "is this machine ready, and how fast can it be?"},
    {"doctor --threads 4", "peaks with one thread and with four"},
    {"doctor --format md", "a table to paste beside published numbers"},
};

static const flags_verb VERB = {
    .name = "doctor",
    .summary =
        "Shows the CPU and memory, which instruction sets can be used and why not, the "
        "peaks that every \"% of peak\" is measured against, each GPU with what it measures, "
        "the optional libraries: where each was found, or what is off without it, and how ranks "
        "can exchange tensors. "
        "Takes a few seconds, most of them measuring; run it on an idle machine.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

static results_cell *add_item(results *run, const char *part, const char *item, const char *note) {
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, PARAM_PART, part);
    cell_set_text(cell, PARAM_ITEM, item);
    cell_set_text(cell, PARAM_NOTE, note);
    cell_set_status(cell, RESULTS_OK, NULL);
    return cell;
}

static void add_text(results *run, const char *part, const char *item, const char *value,
                     const char *note) {
    cell_set_text(add_item(run, part, item, note), PARAM_VALUE, value);
}

static void add_integer(results *run, const char *part, const char *item, int64_t value,
                        const char *note) {
    cell_set_integer(add_item(run, part, item, note), PARAM_VALUE, value);
}

static void add_real(results *run, const char *part, const char *item, double value,
                     const char *note) {
    cell_set_real(add_item(run, part, item, note), PARAM_VALUE, value);
}

static void add_governor(results *run) {
    char governor[64];
    environment_read_governor(governor, sizeof governor);
    add_text(run, "cpu", "frequency governor", governor,
             strcmp(governor, "none visible") == 0 ? "as in most virtual machines"
             : strcmp(governor, "powersave") == 0 ? "the clock may take a while to rise; times are "
                                                    "steadier with \"performance\""
                                                  : "");
}

static void add_cpu(results *run) {
    environment_cpu cpu = environment_read_cpu();
    char note[128];
    add_text(run, "cpu", "model", cpu.info.model, "");
    add_text(run, "cpu", "architecture", isa_this_architecture(), "");
    snprintf(note, sizeof note, "to this process; the machine has %d, with %d hardware threads",
             cpu.info.physical_cores, cpu.logical_cores);
    add_integer(run, "cpu", "cores available", cpu.available_cores, note);
    if (cpu.info.l2_bytes) {
        add_real(run, "cpu", "L1 data KiB", (double)cpu.info.l1_data_bytes / 0x1p10,
                 "each, as there can be several of a cache");
        add_real(run, "cpu", "L2 KiB", (double)cpu.info.l2_bytes / 0x1p10, "each");
        add_real(run, "cpu", "L3 MiB", (double)cpu.info.l3_bytes / 0x1p20, "each");
    }
    add_governor(run);
    for (isa which = 0; which < ISA_COUNT; which++) {
        if (!isa_is_of_this_architecture(which))
            continue;
        isa_answer answer = isa_check(which);
        add_text(run, "instructions", isa_name(which), answer.is_usable ? "usable" : "no",
                 answer.why_not);
    }
    const target *here = target_this_cpu();
    add_text(run, "instructions", "kernels", level_name(here),
             "what the CPU's kernels are compiled for; --target takes less");
    add_text(run, "instructions", "generated kernels", level_of_generated(here),
             "what those of compiled mode are compiled for (-march)");
}

static void add_memory(results *run) {
    system_memory memory = system_memory_read();
    add_real(run, "memory", "total GiB", (double)memory.total_bytes / 0x1p30, "");
    add_real(run, "memory", "available GiB", (double)memory.available_bytes / 0x1p30,
             "of that, not in use now");
}

NODISCARD static dyno_status add_peaks(results *run, int threads) {
    machine_peaks peaks;
    char item[64], by[64];
    RETURN_IF_FAILED(machine_peaks_get(target_this_cpu(), threads, &peaks));
    machine_peak bf16 = machine_measure_peak_bf16(target_this_cpu(), threads);
    snprintf(by, sizeof by, "%s in registers", bf16.by ? bf16.by : "");
    const struct {
        const char *name, *note;
        double value;
    } rows[] = {{"fp32 GFLOP/s", "FMAs in registers, an FMA being 2 FLOP", peaks.gflops_f32},
                {"bf16 GFLOP/s", by, bf16.gflops},
                {"read GB/s", "s += a[i], n bytes", peaks.bandwidth.read},
                {"copy GB/s", "b[i] = a[i], 2 n bytes", peaks.bandwidth.copy},
                {"triad GB/s", "a[i] = b[i] + k c[i], 3 n bytes", peaks.bandwidth.triad}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].value <= 0)
            continue; /* the instructions above say why */
        snprintf(item, sizeof item, "%s, %d thread%s", rows[i].name, threads,
                 threads == 1 ? "" : "s");
        add_real(run, "peak", item, rows[i].value, rows[i].note);
    }
    return DYNO_OK;
}

/* The last of them also says whether others were busy meanwhile. */
NODISCARD static dyno_status add_all_peaks(results *run, int threads) {
    results_set_environment_integer(run, ENV_CORES_AVAILABLE, threads_available());
    results_set_environment_integer(run, ENV_THREADS, threads);
    contention_watch *watch = contention_begin("/proc");
    dyno_status status = add_peaks(run, 1);
    if (status == DYNO_OK && threads > 1)
        status = add_peaks(run, threads);
    contention meanwhile = contention_end(watch);
    contention_record(&meanwhile, run->cells[run->cell_count - 1]);
    return status;
}

static void add_version(results *run, const char *part, const char *item, int number) {
    char version[32];
    snprintf(version, sizeof version, "%d.%d", number / 1000, number % 1000 / 10);
    add_text(run, part, item, version, "");
}

static void add_gpu_facts(results *run, const char *part, const cuda_device_info *info) {
    char capability[32];
    snprintf(capability, sizeof capability, "%d.%d", info->major, info->minor);
    add_text(run, part, "model", info->name, "");
    add_text(run, part, "compute capability", capability, "");
    add_version(run, part, "CUDA of the driver", info->driver_version);
    add_version(run, part, "CUDA of the module", info->runtime_version);
    add_real(run, part, "memory GiB", (double)info->memory_bytes / 0x1p30, "");
    add_real(run, part, "free memory GiB", (double)info->free_bytes / 0x1p30, "");
    add_integer(run, part, "multiprocessors", info->multiprocessors, "");
    add_integer(run, part, "clock MHz", info->clock_mhz, "at most");
    add_integer(run, part, "memory clock MHz", info->memory_clock_mhz, "at most");
    add_real(run, part, "L2 MiB", (double)info->l2_bytes / 0x1p20, "");
}

static dyno_status add_gpu_rates(results *run, const cuda_module *module, int ordinal,
                                 const char *part) {
    device *d;
    RETURN_IF_FAILED(module->open(ordinal, &d));
    cuda_rates rates = {0};
    dyno_status status = module->measure(d, &rates);
    device_close(d);
    if (status != DYNO_OK)
        return status;
    const struct {
        const char *name, *note;
        double value;
    } rows[] = {{"copy GB/s", "bytes read and bytes written", rates.copy_gb_s},
                {"fp32 TFLOP/s", "large products", rates.fp32},
                {"tf32 TFLOP/s", "large products of fp32 matrices", rates.tf32},
                {"bf16 TFLOP/s", "large products, sums in fp32", rates.bf16},
                {"fp16 TFLOP/s", "large products, sums in fp32", rates.fp16}};
    for (int i = 0; i < 5; i++)
        if (rows[i].value > 0)
            add_real(run, part, rows[i].name, rows[i].value, rows[i].note);
        else
            add_text(run, part, rows[i].name, "none", "this GPU, or the module, has none");
    return DYNO_OK;
}

/* A GPU that is not there, or does not work, is a row that says why. Returns how many work. */
static int add_gpus(results *run) {
    const cuda_module *module;
    int count = 0, working = 0;
    if (cuda_module_load(&module) != DYNO_OK) {
        add_text(run, "gpu", "CUDA module", "missing", dyno_error_message());
        return 0;
    }
    add_text(run, "gpu", "CUDA module", module->version, gpu_module_path(module));
    dyno_status counted = module->count(&count);
    if (counted != DYNO_OK || count == 0) {
        add_text(run, "gpu", "GPUs", "none",
                 counted != DYNO_OK ? dyno_error_message() : "the driver shows none");
        return 0;
    }
    add_integer(run, "gpu", "GPUs", count, "");
    for (int i = 0; i < count; i++) {
        char part[32];
        cuda_device_info info = {0};
        snprintf(part, sizeof part, "cuda:%d", i);
        if (module->describe(i, &info) != DYNO_OK) {
            add_text(run, part, "model", "unknown", dyno_error_message());
            continue;
        }
        add_gpu_facts(run, part, &info);
        if (add_gpu_rates(run, module, i, part) == DYNO_OK)
            working++;
        else
            add_text(run, part, "rates", "not measured", dyno_error_message());
    }
    return working;
}

static void add_optional(results *run, const char *name, const char *without,
                         const optional_answer *answer) {
    char note[1200];
    if (answer->is_found)
        snprintf(note, sizeof note, "%s", answer->detail);
    else
        snprintf(note, sizeof note, "%s; without it %s", answer->detail, without);
    add_text(run, "optional", name,
             !answer->is_found    ? "missing"
             : answer->version[0] ? answer->version
                                  : "found",
             note);
}

/* Its version is a line of its own making, too long for a value. Returns whether there is one. */
static bool add_compiler(results *run) {
    optional_answer compiler = optional_find_compiler();
    if (compiler.is_found && compiler.version[0]) {
        char note[1200];
        snprintf(note, sizeof note, "%s: %s", compiler.detail, compiler.version);
        add_text(run, "optional", "C compiler", "found", note);
    } else {
        add_optional(run, "C compiler", "compiled mode on the CPU has no fused kernels", &compiler);
    }
    return compiler.is_found;
}

/* How ranks can exchange tensors. */
static void add_transports(results *run, int gpus) {
    const mpi_module *mpi;
    add_text(run, "ranks", "shared", "yes", "ranks of one host: --ranks N, nothing else is needed");
    if (mpi_module_load(&mpi) == DYNO_OK)
        add_text(run, "ranks", "mpi", mpi->library(), "between hosts: mpirun -np N dyno ...");
    else
        add_text(run, "ranks", "mpi", "no", dyno_error_message());
    optional_answer nccl = optional_find(OPTIONAL_NCCL);
    bool has_nccl = nccl.is_found && gpus > 0;
    add_text(run, "ranks", "nccl",
             !has_nccl         ? "no"
             : nccl.version[0] ? nccl.version
                               : "yes",
             has_nccl        ? "between GPUs: --transport nccl"
             : nccl.is_found ? "there is NCCL, and no GPU that works"
                             : nccl.detail);
}

/* The answer to "is this machine ready?", for those who read one line. */
static void set_verdict(results *run, bool has_compiler, int gpus) {
    char where[64] = "; not on a GPU, see \"gpu\" and \"optional\"";
    if (gpus == 1)
        snprintf(where, sizeof where, ", and on the GPU");
    else if (gpus > 1)
        snprintf(where, sizeof where, ", and on %d GPUs", gpus);
    text verdict = {0};
    text_format(&verdict, "dyno runs here: on the CPU%s%s",
                has_compiler ? "" : " (without fused kernels: there is no C compiler)", where);
    results_set_environment_text(run, ENV_VERDICT, text_string(&verdict));
    text_release(&verdict);
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    int threads = (int)flags_integer(given, "threads");
    RETURN_IF_FAILED(threads_check(threads));
    RETURN_IF_FAILED(experiment_start(context));
    add_cpu(out->run);
    add_memory(out->run);
    RETURN_IF_FAILED(add_all_peaks(out->run, threads ? threads : threads_count()));
    int gpus = add_gpus(out->run);
    for (optional_part part = 0; part < OPTIONAL_COUNT; part++) {
        optional_answer answer = optional_find(part);
        add_optional(out->run, optional_name(part), optional_without(part), &answer);
    }
    bool has_compiler = add_compiler(out->run);
    add_transports(out->run, gpus);
    set_verdict(out->run, has_compiler, gpus);
    return DYNO_OK;
}

const experiment experiment_doctor = {.settings = &VERB, .run = run};
