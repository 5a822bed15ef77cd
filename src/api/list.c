/* list.c - what dyno knows: names, and tables of models, ops, kernels and targets. */
#include <string.h>

#include "api/options.h"
#include "base/units.h"
#include "model/parameters.h"
#include "ops/kernel.h"
#include "ops/op_list.h"
#include "report/suite.h"

const char *dyno_preset_name(int index) {
    return index >= 0 && index < model_preset_count() ? model_preset(index)->name : NULL;
}

const char *dyno_target_name(int index) {
    return index >= 0 && index < target_count() ? target_at(index)->name : NULL;
}

const char *dyno_suite_name(int index) { return suite_name_at(index); }

const char *dyno_formats(void) { return TABLE_FORMAT_CHOICES; }

static report_table *presets_table(void) {
    report_table *t = table_create("presets");
    table_add_column(t, "name", "name", TABLE_LEFT);
    static const char *const sizes[] = {"d_model", "d_ff", "layers", "heads", "kv_heads", "vocab"};
    for (int i = 0; i < 6; i++)
        table_add_column(t, sizes[i], sizes[i], TABLE_RIGHT);
    table_add_column(t, "parameters", "parameters", TABLE_RIGHT);
    table_add_column(t, "weights_gib", "weights fp32 GiB", TABLE_RIGHT);
    for (int i = 0; i < model_preset_count(); i++) {
        const model_config *c = model_preset(i);
        int64_t parameters = model_parameter_elements(c);
        table_add_row(t);
        table_add_text(t, c->name);
        const int64_t numbers[] = {c->d_model,  c->d_ff,  c->layers, c->heads,
                                   c->kv_heads, c->vocab, parameters};
        for (int j = 0; j < 7; j++)
            table_add_integer(t, numbers[j]);
        table_add_real(t, (double)parameters * 4 / 0x1p30, 2);
    }
    return t;
}

static report_table *ops_table(void) {
    report_table *t = table_create("ops");
    table_add_column(t, "name", "name", TABLE_LEFT);
    table_add_column(t, "class", "class", TABLE_LEFT);
    table_add_column(t, "gradient", "gradient", TABLE_LEFT);
    table_add_column(t, "expression", "expression", TABLE_LEFT);
    table_add_column(t, "summary", "summary", TABLE_LEFT);
    static const char *const importance[] = {"name", "summary", "class", NULL};
    table_set_importance(t, importance);
    for (int i = 0; i < op_list_count(); i++) {
        const op *o = op_list_at(i);
        table_add_row(t);
        table_add_text(t, o->name);
        table_add_text(t, op_class_name(o->class));
        table_add_text(t, o->gradient ? "yes" : "no");
        table_add_text(t, o->expression ? o->expression : "");
        table_add_text(t, o->summary);
    }
    return t;
}

static report_table *kernels_table(void) {
    report_table *t = table_create("kernels");
    table_add_column(t, "op", "op", TABLE_LEFT);
    table_add_column(t, "place", "place", TABLE_RIGHT);
    table_add_column(t, "target", "target", TABLE_LEFT);
    table_add_column(t, "kernel", "kernel", TABLE_LEFT);
    table_add_column(t, "variants", "variants", TABLE_LEFT);
    for (int i = 0; i < op_list_count(); i++) {
        const op *o = op_list_at(i);
        int place = 1;
        for (const kernel *const *k = o->kernels; *k; k++) {
            table_add_row(t);
            table_add_text(t, o->name);
            table_add_integer(t, place++);
            table_add_text(t, target_kind_name((*k)->target));
            table_add_text(t, (*k)->name);
            table_add_text(t, (*k)->variants ? "by operands" : "");
        }
    }
    return t;
}

static report_table *targets_table(void) {
    report_table *t = table_create("targets");
    table_add_column(t, "target", "target", TABLE_LEFT);
    table_add_column(t, "kind", "kind", TABLE_LEFT);
    table_add_column(t, "capability", "capability", TABLE_LEFT);
    table_add_column(t, "cores", "cores", TABLE_RIGHT);
    table_add_column(t, "l2", "L2", TABLE_RIGHT);
    table_add_column(t, "memory", "memory", TABLE_RIGHT);
    table_add_column(t, "description", "description", TABLE_LEFT);
    for (int i = 0; i < target_count(); i++) {
        const target *at = target_at(i);
        table_add_row(t);
        table_add_text(t, at->name);
        table_add_text(t, target_kind_name(at->kind));
        table_add_text(t, target_capability(at).text);
        table_add_integer(t, at->cores);
        table_add_text(t, units_bytes(at->l2_bytes).text);
        table_add_text(t, units_bytes(at->memory_bytes).text);
        table_add_text(t, at->description);
    }
    table_add_note(t, "dyno plan --target NAME plans for one; cores of a GPU are multiprocessors");
    return t;
}

static const struct {
    const char *name;
    report_table *(*create)(void);
} LISTS[] = {{"presets", presets_table},
             {"ops", ops_table},
             {"kernels", kernels_table},
             {"targets", targets_table},
             {"suites", suite_create_list}};
enum { LIST_COUNT = sizeof LISTS / sizeof *LISTS };

static dyno_status render(const char *wanted, view_options how, text *out) {
    const char *names[LIST_COUNT];
    bool is_json = how.format == TABLE_JSON, found = false;
    if (is_json && !wanted)
        text_append(out, "{");
    for (int i = 0; i < LIST_COUNT; i++) {
        names[i] = LISTS[i].name;
        if (wanted && strcmp(wanted, names[i]) != 0)
            continue;
        if (!wanted && is_json)
            text_format(out, "%s\n\"%s\": ", i ? "," : "", names[i]);
        else if (out->length)
            text_append(out, "\n");
        report_table *t = LISTS[i].create();
        table_render_with(t, how.format, (render_options){how.is_bold, false, how.columns}, out);
        table_destroy(t);
        found = true;
    }
    if (is_json && !wanted)
        text_append(out, "}\n");
    if (found)
        return DYNO_OK;
    const char *nearest = text_nearest(wanted, names, LIST_COUNT);
    return nearest ? dyno_fail(DYNO_INVALID, "there is no list '%s'; did you mean '%s'?", wanted,
                               nearest)
                   : dyno_fail(DYNO_INVALID,
                               "there is no list '%s'; there are presets, ops, "
                               "kernels, targets and suites",
                               wanted);
}

dyno_status dyno_list(const char *what, const dyno_render_options *options, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    view_options how;
    text shown = {0};
    RETURN_IF_FAILED(options_take_render(options, TABLE_TERMINAL, &how));
    dyno_status status = render(what, how, &shown);
    if (status == DYNO_OK)
        *out = options_take_text(&shown);
    text_release(&shown);
    return status_conclude(status);
}
