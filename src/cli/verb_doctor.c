/* verb_doctor.c - `dyno doctor`: the machine, what it can do at best, and what is missing. */
#include <stdio.h>
#include <string.h>

#include "base/isa.h"
#include "base/system_memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "cli/cli.h"
#include "measure/contention.h"
#include "measure/environment.h"
#include "measure/gpu.h"
#include "measure/machine.h"
#include "measure/optional.h"
#include "report/table.h"
#include "report/view_parts.h"

static const flag_spec FLAGS[] = {
    {"threads", "NUMBER", FLAG_INTEGER, "0",
     .help = "peaks are of one thread and of so many; 0: one for each core available", .minimum = 0,
     .maximum = 4096},
    {"format", NULL, FLAG_CHOICE, "table", .help = "how to print", .choices = TABLE_FORMAT_CHOICES},
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
        "and the optional libraries: where each was found, or what is off without it. "
        "Takes a few seconds, most of them measuring; run it on an idle machine.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

static void add_text(report_table *table, const char *part, const char *item, const char *value,
                     const char *note) {
    table_add_row(table);
    table_add_text(table, part);
    table_add_text(table, item);
    table_add_text(table, value);
    table_add_text(table, note);
}

static void add_integer(report_table *table, const char *part, const char *item, int64_t value,
                        const char *note) {
    table_add_row(table);
    table_add_text(table, part);
    table_add_text(table, item);
    table_add_integer(table, value);
    table_add_text(table, note);
}

static void add_real(report_table *table, const char *part, const char *item, double value,
                     int decimals, const char *note) {
    table_add_row(table);
    table_add_text(table, part);
    table_add_text(table, item);
    table_add_real(table, value, decimals);
    table_add_text(table, note);
}

static void add_governor(report_table *table) {
    char governor[64];
    environment_read_governor(governor, sizeof governor);
    add_text(table, "cpu", "frequency governor", governor,
             strcmp(governor, "none visible") == 0 ? "as in most virtual machines"
             : strcmp(governor, "powersave") == 0 ? "the clock may take a while to rise; times are "
                                                    "steadier with \"performance\""
                                                  : "");
}

static void add_cpu(report_table *table) {
    environment_cpu cpu = environment_read_cpu();
    char note[128];
    add_text(table, "cpu", "model", cpu.model, "");
    snprintf(note, sizeof note, "to this process; the machine has %d, with %d hardware threads",
             cpu.physical_cores, cpu.logical_cores);
    add_integer(table, "cpu", "cores available", cpu.available_cores, note);
    if (cpu.l2_bytes) {
        add_real(table, "cpu", "L1 data KiB", (double)cpu.l1_data_bytes / 0x1p10, 0,
                 "each, as there can be several of a cache");
        add_real(table, "cpu", "L2 KiB", (double)cpu.l2_bytes / 0x1p10, 0, "each");
        add_real(table, "cpu", "L3 MiB", (double)cpu.l3_bytes / 0x1p20, 1, "each");
    }
    add_governor(table);
    for (isa which = 0; which < ISA_COUNT; which++) {
        isa_answer answer = isa_check(which);
        add_text(table, "instructions", isa_name(which), answer.is_usable ? "usable" : "no",
                 answer.why_not);
    }
}

static void add_memory(report_table *table) {
    system_memory memory = system_memory_read();
    add_real(table, "memory", "total GiB", (double)memory.total_bytes / 0x1p30, 2, "");
    add_real(table, "memory", "available GiB", (double)memory.available_bytes / 0x1p30, 2,
             "of that, not in use now");
}

NODISCARD static dyno_status add_peaks(report_table *table, int threads) {
    machine_peaks peaks;
    char item[64], by[64];
    RETURN_IF_FAILED(machine_peaks_get(threads, &peaks));
    machine_peak bf16 = machine_measure_peak_bf16(threads);
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
        add_real(table, "peak", item, rows[i].value, 1, rows[i].note);
    }
    return DYNO_OK;
}

/* `seen` gets a cell that says whether others were busy meanwhile. */
NODISCARD static dyno_status add_all_peaks(report_table *table, int threads, results *seen) {
    results_set_environment_integer(seen, "cores_available", threads_available());
    results_set_environment_integer(seen, "threads", threads);
    contention_watch *watch = contention_begin("/proc");
    dyno_status status = add_peaks(table, 1);
    if (status == DYNO_OK && threads > 1)
        status = add_peaks(table, threads);
    contention meanwhile = contention_end(watch);
    results_cell *cell = results_add_cell(seen);
    contention_record(&meanwhile, cell);
    cell_set_status(cell, RESULTS_OK, "");
    return status;
}

static void add_version(report_table *table, const char *part, const char *item, int number) {
    char version[32];
    snprintf(version, sizeof version, "%d.%d", number / 1000, number % 1000 / 10);
    add_text(table, part, item, version, "");
}

static void add_gpu_facts(report_table *table, const char *part, const cuda_device_info *info) {
    char capability[32];
    snprintf(capability, sizeof capability, "%d.%d", info->major, info->minor);
    add_text(table, part, "model", info->name, "");
    add_text(table, part, "compute capability", capability, "");
    add_version(table, part, "CUDA of the driver", info->driver_version);
    add_version(table, part, "CUDA of the module", info->runtime_version);
    add_real(table, part, "memory GiB", (double)info->memory_bytes / 0x1p30, 2, "");
    add_real(table, part, "free memory GiB", (double)info->free_bytes / 0x1p30, 2, "");
    add_integer(table, part, "multiprocessors", info->multiprocessors, "");
    add_integer(table, part, "clock MHz", info->clock_mhz, "at most");
    add_integer(table, part, "memory clock MHz", info->memory_clock_mhz, "at most");
    add_real(table, part, "L2 MiB", (double)info->l2_bytes / 0x1p20, 1, "");
}

static dyno_status add_gpu_rates(report_table *table, const cuda_module *module, int ordinal,
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
            add_real(table, part, rows[i].name, rows[i].value, 1, rows[i].note);
        else
            add_text(table, part, rows[i].name, "none", "this GPU, or the module, has none");
    return DYNO_OK;
}

/* A GPU that is not there, or does not work, is a row that says why. Returns how many work. */
static int add_gpus(report_table *table) {
    const cuda_module *module;
    int count = 0, working = 0;
    if (cuda_module_load(&module) != DYNO_OK) {
        add_text(table, "gpu", "CUDA module", "missing", dyno_error_message());
        return 0;
    }
    add_text(table, "gpu", "CUDA module", module->version, gpu_module_path(module));
    dyno_status counted = module->count(&count);
    if (counted != DYNO_OK || count == 0) {
        add_text(table, "gpu", "GPUs", "none",
                 counted != DYNO_OK ? dyno_error_message() : "the driver shows none");
        return 0;
    }
    add_integer(table, "gpu", "GPUs", count, "");
    for (int i = 0; i < count; i++) {
        char part[32];
        cuda_device_info info = {0};
        snprintf(part, sizeof part, "cuda:%d", i);
        if (module->describe(i, &info) != DYNO_OK) {
            add_text(table, part, "model", "unknown", dyno_error_message());
            continue;
        }
        add_gpu_facts(table, part, &info);
        if (add_gpu_rates(table, module, i, part) == DYNO_OK)
            working++;
        else
            add_text(table, part, "rates", "not measured", dyno_error_message());
    }
    return working;
}

static void add_optional(report_table *table, const char *name, const char *without,
                         const optional_answer *answer) {
    char note[1200];
    if (answer->is_found)
        snprintf(note, sizeof note, "%s", answer->detail);
    else
        snprintf(note, sizeof note, "%s; without it %s", answer->detail, without);
    add_text(table, "optional", name,
             !answer->is_found    ? "missing"
             : answer->version[0] ? answer->version
                                  : "found",
             note);
}

/* Its version is a line of its own making, too long for a value. Returns whether there is one. */
static bool add_compiler(report_table *table) {
    optional_answer compiler = optional_find_compiler();
    if (compiler.is_found && compiler.version[0]) {
        char note[1200];
        snprintf(note, sizeof note, "%s: %s", compiler.detail, compiler.version);
        add_text(table, "optional", "C compiler", "found", note);
    } else {
        add_optional(table, "C compiler", "compiled mode on the CPU has no fused kernels",
                     &compiler);
    }
    return compiler.is_found;
}

/* The answer to "is this machine ready?", for those who read one line. */
static void note_verdict(report_table *table, bool has_compiler, int gpus) {
    char where[64] = "; not on a GPU, see \"gpu\" and \"optional\"";
    if (gpus == 1)
        snprintf(where, sizeof where, ", and on the GPU");
    else if (gpus > 1)
        snprintf(where, sizeof where, ", and on %d GPUs", gpus);
    table_add_note(table, "dyno runs here: on the CPU%s%s",
                   has_compiler ? "" : " (without fused kernels: there is no C compiler)", where);
}

static dyno_status examine(report_table *table, int threads) {
    table_add_column(table, "part", "part", TABLE_LEFT);
    table_add_column(table, "item", "item", TABLE_LEFT);
    table_add_column(table, "value", "value", TABLE_LEFT);
    table_add_column(table, "note", "note", TABLE_LEFT);
    add_cpu(table);
    add_memory(table);
    results *seen = results_create("doctor", 0, NULL);
    dyno_status status = add_all_peaks(table, threads, seen);
    if (status == DYNO_OK) {
        int gpus = add_gpus(table);
        for (optional_part part = 0; part < OPTIONAL_COUNT; part++) {
            optional_answer answer = optional_find(part);
            add_optional(table, optional_name(part), optional_without(part), &answer);
        }
        note_verdict(table, add_compiler(table), gpus);
        view_note_contention(seen, table);
    }
    results_destroy(seen);
    return status;
}

int cli_doctor(int argc, char **argv) {
    flags *given;
    int exit_code;
    if (!cli_parse_flags(&VERB, argc, argv, &given, &exit_code))
        return exit_code;
    table_format format;
    dyno_status status = table_format_parse(flags_text(given, "format"), &format);
    int threads = (int)flags_integer(given, "threads");
    flags_destroy(given);
    report_table *table = table_create(NULL);
    if (status == DYNO_OK)
        status = examine(table, threads ? threads : threads_count());
    if (status == DYNO_OK) {
        text out = {0};
        table_render(table, format, table_wants_bold(), &out);
        cli_print(&out);
        text_release(&out);
    } else {
        exit_code = cli_report_failure(status);
    }
    table_destroy(table);
    return status == DYNO_OK ? 0 : exit_code;
}
