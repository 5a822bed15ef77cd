/* precision.c - `dyno precision`: what low precision does to a sum, and what mixed precision makes
 * of a toy model's types.
 *
 * A cell of the part "accumulation" is a way to add up; one of "policy" a precision, with the type
 * of everything in the model among its parameters. */
#include <string.h>

#include "experiments/precision_study.h"
#include "experiments/sweep.h"
#include "measure/accumulation.h"
#include "measure/keys.h"

static const flag_spec FLAGS[] = {
    {"terms", "N", FLAG_INTEGER, "1000", .help = "numbers added up", .minimum = 1,
     .maximum = 100000000},
    {"term", "X", FLAG_REAL, "0.01", .help = "the number that is added"},
    TARGET_FLAG,
};

static const flags_example EXAMPLES[] = {
    {"precision", "both tables"},
    {"precision accumulation --terms 10000", "where does a total in 16 bits stop growing?"},
    {"precision policy --format md", "the types of a toy model, as executed, in Markdown"},
};

static const flags_verb VERB = {
    .name = "precision",
    .positional = "accumulation|policy",
    .most_positionals = 1,
    .positional_suggestions = "accumulation|policy",
    .summary = "Shows what mixed precision does. accumulation: a small number added up many times, "
               "with terms and total in 32 or 16 bits, every addition rounded as hardware rounds "
               "it. policy: a toy model (fc1, ReLU, LayerNorm, fc2, cross-entropy) is built, "
               "differentiated and run in each precision, and the type of everything in it is "
               "read from what was executed.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

static results_cell *add_cell(results *run, const char *part) {
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, PARAM_PART, part);
    cell_set_status(cell, RESULTS_OK, NULL);
    return cell;
}

static dyno_status add_accumulation(const flags *given, results *run) {
    int64_t terms = flags_integer(given, "terms");
    double term = flags_real(given, "term");
    for (int i = 0; i < accumulation_count(); i++) {
        const accumulation *a = accumulation_at(i);
        results_cell *cell = add_cell(run, "accumulation");
        cell_set_text(cell, PARAM_WAY, a->name);
        cell_set_text(cell, PARAM_TERM_TYPE, dtype_name(a->term));
        cell_set_text(cell, PARAM_TOTAL_TYPE, dtype_name(a->total));
        cell_set_integer(cell, PARAM_TERMS, terms);
        cell_set_real(cell, PARAM_TERM, term);
        cell_set_metric_real(cell, METRIC_SUM, "", accumulation_run(a, term, terms));
    }
    return DYNO_OK;
}

static dyno_status study_precision(precision kind, device *cpu, results *run) {
    precision_study study;
    RETURN_IF_FAILED(precision_study_run(kind, cpu, &study));
    results_cell *cell = add_cell(run, "policy");
    cell_set_text(cell, PARAM_MATH, precision_name(kind));
    for (int item = 0; item < STUDY_ITEM_COUNT; item++)
        cell_set_text(cell, study_item_name((study_item)item), dtype_name(study.type[item]));
    cell_set_metric_real(cell, METRIC_LOSS, "", (double)study.loss);
    return DYNO_OK;
}

static dyno_status add_policy(const flags *given, results *run) {
    static const precision order[] = {PRECISION_FP32, PRECISION_FP16, PRECISION_BF16};
    device *cpu;
    RETURN_IF_FAILED(device_open_as("cpu", flags_text(given, "target"), &cpu));
    results_set_environment_text(run, ENV_TARGET, cpu->target.name);
    dyno_status status = DYNO_OK;
    for (size_t i = 0; i < sizeof order / sizeof *order && status == DYNO_OK; i++)
        status = study_precision(order[i], cpu, run);
    device_close(cpu);
    return status;
}

static const struct {
    const char *name;
    dyno_status (*add)(const flags *given, results *run);
} PARTS[] = {{"accumulation", add_accumulation}, {"policy", add_policy}};
enum { PART_COUNT = sizeof PARTS / sizeof *PARTS };

static dyno_status check_part(const char *wanted) {
    const char *names[PART_COUNT];
    for (int i = 0; i < PART_COUNT; i++) {
        names[i] = PARTS[i].name;
        if (!wanted || strcmp(wanted, names[i]) == 0)
            return DYNO_OK;
    }
    const char *nearest = text_nearest(wanted, names, PART_COUNT);
    return dyno_fail(DYNO_INVALID, "there is no part '%s'%s%s%s; there are accumulation and policy",
                     wanted, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?" : "");
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    const char *wanted = flags_positional_count(given) ? flags_positional(given, 0) : NULL;
    RETURN_IF_FAILED(check_part(wanted));
    RETURN_IF_FAILED(experiment_start(context));
    for (int i = 0; i < PART_COUNT; i++)
        if (!wanted || strcmp(wanted, PARTS[i].name) == 0)
            RETURN_IF_FAILED(PARTS[i].add(given, out->run));
    return DYNO_OK;
}

const experiment experiment_precision = {.settings = &VERB, .run = run};
