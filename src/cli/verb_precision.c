/* verb_precision.c - `dyno precision`: what low precision does to a sum, and what mixed precision
 * makes of a toy model's types. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "experiments/precision_study.h"
#include "measure/accumulation.h"
#include "report/table.h"

static const flag_spec FLAGS[] = {
    {"terms", "N", FLAG_INTEGER, "1000", .help = "numbers added up", .minimum = 1,
     .maximum = 100000000},
    {"term", "X", FLAG_REAL, "0.01", .help = "the number that is added"},
    {"format", NULL, FLAG_CHOICE, "table", .help = "how to print", .choices = TABLE_FORMAT_CHOICES},
};

static const flags_example EXAMPLES[] = {
    {"precision", "both tables"},
    {"precision accumulation --terms 10000", "where does a total in 16 bits stop growing?"},
    {"precision policy --format md", "the types of a toy model, as executed, in Markdown"},
};

static const flags_verb VERB = {
    .name = "precision",
    .positional = "[accumulation|policy]",
    .most_positionals = 1,
    .summary = "Shows what mixed precision does. accumulation: a small number added up many times, "
               "with terms and total in 32 or 16 bits, every addition rounded as hardware rounds "
               "it. policy: a toy model (fc1, ReLU, LayerNorm, fc2, cross-entropy) is built, "
               "differentiated and run in each precision, and the type of everything in it is "
               "read from what was executed.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

static dyno_status accumulation_table(const flags *given, report_table **out) {
    int64_t terms = flags_integer(given, "terms");
    double term = flags_real(given, "term"), exact = term * (double)terms;
    report_table *t = table_create("accumulation");
    table_add_column(t, "way", "way", TABLE_LEFT);
    table_add_column(t, "term_type", "term", TABLE_LEFT);
    table_add_column(t, "total_type", "total", TABLE_LEFT);
    table_add_column(t, "sum", "sum", TABLE_RIGHT);
    table_add_column(t, "error_percent", "error %", TABLE_RIGHT);
    for (int i = 0; i < accumulation_count(); i++) {
        const accumulation *a = accumulation_at(i);
        double sum = accumulation_run(a, term, terms);
        table_add_row(t);
        table_add_text(t, a->name);
        table_add_text(t, dtype_name(a->term));
        table_add_text(t, dtype_name(a->total));
        table_add_real(t, sum, 4);
        table_add_real(t, exact != 0 ? 100 * (sum - exact) / fabs(exact) : NAN, 4);
    }
    table_add_note(t, "%lld x %g = %g", (long long)terms, term, exact);
    *out = t;
    return DYNO_OK;
}

static dyno_status policy_table(const flags *given, report_table **out) {
    (void)given;
    static const precision order[] = {PRECISION_FP32, PRECISION_FP16, PRECISION_BF16};
    enum { COLUMNS = sizeof order / sizeof *order };
    precision_study studies[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        RETURN_IF_FAILED(precision_study_run(order[i], &studies[i]));
    report_table *t = table_create("policy");
    table_add_column(t, "item", "what", TABLE_LEFT);
    for (int i = 0; i < COLUMNS; i++)
        table_add_column(t, precision_name(order[i]), precision_name(order[i]), TABLE_LEFT);
    for (int item = 0; item < STUDY_ITEM_COUNT; item++) {
        table_add_row(t);
        table_add_text(t, study_item_name((study_item)item));
        for (int i = 0; i < COLUMNS; i++)
            table_add_text(t, dtype_name(studies[i].type[item]));
    }
    table_add_note(t, "loss %.6f in fp32, %.6f in fp16, %.6f in bf16", (double)studies[0].loss,
                   (double)studies[1].loss, (double)studies[2].loss);
    table_add_note(t, "products have their operands and results in the low type and their sums in "
                      "f32; logits stay in f32, which PyTorch's autocast rounds and widens again");
    *out = t;
    return DYNO_OK;
}

static const struct {
    const char *name;
    dyno_status (*create)(const flags *given, report_table **out);
} PARTS[] = {{"accumulation", accumulation_table}, {"policy", policy_table}};
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

static dyno_status render(const flags *given, table_format format, text *out) {
    const char *wanted = flags_positional_count(given) ? flags_positional(given, 0) : NULL;
    RETURN_IF_FAILED(check_part(wanted));
    bool is_object = format == TABLE_JSON && !wanted;
    for (int i = 0; i < PART_COUNT; i++) {
        if (wanted && strcmp(wanted, PARTS[i].name) != 0)
            continue;
        report_table *t;
        RETURN_IF_FAILED(PARTS[i].create(given, &t));
        if (is_object)
            text_format(out, "%s\n\"%s\": ", i ? "," : "{", PARTS[i].name);
        else if (out->length)
            text_append(out, "\n");
        table_render(t, format, table_wants_bold(), out);
        table_destroy(t);
    }
    if (is_object)
        text_append(out, "}\n");
    return DYNO_OK;
}

int cli_precision(int argc, char **argv) {
    flags *given;
    int exit_code;
    if (!cli_parse_flags(&VERB, argc, argv, &given, &exit_code))
        return exit_code;
    text out = {0};
    table_format format;
    dyno_status status = table_format_parse(flags_text(given, "format"), &format);
    if (status == DYNO_OK)
        status = render(given, format, &out);
    if (status == DYNO_OK)
        cli_print(&out);
    text_release(&out);
    flags_destroy(given);
    return status == DYNO_OK ? 0 : cli_report_failure(status);
}
