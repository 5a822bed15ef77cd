/* figure.c - makes the figures of a run by the recipes, and what renderers ask of a figure.
 *
 * A part of a run (a facet, one kind of cells) is a run with fewer cells, so that everything that is said of runs
 * (which parameters vary) is said of the part. */
#include "report/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "measure/keys.h"
#include "report/figure_quantities.h"
#include "report/view_parts.h"

/* Figures of a run; one that needs more has more settings than anybody looks at in plots. */
enum { MOST_LINES = 24, MOST_CATEGORIES = 48, MOST_FIGURES = 32, MOST_TRIES = 512 };

typedef struct figure_builder {
    figure *f;
    const figure_recipe *recipe;
    const results *run;
    view_list telling; /* parameters that tell cells apart, but for `along` */
    const char
        *series; /* of bars: the parameter that has the colours; NULL: quantities have them */
} figure_builder;

/* ---- names ---- */

/* No settings, or not of the measurement. */
static const char *const NEVER[] = {PARAM_TILES_USED, PARAM_PEAK_AT, PARAM_FITS, PARAM_FITS_WITH,
                                    PARAM_RESIDUAL,   PARAM_FORMULA, PARAM_REPS, NULL};
/* That mostly follow from others: they name a line only where nothing else tells two cells apart. */
static const char *const FOLLOWERS[] = {PARAM_TILE,  PARAM_ATTENTION, PARAM_GRADIENTS,
                                        PARAM_STEPS, PARAM_THREADS,   PARAM_HOSTS,
                                        PARAM_PART,  PARAM_WARMUP,    NULL};

static bool agree_but_for_followers(const results_cell *a, const results_cell *b) {
    for (int i = 0; i < a->parameters.count; i++) {
        const results_entry *entry = &a->parameters.entries[i];
        if (!view_is_one_of(entry->key, NEVER) && !view_is_one_of(entry->key, FOLLOWERS) &&
            !view_values_are_equal(&entry->value, cell_find_parameter(b, entry->key)))
            return false;
    }
    return true;
}

static bool tells_apart(const results *run, const char *key) {
    enum { MOST_CELLS = 500 };
    if (view_is_one_of(key, NEVER) || view_is_in_the_models_name(run->cells[0], key) ||
        !view_parameter_varies(run, key))
        return false;
    if (!view_is_one_of(key, FOLLOWERS) || run->cell_count > MOST_CELLS)
        return true;
    for (int64_t i = 0; i < run->cell_count; i++)
        for (int64_t j = 0; j < i; j++)
            if (!view_values_are_equal(cell_find_parameter(run->cells[i], key),
                                       cell_find_parameter(run->cells[j], key)) &&
                agree_but_for_followers(run->cells[i], run->cells[j]))
                return true;
    return false;
}

static void find_telling(figure_builder *b) {
    view_list all = {0};
    view_collect_parameters(b->run, &all);
    for (int i = 0; i < all.count; i++)
        if (!(b->recipe->along && strcmp(all.names[i], b->recipe->along) == 0) &&
            tells_apart(b->run, all.names[i]))
            view_list_add(&b->telling, all.names[i], "");
}

static bool is_telling(const figure_builder *b, const char *key) {
    const char *const one[] = {key, NULL};
    for (int i = 0; i < b->telling.count; i++)
        if (view_is_one_of(b->telling.names[i], one))
            return true;
    return false;
}

/* Colours are for what is compared, where the bars differ in something else as well. */
static void find_series(figure_builder *b) {
    static const char *const compared[] = {PARAM_MATH, PARAM_MODE, PARAM_IMPL, PARAM_ATTENTION};
    for (int i = 0; i < 4 && !b->series && b->telling.count > 1; i++)
        if (b->recipe->form == FIGURE_BARS && is_telling(b, compared[i]))
            b->series = compared[i];
}

static void append_setting(const results_cell *cell, const char *key, text *name) {
    const results_value *value = cell_find_parameter(cell, key);
    if (!value)
        return;
    text_append(name, name->length ? ", " : "");
    if (value->kind != RESULTS_TEXT)
        text_format(name, "%s ", key);
    view_append_value(name, value);
}

/* "flash, bf16, head_dim 64": what tells this cell from the others. */
static void append_name(const figure_builder *b, const results_cell *cell, text *name) {
    text_append(name, "");
    for (int i = 0; i < b->telling.count; i++)
        if (!b->series || strcmp(b->telling.names[i], b->series) != 0)
            append_setting(cell, b->telling.names[i], name);
}

/* ---- points ---- */

static figure_line *find_line(figure *f, const char *name) {
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->lines[i].name, name) == 0)
            return &f->lines[i];
    if (f->count == MOST_LINES) {
        f->left_out++;
        return NULL;
    }
    MEMORY_GROW(f->lines, f->count, f->capacity);
    f->lines[f->count] = (figure_line){.name = arena_copy_string(f->memory, name)};
    return &f->lines[f->count++];
}

static int find_category(figure *f, const char *name) {
    for (int i = 0; i < f->category_count; i++)
        if (strcmp(f->categories[i], name) == 0)
            return i;
    if (f->category_count == MOST_CATEGORIES) {
        f->left_out++;
        return -1;
    }
    MEMORY_GROW(f->categories, f->category_count, f->category_capacity);
    f->categories[f->category_count] = arena_copy_string(f->memory, name);
    return f->category_count++;
}

/* A line is what the cells of it have in common, and the quantity. */
static figure_line *line_of(figure_builder *b, const results_cell *cell, const char *quantity) {
    text name = {0};
    if (!figure_is_bars(b->f))
        append_name(b, cell, &name);
    else if (b->series)
        append_setting(cell, b->series, &name);
    if (quantity[0])
        text_format(&name, "%s%s", name.length ? ", " : "", quantity);
    if (!name.length && !figure_is_bars(b->f))
        text_append(&name, b->run->verb);
    figure_line *line = find_line(b->f, text_string(&name));
    text_release(&name);
    return line;
}

static double place_of(figure_builder *b, const results_cell *cell) {
    if (!figure_is_bars(b->f))
        return b->recipe->along ? results_number(cell_find_parameter(cell, b->recipe->along)) : 0;
    text name = {0};
    append_name(b, cell, &name);
    int category = find_category(b->f, text_string(&name));
    text_release(&name);
    return category;
}

/* Whether the x axis has a place for it. */
static bool has_place(const figure *f, double x) {
    return figure_can_draw(x) || (!f->x.is_logarithmic && fabs(x) <= 0);
}

/* What cannot be drawn is left out of the point: a file may hold any number. */
static void keep_drawable(const figure *f, figure_point *point) {
    if (!figure_can_draw(point->y) && !(fabs(point->y) <= 0))
        point->y = (double)NAN;
    if (!figure_can_draw(point->high))
        point->high = point->y;
    if (!figure_can_draw(point->low) && (f->y.is_logarithmic || !(fabs(point->low) <= 0)))
        point->low = point->y;
}

static void add_point(figure_builder *b, const results_cell *cell, const figure_quantity *quantity,
                      double x) {
    figure_point point = {
        x, (double)NAN, (double)NAN, (double)NAN, results_status_name(cell->status), "", "", false};
    if (!quantity->read(b->f, cell, quantity->which, &point) || !has_place(b->f, point.x))
        return;
    keep_drawable(b->f, &point);
    if (b->f->form == FIGURE_STACKS && isnan(point.y) && strcmp(point.status, "OK") == 0)
        return; /* a whole may lack a part */
    figure_line *line = line_of(b, cell, quantity->name);
    if (line)
        figure_line_add(line, point);
}

static void add_cell(figure_builder *b, const results_cell *cell) {
    const figure_recipe *recipe = b->recipe;
    if (!recipe->quantities[0].read) {
        figure_line *line = line_of(b, cell, "");
        if (line)
            figure_add_steps(b->f, cell, line);
        return;
    }
    double x = recipe->form == FIGURE_DOTS ? 0 : place_of(b, cell);
    for (int i = 0; i < FIGURE_QUANTITIES && recipe->quantities[i].read && x >= 0; i++)
        add_point(b, cell, &recipe->quantities[i], x);
}

static int compare_points(const void *a, const void *b) {
    double x = ((const figure_point *)a)->x, y = ((const figure_point *)b)->x;
    return (x > y) - (x < y);
}

/* ---- a figure ---- */

static figure *make_figure(const figure_recipe *recipe, const results *run, const char *title) {
    figure *f = memory_allocate(1, sizeof *f);
    f->memory = arena_create();
    f->title = arena_format(f->memory, "%s: %s", run->verb, title);
    f->form = recipe->form;
    f->x = recipe->x;
    f->y = recipe->y;
    f->hollow = recipe->hollow ? recipe->hollow : "";
    f->limit = recipe->limit ? recipe->limit(run) : (double)NAN;
    f->limit_name = recipe->limit_name ? recipe->limit_name : "";
    figure_builder b = {.f = f, .recipe = recipe, .run = run};
    find_telling(&b);
    find_series(&b);
    for (int64_t i = 0; i < run->cell_count; i++)
        add_cell(&b, run->cells[i]);
    for (int i = 0; i < f->count; i++)
        if (f->lines[i].count)
            qsort(f->lines[i].points, (size_t)f->lines[i].count, sizeof(figure_point),
                  compare_points);
    return f;
}

/* A line needs two points; bars and dots are compared with one another, one of them may have failed. */
static bool is_worth_drawing(const figure *f) {
    int longest = 0, drawn = 0, all = 0;
    for (int i = 0; i < f->count; i++) {
        int of_line = 0;
        for (int j = 0; j < f->lines[i].count; j++)
            of_line += f->lines[i].points[j].y > 0;
        longest = of_line > longest ? of_line : longest;
        drawn += of_line;
        all += f->lines[i].count;
    }
    return f->form == FIGURE_LINES ? longest > 1 : drawn > 0 && all > 1;
}

void figure_destroy(figure *f) {
    if (!f)
        return;
    for (int i = 0; i < f->count; i++)
        free(f->lines[i].points);
    free(f->lines);
    free(f->categories);
    arena_destroy(f->memory);
    free(f);
}

/* ---- all figures of a run ---- */

/* Also where neither has the parameter. */
static bool is_same(const results_value *a, const results_value *b) {
    return (!a && !b) || view_values_are_equal(a, b);
}

static bool varies(const results *run, const char *key) {
    for (int64_t i = 1; i < run->cell_count; i++)
        if (!is_same(cell_find_parameter(run->cells[0], key),
                     cell_find_parameter(run->cells[i], key)))
            return true;
    return false;
}

/* The run with those cells only whose parameter has this value; the cells are the caller's to free. */
static results part_of(const results *run, const char *key, const results_value *value) {
    results part = *run;
    part.cells = memory_allocate((size_t)run->cell_count + 1, sizeof(results_cell *));
    part.cell_count = 0;
    for (int64_t i = 0; i < run->cell_count; i++)
        if (is_same(value, cell_find_parameter(run->cells[i], key)))
            part.cells[part.cell_count++] = run->cells[i];
    return part;
}

static bool is_first_with(const results *run, int64_t index, const char *key) {
    const results_value *value = cell_find_parameter(run->cells[index], key);
    for (int64_t i = 0; i < index; i++)
        if (is_same(value, cell_find_parameter(run->cells[i], key)))
            return false;
    return true;
}

static void add_figures(figure_list *list, const figure_recipe *recipe, const results *run,
                        int facet, const char *title);

/* A figure for each value of the facet. */
static void split(figure_list *list, const figure_recipe *recipe, const results *run, int facet,
                  const char *title) {
    const char *key = recipe->facets[facet];
    for (int64_t i = 0; i < run->cell_count && !list->is_cut; i++) {
        if (!is_first_with(run, i, key))
            continue;
        text its_title = {0}, setting = {0};
        results part = part_of(run, key, cell_find_parameter(run->cells[i], key));
        append_setting(run->cells[i], key, &setting);
        text_format(&its_title, setting.length ? "%s, %s" : "%s", title, text_string(&setting));
        add_figures(list, recipe, &part, facet + 1, text_string(&its_title));
        free(part.cells);
        text_release(&its_title);
        text_release(&setting);
    }
}

static void add_figures(figure_list *list, const figure_recipe *recipe, const results *run,
                        int facet, const char *title) {
    list->is_cut = list->is_cut || ++list->tried > MOST_TRIES;
    if (list->is_cut)
        return;
    figure *f = make_figure(recipe, run, title);
    while (facet < FIGURE_FACETS && recipe->facets[facet] && !varies(run, recipe->facets[facet]))
        facet++;
    if (facet < FIGURE_FACETS && recipe->facets[facet] &&
        (f->count > recipe->most_lines || f->left_out)) {
        split(list, recipe, run, facet, title);
    } else if (list->count == MOST_FIGURES) {
        list->is_cut = true;
    } else if (is_worth_drawing(f)) {
        MEMORY_GROW(list->figures, list->count, list->capacity);
        list->figures[list->count++] = f;
        f = NULL;
    }
    figure_destroy(f);
}

static bool applies(const figure_recipe *recipe, const results *run) {
    if (!run->cell_count || (recipe->varies && !varies(run, recipe->varies)))
        return false;
    for (const char *const *key = recipe->unless; key && *key; key++)
        if (varies(run, *key))
            return false;
    return true;
}

figure_list figure_list_create(const results *run) {
    figure_list list = {0};
    for (const figure_recipe *recipe = FIGURE_RECIPES; recipe->verb; recipe++) {
        if (strcmp(recipe->verb, run->verb) != 0)
            continue;
        results_value value = {.kind = RESULTS_TEXT, .text = recipe->part};
        results part = recipe->part ? part_of(run, PARAM_PART, &value) : *run;
        if (applies(recipe, &part))
            add_figures(&list, recipe, &part, 0, recipe->title);
        if (recipe->part)
            free(part.cells);
    }
    return list;
}

void figure_list_release(figure_list *list) {
    for (int i = 0; i < list->count; i++)
        figure_destroy(list->figures[i]);
    free(list->figures);
    *list = (figure_list){0};
}

/* ---- for renderers ---- */

static void stretch(figure_range *range, bool is_logarithmic, double value) {
    if (!isfinite(value) || (is_logarithmic && !(value > 0)))
        return;
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

/* One value: room on both sides of it. None: anything. */
static figure_range widened(figure_range range, bool is_logarithmic) {
    if (range.low > range.high)
        return (figure_range){is_logarithmic ? 1 : 0, 1.5};
    bool is_one = range.high - range.low <= fabs(range.high) * 1e-4;
    if (is_one && is_logarithmic)
        return (figure_range){range.low / 2, range.high * 2};
    double room = is_one ? fmax(fabs(range.high) / 2, 1e-9) : 0;
    return (figure_range){range.low - room, range.high + room};
}

figure_range figure_x_range(const figure *f) {
    figure_range range = {INFINITY, -INFINITY};
    for (int i = 0; i < f->count; i++)
        for (int j = 0; j < f->lines[i].count; j++)
            stretch(&range, f->x.is_logarithmic, f->lines[i].points[j].x);
    bool is_one = range.high <= range.low;
    return is_one && f->x.is_logarithmic ? range : widened(range, f->x.is_logarithmic);
}

double figure_stack_height(const figure *f, int category) {
    double height = 0;
    for (int i = 0; i < f->count; i++)
        for (int j = 0; j < f->lines[i].count; j++) {
            const figure_point *point = &f->lines[i].points[j];
            if ((int)point->x == category && point->y > 0)
                height += point->y;
        }
    return height;
}

/* A limit far above everything would leave no room for the rest. */
static void stretch_to_limit(const figure *f, figure_range *range) {
    enum { NEAR = 10 };
    if (f->limit > 0 && f->limit < NEAR * range->high)
        stretch(range, f->y.is_logarithmic, f->limit);
}

figure_range figure_y_range(const figure *f) {
    figure_range range = {INFINITY, -INFINITY};
    for (int i = 0; i < f->count; i++)
        for (int j = 0; j < f->lines[i].count; j++) {
            stretch(&range, f->y.is_logarithmic, f->lines[i].points[j].low);
            stretch(&range, f->y.is_logarithmic, f->lines[i].points[j].high);
        }
    for (int c = 0; f->form == FIGURE_STACKS && c < f->category_count; c++)
        stretch(&range, false, figure_stack_height(f, c));
    stretch_to_limit(f, &range);
    range = widened(range, f->y.is_logarithmic);
    if (figure_is_bars(f))
        range.low = 0;
    return range;
}

void figure_append_number(text *out, figure_unit unit, double value) {
    static const char *const DECIMAL[] = {"", "k", "M", "G", "T"}, *const BINARY[] = {
                                                                       "", "Ki", "Mi", "Gi", "Ti"};
    const double step = unit == FIGURE_DECIMAL_BYTES ? 1000 : 1024;
    int i = 0;
    if (unit == FIGURE_NUMBERS) {
        bool is_whole = fabs(value) < 1e9 && fabs(value - round(value)) < 1e-9;
        text_format(out, is_whole ? "%.0f" : "%.4g", value);
        return;
    }
    while (fabs(value) >= step && i < 4) {
        value /= step;
        i++;
    }
    text_format(out, "%.4g %sB", value, unit == FIGURE_DECIMAL_BYTES ? DECIMAL[i] : BINARY[i]);
}
