/* view_profile_scopes.c - the tree of scopes: each line is the sum of those below it, forward and
 * backward side by side; the layers of a model are one line, with the mean and spread over them. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/name_table.h"
#include "measure/keys.h"
#include "report/profile_rows.h"
#include "report/view_parts.h"

static const char *const PHASES[] = {SERIES_FORWARD, SERIES_BACKWARD, SERIES_OPTIMIZER};
enum { PHASE_COLUMNS = sizeof PHASES / sizeof *PHASES, MOST_LEVELS = 64 };

typedef struct layer_time {
    int64_t layer;
    double ns;
} layer_time;

typedef struct scope_node {
    const char *path; /* "layers.*.attn" */
    int parent, level;
    double ns[PHASE_COLUMNS], total_ns, count;
    layer_time *layers; /* where it is below a folded number */
    int layer_count, layer_capacity;
    int *children;
    int child_count, child_capacity;
} scope_node;

typedef struct scope_tree {
    scope_node *nodes; /* the first is the root, of path "" */
    int count, capacity;
    name_table by_path;
    arena *strings;
    bool is_folded;
} scope_tree;

/* Nodes are found by their whole path, so that the length of a list of children does not matter. */
static int find_node(scope_tree *tree, int parent, const char *path) {
    int found = name_table_find(&tree->by_path, path);
    if (found >= 0)
        return found;
    MEMORY_GROW(tree->nodes, tree->count, tree->capacity);
    scope_node *made = &tree->nodes[tree->count];
    *made = (scope_node){.path = arena_copy_string(tree->strings, path), .parent = parent};
    made->level = parent < 0 ? 0 : tree->nodes[parent].level + 1;
    name_table_set(&tree->by_path, made->path, tree->count);
    if (parent >= 0) {
        scope_node *above = &tree->nodes[parent];
        MEMORY_GROW(above->children, above->child_count, above->child_capacity);
        above->children[above->child_count++] = tree->count;
    }
    return tree->count++;
}

static void add_layer(scope_node *node, int64_t layer, double ns) {
    for (int i = 0; i < node->layer_count; i++)
        if (node->layers[i].layer == layer) {
            node->layers[i].ns += ns;
            return;
        }
    MEMORY_GROW(node->layers, node->layer_count, node->layer_capacity);
    node->layers[node->layer_count++] = (layer_time){layer, ns};
}

/* One row of the breakdown: its scope, phase, time and count. */
typedef struct scope_row {
    int phase; /* -1: another */
    double ns, count;
} scope_row;

static void add_to_node(scope_node *node, const scope_row *row, int64_t layer) {
    if (row->phase >= 0)
        node->ns[row->phase] += row->ns;
    node->total_ns += row->ns;
    node->count += row->count;
    if (layer >= 0)
        add_layer(node, layer, row->ns);
}

/* A part of digits, after a first one, is a layer: it is joined to what is before it, "layers.*". */
static void add_scope(scope_tree *tree, const char *scope, const scope_row *row) {
    text path = {0};
    int node = 0, levels = 0;
    int64_t layer = -1;
    add_to_node(&tree->nodes[0], row, -1);
    while (*scope && levels++ < MOST_LEVELS) {
        size_t length = strcspn(scope, ".");
        text_append(&path, path.length ? "." : "");
        text_append_bytes(&path, scope, length);
        scope += length + (scope[length] == '.');
        if (isdigit((unsigned char)*scope)) {
            char *end;
            long long number = strtoll(scope, &end, 10);
            if (*end == '.' || !*end) {
                layer = tree->is_folded ? number : layer;
                text_append(&path, ".");
                text_append_bytes(&path, tree->is_folded ? "*" : scope,
                                  tree->is_folded ? 1 : (size_t)(end - scope));
                scope = end + (*end == '.');
            }
        }
        node = find_node(tree, node, text_string(&path));
        add_to_node(&tree->nodes[node], row, layer);
    }
    text_release(&path);
}

static int phase_index(const char *phase) {
    for (int i = 0; i < PHASE_COLUMNS; i++)
        if (strcmp(phase, PHASES[i]) == 0)
            return i;
    return -1;
}

static scope_tree build(const profile_rows *scopes, bool is_folded) {
    scope_tree tree = {.strings = arena_create(), .is_folded = is_folded};
    find_node(&tree, -1, "");
    for (int64_t i = 0; i < scopes->count; i++) {
        scope_row row = {.phase = phase_index(profile_rows_text(scopes, i, KEY_PHASE)),
                         .ns = profile_rows_number(scopes, i, COLUMN_TIME),
                         .count = profile_rows_number(scopes, i, COLUMN_COUNT)};
        add_scope(&tree, profile_rows_text(scopes, i, KEY_SCOPE), &row);
    }
    return tree;
}

static void release(scope_tree *tree) {
    for (int i = 0; i < tree->count; i++) {
        free(tree->nodes[i].layers);
        free(tree->nodes[i].children);
    }
    free(tree->nodes);
    name_table_release(&tree->by_path);
    arena_destroy(tree->strings);
}

/* ---- as a table ---- */

typedef struct tree_view {
    const results *run;
    const results_cell *cell;
    scope_tree *tree;
    int64_t depth; /* 0: all */
    bool is_full, has_phase[PHASE_COLUMNS], has_layers;
    report_table *table;
} tree_view;

static void add_columns(const tree_view *v) {
    table_add_column(v->table, KEY_SCOPE, KEY_SCOPE, TABLE_LEFT);
    for (int i = 0; i < PHASE_COLUMNS; i++) {
        text header = {0};
        text_format(&header, "%s ms", PHASES[i]);
        if (v->has_phase[i])
            table_add_column(v->table, PHASES[i], text_string(&header), TABLE_RIGHT);
        text_release(&header);
    }
    table_add_column(v->table, "time_ms", "time ms", TABLE_RIGHT);
    table_add_column(v->table, "percent", "%", TABLE_RIGHT);
    if (v->has_layers) {
        table_add_column(v->table, "layers", "layers", TABLE_RIGHT);
        table_add_column(v->table, "layer_mean_ms", "a layer: mean ms", TABLE_RIGHT);
        table_add_column(v->table, "layer_min_ms", "min ms", TABLE_RIGHT);
        table_add_column(v->table, "layer_max_ms", "max ms", TABLE_RIGHT);
    }
    table_add_column(v->table, "count", "launches", TABLE_RIGHT);
}

static void add_spread(const scope_node *node, report_table *t) {
    double least = INFINITY, most = 0, sum = 0;
    for (int i = 0; i < node->layer_count; i++) {
        double ns = node->layers[i].ns;
        least = ns < least ? ns : least;
        most = ns > most ? ns : most;
        sum += ns;
    }
    if (node->layer_count == 0) {
        for (int i = 0; i < 4; i++)
            table_add_empty(t);
        return;
    }
    table_add_integer(t, node->layer_count);
    table_add_real(t, sum / node->layer_count / 1e6, 3);
    table_add_real(t, least / 1e6, 3);
    table_add_real(t, most / 1e6, 3);
}

/* "    softmax" below "  attn" below "layers.*": what the line above does not say. */
static void add_name(const tree_view *v, const scope_node *node) {
    const char *above = v->tree->nodes[node->parent].path;
    const char *own = node->path + (*above ? strlen(above) + 1 : 0);
    if (v->is_full)
        table_add_text(v->table, node->path);
    else
        table_add_format(v->table, "%*s%s", 2 * (node->level - 1), "", own);
}

static void add_line(const tree_view *v, const scope_node *node) {
    report_table *t = v->table;
    profile_add_row(v->cell, v->is_full, t);
    add_name(v, node);
    for (int i = 0; i < PHASE_COLUMNS; i++)
        if (v->has_phase[i])
            table_add_real(t, node->ns[i] / 1e6, 3);
    table_add_real(t, node->total_ns / 1e6, 3);
    table_add_real(t, 100 * node->total_ns / v->tree->nodes[0].total_ns, 1);
    if (v->has_layers)
        add_spread(node, t);
    table_add_integer(t, (int64_t)node->count);
}

static int longest_first(const void *a, const void *b) {
    const scope_node *x = *(const scope_node *const *)a, *y = *(const scope_node *const *)b;
    if (x->total_ns < y->total_ns || x->total_ns > y->total_ns)
        return x->total_ns < y->total_ns ? 1 : -1;
    return strcmp(x->path, y->path);
}

/* Launches of the scope and of none below it, so that a line is the sum of the lines below. */
static void add_itself(const tree_view *v, const scope_node *node) {
    scope_node own = {.parent = (int)(node - v->tree->nodes),
                      .level = node->level + 1,
                      .total_ns = node->total_ns,
                      .count = node->count};
    memcpy(own.ns, node->ns, sizeof own.ns);
    for (int i = 0; i < node->child_count; i++) {
        const scope_node *child = &v->tree->nodes[node->children[i]];
        own.total_ns -= child->total_ns;
        own.count -= child->count;
        for (int j = 0; j < PHASE_COLUMNS; j++)
            own.ns[j] =
                fmax(own.ns[j] - child->ns[j], 0); /* rounding may leave less than nothing */
    }
    if (node->level == 0 || node->child_count == 0 || own.count < 0.5)
        return;
    text path = {0};
    text_format(&path, "%s.(itself)", node->path);
    own.path = text_string(&path);
    add_line(v, &own);
    text_release(&path);
}

static void add_children(const tree_view *v, const scope_node *node) {
    const scope_node **sorted = memory_allocate((size_t)node->child_count, sizeof *sorted);
    for (int i = 0; i < node->child_count; i++)
        sorted[i] = &v->tree->nodes[node->children[i]];
    qsort(sorted, (size_t)node->child_count, sizeof *sorted, longest_first);
    for (int i = 0; i < node->child_count; i++) {
        add_line(v, sorted[i]);
        if (v->depth == 0 || sorted[i]->level < v->depth)
            add_children(v, sorted[i]);
    }
    add_itself(v, node);
    free(sorted);
}

/* Columns that say nothing of this cell are left out. */
static void choose_columns(tree_view *v) {
    for (int i = 0; i < PHASE_COLUMNS; i++)
        v->has_phase[i] = !isnan(profile_phase_ns(v->run, v->cell, PHASES[i]));
    for (int i = 0; i < v->tree->count; i++)
        v->has_layers = v->has_layers || v->tree->nodes[i].layer_count;
}

void profile_add_scopes(const results *run, const results_cell *cell, bool is_full,
                        report_document *out) {
    profile_rows scopes = profile_rows_find(run, cell, BREAKDOWN_SCOPES);
    int64_t depth = profile_shown_number(run, ENV_SHOWN_DEPTH, 3);
    if (!scopes.count)
        return;
    scope_tree tree = build(&scopes, depth > 0);
    tree_view v = {.run = run, .cell = cell, .tree = &tree, .depth = depth, .is_full = is_full};
    choose_columns(&v);
    v.table = profile_create_table(run, cell, "scopes", is_full);
    add_columns(&v);
    add_children(&v, &tree.nodes[0]);
    table_add_note(v.table, "a line is the sum of the lines below it; %s",
                   depth ? "--depth shows more levels, --depth 0 every layer by itself"
                         : "--depth 3 folds the layers into one line each");
    document_add_table(out, v.table);
    release(&tree);
}

/* A file has the same columns for every cell. */
static tree_view view_of_all(const profile_part *part, report_table *t) {
    tree_view v = {.run = part->run,
                   .depth = profile_shown_number(part->run, ENV_SHOWN_DEPTH, 3),
                   .is_full = true,
                   .has_layers = true,
                   .table = t};
    for (int i = 0; i < PHASE_COLUMNS; i++)
        v.has_phase[i] = true;
    return v;
}

static void add_full_columns(const profile_part *part, report_table *t) {
    tree_view v = view_of_all(part, t);
    add_columns(&v);
}

static void add_full_rows(const profile_part *part, const results_cell *cell, report_table *t) {
    tree_view v = view_of_all(part, t);
    profile_rows scopes = profile_rows_find(part->run, cell, BREAKDOWN_SCOPES);
    scope_tree tree = build(&scopes, v.depth > 0);
    v.cell = cell;
    v.tree = &tree;
    add_children(&v, &tree.nodes[0]);
    release(&tree);
}

void profile_add_all_scopes(const results *run, report_document *out) {
    profile_part part = {
        .run = run, .title = "scopes", .add_columns = add_full_columns, .add_rows = add_full_rows};
    profile_add_every_cell(run, &part, out);
}
