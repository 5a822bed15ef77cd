/* view_profile_classes.c - op classes: what is not a matrix product, what share products have in
 * inference and in a training step, and what is inside attention. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "profile/attention_parts.h"
#include "report/profile_rows.h"
#include "report/view_parts.h"

static const char *const PHASES[] = {SERIES_FORWARD, SERIES_BACKWARD, SERIES_OPTIMIZER};
enum { PHASE_COLUMNS = sizeof PHASES / sizeof *PHASES };

/* "layers.*.attn.softmax" -> "softmax": what launches are for. Layers themselves are "layers.*". */
static const char *last_part(const char *scope) {
    const char *last = scope, *before = scope;
    for (const char *at = scope; *at; at++)
        if (*at == '.') {
            before = last;
            last = at + 1;
        }
    return strcmp(last, "*") == 0 ? before : last;
}

/* ---- shares ---- */

/* Of which launches a share is told. Attention kernels and the loss head of compiled steps have products inside. */
typedef enum share_of { SHARE_PRODUCTS, SHARE_ATTENTION, SHARE_LOSS_HEAD } share_of;

static bool is_of(const profile_rows *kinds, int64_t row, share_of what) {
    const char *class_name = profile_rows_text(kinds, row, KEY_CLASS);
    const char *op = profile_rows_text(kinds, row, KEY_OP);
    switch (what) {
    case SHARE_PRODUCTS:
        return strcmp(class_name, CLASS_MATMUL) == 0;
    case SHARE_ATTENTION:
        return strcmp(class_name, CLASS_ATTENTION) == 0;
    default:
        return strncmp(op, "loss_head", strlen("loss_head")) == 0;
    }
}

/* In percent of the cell, or of one of its phases; NAN where it has none. */
static double share(const results *run, const results_cell *cell, const char *phase,
                    share_of what) {
    profile_rows kinds = profile_rows_find(run, cell, BREAKDOWN_KINDS);
    double part = 0, whole = 0;
    for (int64_t i = 0; i < kinds.count; i++) {
        if (phase && strcmp(profile_rows_text(&kinds, i, KEY_PHASE), phase) != 0)
            continue;
        double ns = profile_rows_number(&kinds, i, COLUMN_TIME);
        whole += ns;
        part += is_of(&kinds, i, what) ? ns : 0;
    }
    return whole > 0 ? 100 * part / whole : (double)NAN;
}

/* ---- other than products ---- */

typedef struct class_part {
    const char *class_name, *part;
    double ns[PHASE_COLUMNS], total_ns, count;
} class_part;

typedef struct class_parts {
    class_part *items;
    int count, capacity;
} class_parts;

static class_part *find_part(class_parts *all, const char *class_name, const char *part) {
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->items[i].class_name, class_name) == 0 &&
            strcmp(all->items[i].part, part) == 0)
            return &all->items[i];
    MEMORY_GROW(all->items, all->count, all->capacity);
    all->items[all->count] = (class_part){.class_name = class_name, .part = part};
    return &all->items[all->count++];
}

static int longest_first(const void *a, const void *b) {
    double x = ((const class_part *)a)->total_ns, y = ((const class_part *)b)->total_ns;
    return (x < y) - (x > y);
}

static class_parts collect(const profile_rows *kinds) {
    class_parts all = {0};
    for (int64_t i = 0; i < kinds->count; i++) {
        const char *class_name = profile_rows_text(kinds, i, KEY_CLASS);
        if (strcmp(class_name, CLASS_MATMUL) == 0)
            continue;
        class_part *part =
            find_part(&all, class_name, last_part(profile_rows_text(kinds, i, KEY_SCOPE)));
        double ns = profile_rows_number(kinds, i, COLUMN_TIME);
        for (int j = 0; j < PHASE_COLUMNS; j++)
            if (strcmp(profile_rows_text(kinds, i, KEY_PHASE), PHASES[j]) == 0)
                part->ns[j] += ns;
        part->total_ns += ns;
        part->count += profile_rows_number(kinds, i, COLUMN_COUNT);
    }
    if (all.count)
        qsort(all.items, (size_t)all.count, sizeof *all.items, longest_first);
    return all;
}

void profile_add_classes(const results *run, const results_cell *cell, bool is_full,
                         report_document *out) {
    profile_rows kinds = profile_rows_find(run, cell, BREAKDOWN_KINDS);
    class_parts all = collect(&kinds);
    double whole = profile_rows_sum(&kinds, COLUMN_TIME), others = 0;
    report_table *t = profile_create_table(run, cell, "other than matrix products", is_full);
    table_add_column(t, "class", "class", TABLE_LEFT);
    table_add_column(t, "for", "for", TABLE_LEFT);
    for (int j = 0; j < PHASE_COLUMNS; j++) {
        if (isnan(profile_phase_ns(run, cell, PHASES[j])))
            continue;
        text header = {0};
        text_format(&header, "%s ms", PHASES[j]);
        table_add_column(t, PHASES[j], text_string(&header), TABLE_RIGHT);
        text_release(&header);
    }
    table_add_column(t, "time_ms", "time ms", TABLE_RIGHT);
    table_add_column(t, "percent", "% of all", TABLE_RIGHT);
    table_add_column(t, "count", "launches", TABLE_RIGHT);
    for (int i = 0; i < all.count; i++)
        others += all.items[i].total_ns;
    int64_t top = is_full ? 0 : profile_shown_number(run, ENV_SHOWN_TOP, 10);
    for (int i = 0; i < all.count && (!top || i < top); i++) {
        const class_part *part = &all.items[i];
        profile_add_row(cell, is_full, t);
        table_add_text(t, part->class_name);
        table_add_text(t, part->part);
        for (int j = 0; j < PHASE_COLUMNS; j++)
            if (!isnan(profile_phase_ns(run, cell, PHASES[j])))
                table_add_real(t, part->ns[j] / 1e6, 3);
        table_add_real(t, part->total_ns / 1e6, 3);
        table_add_real(t, 100 * part->total_ns / whole, 1);
        table_add_integer(t, (int64_t)part->count);
    }
    table_add_note(t, "%.3f of %.3f ms, %.1f %%, are not matrix products%s", others / 1e6,
                   whole / 1e6, 100 * others / whole,
                   all.count > top && top ? "; --top 0 shows all rows" : "");
    if (share(run, cell, NULL, SHARE_ATTENTION) + share(run, cell, NULL, SHARE_LOSS_HEAD) > 0)
        table_add_note(t, "attention kernels and the loss head have matrix products inside");
    free(all.items);
    document_add_table(out, t);
}

/* ---- the share of products ---- */

/* Whether two cells differ in nothing but the pass. */
static bool differ_in_pass(const results_cell *a, const results_cell *b) {
    for (int i = 0; i < a->parameters.count; i++) {
        const results_entry *entry = &a->parameters.entries[i];
        if (strcmp(entry->key, PARAM_PASS) != 0 &&
            !view_values_are_equal(&entry->value, cell_find_parameter(b, entry->key)))
            return false;
    }
    return true;
}

static void add_share_row(const results *run, const results_cell *cell, const char *what,
                          const char *phase, report_table *t) {
    double products = share(run, cell, phase, SHARE_PRODUCTS),
           attention = share(run, cell, phase, SHARE_ATTENTION),
           head = share(run, cell, phase, SHARE_LOSS_HEAD);
    if (isnan(products))
        return;
    table_add_row(t);
    table_add_text(t, view_text(cell, PARAM_MODEL));
    view_add_value(t, cell_find_parameter(cell, PARAM_CONTEXT));
    table_add_text(t, view_text(cell, PARAM_MODE));
    table_add_text(t, view_text(cell, PARAM_MATH));
    table_add_text(t, view_text(cell, PARAM_ATTENTION));
    table_add_text(t, what);
    table_add_real(t, products, 1);
    table_add_real(t, attention, 1);
    table_add_real(t, head, 1);
    table_add_real(t, 100 - products - attention - head, 1);
}

/* The training step that belongs to an inference, or NULL. */
static const results_cell *find_step(const results *run, const results_cell *forward) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (strcmp(view_text(run->cells[i], PARAM_PASS), "step") == 0 &&
            profile_is_shown(run->cells[i]) && differ_in_pass(forward, run->cells[i]))
            return run->cells[i];
    return NULL;
}

/* "small, context 512, mode eager, attention naive": what tells an inference and its step from others
 * of the run. */
static void append_pair(const results *run, const results_cell *forward, text *out) {
    static const char *const ALWAYS[] = {PARAM_MODEL, PARAM_CONTEXT, NULL};
    static const char *const NEVER[] = {PARAM_PASS, NULL};
    view_list chosen = {0};
    text others = {0};
    view_choose_parameters(run, false, ALWAYS, NEVER, &chosen, &others);
    text_release(&others);
    for (int i = 0; i < chosen.count; i++) {
        const results_value *value = cell_find_parameter(forward, chosen.names[i]);
        if (!value)
            continue;
        text_append(out, out->length ? ", " : "");
        if (strcmp(chosen.names[i], PARAM_MODEL) != 0)
            text_format(out, "%s ", chosen.names[i]);
        view_append_value(out, value);
    }
}

static void note_shares(const results *run, const results_cell *forward, const results_cell *step,
                        report_table *t) {
    const results_cell *cells[] = {forward, step};
    double products[2], inside[2];
    for (int i = 0; i < 2; i++) {
        products[i] = share(run, cells[i], NULL, SHARE_PRODUCTS);
        inside[i] = share(run, cells[i], NULL, SHARE_ATTENTION) +
                    share(run, cells[i], NULL, SHARE_LOSS_HEAD);
    }
    text said = {0};
    append_pair(run, forward, &said);
    text_format(&said, ": matrix products are %.1f %% of inference and %.1f %% of a training step",
                products[0], products[1]);
    if (inside[0] > 0 || inside[1] > 0)
        text_format(&said, "; with the kernels that have products inside, %.1f %% and %.1f %%",
                    products[0] + inside[0], products[1] + inside[1]);
    table_add_note(t, "%s", text_string(&said));
    text_release(&said);
}

void profile_add_products(const results *run, report_document *out) {
    report_table *t = table_create("matrix products: inference against one training step");
    table_add_setting(t, PARAM_MODEL, PARAM_MODEL, TABLE_LEFT);
    table_add_setting(t, PARAM_CONTEXT, PARAM_CONTEXT, TABLE_RIGHT);
    table_add_setting(t, PARAM_MODE, PARAM_MODE, TABLE_LEFT);
    table_add_setting(t, PARAM_MATH, PARAM_MATH, TABLE_LEFT);
    table_add_setting(t, PARAM_ATTENTION, PARAM_ATTENTION, TABLE_LEFT);
    table_add_column(t, "of", "of", TABLE_LEFT);
    table_add_column(t, "products_percent", "matrix products %", TABLE_RIGHT);
    table_add_column(t, "attention_percent", "attention kernels %", TABLE_RIGHT);
    table_add_column(t, "head_percent", "loss head %", TABLE_RIGHT);
    table_add_column(t, "others_percent", "others %", TABLE_RIGHT);
    bool has_attention = false, has_head = false;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *forward = run->cells[i];
        if (!profile_is_shown(forward) ||
            strcmp(view_text(forward, PARAM_PASS), SERIES_FORWARD) != 0)
            continue;
        const results_cell *step = find_step(run, forward);
        if (!step)
            continue;
        has_attention = has_attention || share(run, step, NULL, SHARE_ATTENTION) > 0;
        has_head = has_head || share(run, step, NULL, SHARE_LOSS_HEAD) > 0;
        add_share_row(run, forward, "inference", NULL, t);
        add_share_row(run, step, "training step", NULL, t);
        for (int j = 0; j < PHASE_COLUMNS; j++) {
            text what = {0};
            text_format(&what, "  its %s", PHASES[j]);
            add_share_row(run, step, text_string(&what), PHASES[j], t);
            text_release(&what);
        }
        note_shares(run, forward, step, t);
    }
    if (has_attention)
        table_add_note(t, "an attention kernel (flash) has the products of scores and values, and "
                          "the softmax between them, in one");
    if (has_head)
        table_add_note(t, "the loss head of compiled steps has the product with its weights, "
                          "softmax and loss in one");
    if (table_row_count(t))
        document_add_table(out, t);
    else
        table_destroy(t);
}

/* ---- inside attention ---- */

/* Time and FLOPs of one part of attention. */
typedef struct part_sum {
    double ns, flops;
} part_sum;

static const char *const PART_NAMES[ATTENTION_PART_COUNT] = {
    [ATTENTION_SCORES] = "scores: Q K^T",
    [ATTENTION_SOFTMAX] = "scale, mask, softmax",
    [ATTENTION_VALUES] = "values: P V",
    [ATTENTION_CASTS] = "casts",
    [ATTENTION_FUSED] = "all in one kernel (flash)"};

static attention_part part_of_kind(const profile_rows *kinds, int64_t row) {
    return attention_part_of_scope(profile_rows_text(kinds, row, KEY_SCOPE),
                                   profile_rows_text(kinds, row, KEY_CLASS),
                                   profile_rows_text(kinds, row, KEY_OP));
}

static void say_ratios(const char *phase, const part_sum *parts, report_table *t) {
    const part_sum *softmax = &parts[ATTENTION_SOFTMAX], *scores = &parts[ATTENTION_SCORES],
                   *values = &parts[ATTENTION_VALUES];
    double products_ns = scores->ns + values->ns, products_flops = scores->flops + values->flops;
    if (products_ns > 0 && softmax->ns > 0)
        table_add_note(t,
                       "%s: softmax with scale and mask takes %.3f ms for %.4f GFLOP, the products "
                       "of scores and values %.3f ms for %.4f GFLOP: %.2f x the time for %.4f x "
                       "the FLOPs",
                       phase, softmax->ns / 1e6, softmax->flops / 1e9, products_ns / 1e6,
                       products_flops / 1e9, softmax->ns / products_ns,
                       softmax->flops / products_flops);
    if (parts[ATTENTION_FUSED].ns > 0)
        table_add_note(t,
                       "%s: one kernel does scores, softmax and values, which no clock tells "
                       "apart; --attention naive runs them one by one",
                       phase);
}

/* Rows of one phase, where it has any. */
static void add_attention_phase(const results_cell *cell, const profile_rows *kinds,
                                const char *phase, bool is_full, report_table *t) {
    part_sum parts[ATTENTION_PART_COUNT] = {0};
    double whole = 0;
    for (int64_t i = 0; i < kinds->count; i++) {
        attention_part part = part_of_kind(kinds, i);
        if (part == ATTENTION_PART_COUNT ||
            strcmp(profile_rows_text(kinds, i, KEY_PHASE), phase) != 0)
            continue;
        double ns = profile_rows_number(kinds, i, COLUMN_TIME);
        parts[part].ns += ns;
        parts[part].flops += profile_rows_number(kinds, i, COLUMN_FLOPS);
        whole += ns;
    }
    for (int i = 0; i < ATTENTION_PART_COUNT; i++) {
        if (!(parts[i].ns > 0))
            continue;
        profile_add_row(cell, is_full, t);
        table_add_text(t, phase);
        table_add_text(t, PART_NAMES[i]);
        table_add_real(t, parts[i].ns / 1e6, 3);
        table_add_real(t, 100 * parts[i].ns / whole, 1);
        table_add_real(t, parts[i].flops / 1e9, 4);
        table_add_real(t, parts[i].flops / parts[i].ns, 2);
    }
    say_ratios(phase, parts, t);
}

void profile_add_attention(const results *run, const results_cell *cell, bool is_full,
                           report_document *out) {
    profile_rows kinds = profile_rows_find(run, cell, BREAKDOWN_KINDS);
    report_table *t = profile_create_table(run, cell, "inside attention", is_full);
    table_add_column(t, KEY_PHASE, KEY_PHASE, TABLE_LEFT);
    table_add_column(t, "part", "part", TABLE_LEFT);
    table_add_column(t, "time_ms", "time ms", TABLE_RIGHT);
    table_add_column(t, "percent", "% of them", TABLE_RIGHT);
    table_add_column(t, "gflop", "GFLOP", TABLE_RIGHT);
    table_add_column(t, "gflops", "GFLOP/s", TABLE_RIGHT);
    for (int j = 0; j < 2; j++)
        add_attention_phase(cell, &kinds, PHASES[j], is_full, t);
    if (table_row_count(t))
        document_add_table(out, t);
    else
        table_destroy(t);
}
