/* test_memory.c - the experiment "memory": the full grid, predicted equal to measured, advice that is
 * true, and nothing of it without a unit. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "experiments/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "measure/keys.h"
#include "report/view.h"
#include "support/expect.h"
#include "support/own_cache.h"

#define MODEL "d-model=32", "d-ff=64", "layers=4", "heads=2", "vocab=50"

static dyno_status run(experiment_output *out, bool replaces, int count,
                       const char *const *settings) {
    const experiment *e = experiment_find("memory");
    experiment_context context = {.replaces_anything = replaces};
    flags *given;
    *out = (experiment_output){0};
    RETURN_IF_FAILED(flags_parse_settings(e->settings, count, settings, &given));
    dyno_status status = experiment_run(e, given, &context, out);
    flags_destroy(given);
    return status;
}
#define RUN(out, ...)                                                                              \
    run(out, false, (int)(sizeof(const char *[]){__VA_ARGS__} / sizeof(char *)),                   \
        (const char *const[]){__VA_ARGS__})

static int64_t metric(const results_cell *cell, const char *name) {
    const results_metric *found = cell_find_metric(cell, name);
    if (!found)
        fail_msg("no metric %s", name);
    return found->value.integer;
}

static double number(const results_breakdown *b, int64_t row, const char *column) {
    for (int i = 0; i < b->column_count; i++)
        if (strcmp(b->columns[i].name, column) == 0)
            return results_number(&b->rows[row].values[i]);
    fail_msg("no column %s", column);
    return 0;
}

/* ---- the grid ---- */

/* Rows that failed were once left out without a word. */
static void every_cell_of_the_grid_is_a_row(void **state) {
    (void)state;
    experiment_output out;
    expect_ok(RUN(&out, MODEL, "target=avx2", "context=16,64", "pass=forward,step",
                  "mode=eager,compiled", "attention=naive,flash", "recompute=none,every:2",
                  "memory=1MiB"));
    assert_int_equal(out.run->cell_count, 2 * 2 * 2 * 2 * 2);
    int64_t seen[RESULTS_FAILED + 1] = {0};
    for (int64_t i = 0; i < out.run->cell_count; i++) {
        const results_cell *cell = out.run->cells[i];
        seen[cell->status]++;
        if (cell->status == RESULTS_SKIP)
            assert_true(strlen(cell->reason) > 20);
        if (cell->status == RESULTS_OOM)
            assert_true(metric(cell, METRIC_NEEDED_BYTES) > metric(cell, METRIC_AVAILABLE_BYTES));
        if (cell->status == RESULTS_OK)
            assert_true(metric(cell, METRIC_PREDICTED_RESERVED_BYTES) <= 1 << 20);
    }
    assert_true(seen[RESULTS_OK] > 0 && seen[RESULTS_OOM] > 0 && seen[RESULTS_SKIP] > 0);
    assert_int_equal(seen[RESULTS_FAILED] + seen[RESULTS_INCOMPLETE], 0);
    report_document *document = view_create_document(out.run, false);
    assert_int_equal(document->blocks[0].kind, BLOCK_TABLE);
    assert_int_equal(document->blocks[0].table->row_count, out.run->cell_count);
    document_destroy(document);
    experiment_output_release(&out);
}

static void without_a_limit_of_its_own_the_chips_memory_decides(void **state) {
    (void)state;
    static const char *const targets[] = {"target=4090", "target=h200"};
    for (int i = 0; i < 2; i++) {
        experiment_output out;
        expect_ok(RUN(&out, "model=xl", "layers=2", "context=4096", "pass=step", targets[i],
                      "part=grid"));
        assert_int_equal(out.run->cells[0]->status, i == 0 ? RESULTS_OOM : RESULTS_OK);
        experiment_output_release(&out);
    }
}

/* ---- measured ---- */

static void measured_is_equal_to_predicted(void **state) {
    (void)state;
    experiment_output out;
    expect_ok(RUN(&out, MODEL, "device=cpu", "context=16", "pass=forward,step",
                  "mode=eager,compiled", "precision=fp32,bf16", "part=grid,timeline", "measure"));
    assert_int_equal(out.run->cell_count, 8);
    for (int64_t i = 0; i < out.run->cell_count; i++) {
        const results_cell *cell = out.run->cells[i];
        assert_int_equal(cell->status, RESULTS_OK);
        assert_int_equal(metric(cell, METRIC_RESERVED_BYTES),
                         metric(cell, METRIC_PREDICTED_RESERVED_BYTES));
        assert_int_equal(metric(cell, METRIC_TENSOR_BYTES), metric(cell, METRIC_ALIVE_BYTES));
        assert_int_equal(metric(cell, METRIC_TENSOR_PEAK_LAUNCH), metric(cell, METRIC_PEAK_LAUNCH));
        bool is_compiled = strcmp(cell_find_parameter(cell, PARAM_MODE)->text, "compiled") == 0;
        assert_int_equal(metric(cell, METRIC_PEAK_BYTES),
                         metric(cell, is_compiled ? METRIC_PREDICTED_BYTES : METRIC_BLOCK_BYTES));
        const results_breakdown *t = cell_find_breakdown(cell, BREAKDOWN_TIMELINE);
        for (int64_t row = 0; row < t->row_count; row++)
            assert_true(number(t, row, COLUMN_MEASURED) <= number(t, row, COLUMN_BLOCKS) &&
                        number(t, row, COLUMN_MEASURED) >= number(t, row, COLUMN_BLOCKS));
    }
    experiment_output_release(&out);
}

static void a_step_that_does_not_fit_is_not_run(void **state) {
    (void)state;
    experiment_output out;
    expect_ok(RUN(&out, MODEL, "device=cpu", "context=16", "measure", "memory=64KiB"));
    const results_cell *cell = out.run->cells[0];
    assert_int_equal(cell->status, RESULTS_OOM);
    assert_null(cell_find_metric(cell, METRIC_TENSOR_BYTES));
    assert_int_equal(metric(cell, METRIC_AVAILABLE_BYTES), 64 << 10);
    experiment_output_release(&out);
}

static void a_chip_that_is_not_here_cannot_be_measured(void **state) {
    (void)state;
    experiment_output out;
    assert_int_equal(RUN(&out, MODEL, "target=h200", "measure"), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "h200"));
    assert_null(out.run);
}

/* ---- advice ---- */

static const results_breakdown *advice_of(experiment_output *out, const char *mode,
                                          const char *precision_setting) {
    expect_ok(RUN(out, MODEL, "context=64", "target=h200", mode, precision_setting, "part=advice"));
    const results_breakdown *b = cell_find_breakdown(out->run->cells[0], BREAKDOWN_ADVICE);
    assert_non_null(b);
    return b;
}

static int64_t find_change(const results_breakdown *b, const char *change) {
    for (int64_t i = 0; i < b->row_count; i++)
        if (strncmp(b->rows[i].keys[0], change, strlen(change)) == 0)
            return i;
    return -1;
}

static void advice_names_every_change_that_there_is(void **state) {
    (void)state;
    static const char *const eager[] = {"--mode compiled",
                                        "flash attention in --mode compiled",
                                        "chunked loss head in --mode compiled",
                                        "--precision bf16",
                                        "--recompute mlp:1",
                                        "--recompute every:2",
                                        "--recompute full",
                                        "--batch 2 --accumulate 2",
                                        "--ranks 8 --parallel zero1",
                                        "--ranks 8 --parallel fsdp"};
    experiment_output out;
    const results_breakdown *b = advice_of(&out, "mode=eager", "precision=fp32");
    for (size_t i = 0; i < sizeof eager / sizeof *eager; i++)
        assert_true(find_change(b, eager[i]) >= 0);
    assert_int_equal(b->row_count, sizeof eager / sizeof *eager);
    experiment_output_release(&out);
    b = advice_of(&out, "mode=compiled", "precision=bf16");
    assert_int_equal(find_change(b, "--mode"), -1);
    assert_int_equal(find_change(b, "--precision"), -1);
    assert_true(find_change(b, "--recompute full") >= 0);
    experiment_output_release(&out);
}

static double reserved_by(const char *mode, const char *precision_setting, const char *batch,
                          const char *accumulate) {
    experiment_output out;
    expect_ok(RUN(&out, MODEL, "context=64", "target=h200", mode, precision_setting, batch,
                  accumulate, "part=grid"));
    double bytes = (double)metric(out.run->cells[0], METRIC_PREDICTED_RESERVED_BYTES);
    experiment_output_release(&out);
    return bytes;
}

static void advice_to_accumulate_needs_what_such_a_step_reserves(void **state) {
    (void)state;
    static const char *const modes[] = {"mode=eager", "mode=compiled"};
    static const char *const precisions[] = {"precision=fp32", "precision=bf16"};
    for (int i = 0; i < 4; i++) {
        const char *mode = modes[i / 2], *precision_setting = precisions[i % 2];
        experiment_output out;
        const results_breakdown *b = advice_of(&out, mode, precision_setting);
        int64_t row = find_change(b, "--batch 2 --accumulate 2");
        assert_true(row >= 0);
        assert_true(number(b, row, COLUMN_AFTER) ==
                    reserved_by(mode, precision_setting, "batch=2", "accumulate=2"));
        assert_true(number(b, row, COLUMN_SECONDS) > number(b, row, COLUMN_SECONDS_BEFORE));
        experiment_output_release(&out);
    }
}

/* What a row says is what the flags that it names give. */
static void advice_to_shard_needs_what_one_of_those_ranks_reserves(void **state) {
    (void)state;
    static const char *const modes[] = {"mode=eager", "mode=compiled"};
    static const char *const ways[][3] = {
        {"--ranks 8 --parallel zero1", "ranks=8", "parallel=zero1"},
        {"--ranks 8 --parallel fsdp", "ranks=8", "parallel=fsdp"}};
    for (int i = 0; i < 4; i++) {
        const char *const *way = ways[i / 2];
        experiment_output out;
        const results_breakdown *b = advice_of(&out, modes[i % 2], "precision=bf16");
        int64_t row = find_change(b, way[0]);
        assert_true(row >= 0);
        assert_true(number(b, row, COLUMN_AFTER) ==
                    reserved_by(modes[i % 2], "precision=bf16", way[1], way[2]));
        experiment_output_release(&out);
    }
}

static void expect_changes(const char *ranks, const char *parallel, const char *pass,
                           const char *const *wanted, int count) {
    experiment_output out;
    expect_ok(RUN(&out, MODEL, "context=64", "target=h200", ranks, parallel, pass, "part=advice"));
    const results_breakdown *b = cell_find_breakdown(out.run->cells[0], BREAKDOWN_ADVICE);
    int found = 0;
    for (int64_t i = 0; i < b->row_count; i++)
        found += strstr(b->rows[i].keys[0], "--parallel") != NULL;
    assert_int_equal(found, count);
    for (int i = 0; i < count; i++)
        assert_true(find_change(b, wanted[i]) >= 0);
    experiment_output_release(&out);
}

static void advice_to_shard_is_of_steps_that_are_not_sharded(void **state) {
    (void)state;
    static const char *const of_ddp[] = {"--parallel zero1", "--parallel fsdp"};
    static const char *const of_forward[] = {"--ranks 8 --parallel fsdp"};
    expect_changes("ranks=4", "parallel=ddp-flat", "pass=step", of_ddp, 2);
    expect_changes("ranks=4", "parallel=zero1", "pass=step", of_ddp + 1, 1);
    expect_changes("ranks=4", "parallel=fsdp", "pass=step", NULL, 0);
    expect_changes("ranks=1", "parallel=ddp-flat", "pass=forward", of_forward, 1);
}

/* Those that save come first, and among them the cheapest in time. */
static void advice_is_cheapest_first(void **state) {
    (void)state;
    experiment_output out;
    const results_breakdown *b = advice_of(&out, "mode=eager", "precision=fp32");
    for (int64_t i = 1; i < b->row_count; i++) {
        bool saved = number(b, i - 1, COLUMN_AFTER) < number(b, i - 1, COLUMN_BEFORE);
        bool saves = number(b, i, COLUMN_AFTER) < number(b, i, COLUMN_BEFORE);
        double before = number(b, i - 1, COLUMN_SECONDS) - number(b, i - 1, COLUMN_SECONDS_BEFORE);
        double cost = number(b, i, COLUMN_SECONDS) - number(b, i, COLUMN_SECONDS_BEFORE);
        assert_true(saved || !saves);
        if (saved == saves)
            assert_true(before <= cost);
    }
    experiment_output_release(&out);
}

/* What a row promises is what a run with the change needs. */
static void a_change_needs_what_its_row_says(void **state) {
    (void)state;
    static const struct {
        const char *change, *setting;
    } changes[] = {{"--mode compiled", "mode=compiled"},
                   {"--precision bf16", "precision=bf16"},
                   {"--recompute mlp:1", "recompute=mlp:1"},
                   {"--recompute full", "recompute=full"}};
    experiment_output out, changed;
    const results_breakdown *b = advice_of(&out, "mode=eager", "precision=fp32");
    int64_t now = metric(out.run->cells[0], METRIC_PREDICTED_RESERVED_BYTES);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        int64_t row = find_change(b, changes[i].change);
        expect_ok(
            RUN(&changed, MODEL, "context=64", "target=h200", changes[i].setting, "part=grid"));
        assert_int_equal((int64_t)number(b, row, COLUMN_BEFORE), now);
        assert_int_equal((int64_t)number(b, row, COLUMN_AFTER),
                         metric(changed.run->cells[0], METRIC_PREDICTED_RESERVED_BYTES));
        experiment_output_release(&changed);
    }
    experiment_output_release(&out);
}

static void a_step_that_does_not_fit_is_told_what_would(void **state) {
    (void)state;
    experiment_output out;
    expect_ok(RUN(&out, MODEL, "context=64", "target=avx2", "memory=2100KiB"));
    const results_cell *cell = out.run->cells[0];
    assert_int_equal(cell->status, RESULTS_OOM);
    assert_int_equal(
        strncmp(cell_find_parameter(cell, PARAM_FITS_WITH)->text, "--mode compiled", 15), 0);
    experiment_output_release(&out);
}

/* ---- the snapshot ---- */

static void a_snapshot_is_of_one_cell_and_replaces_nothing(void **state) {
    char setting[600];
    scratch_path made = scratch_join(*state, "s.pickle");
    const char *path = made.text;
    snprintf(setting, sizeof setting, "snapshot=%s", path);
    experiment_output out;
    assert_int_equal(RUN(&out, MODEL, "device=cpu", "context=8,16", setting), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "--snapshot is of one cell"));
    assert_false(file_exists(path));
    expect_ok(RUN(&out, MODEL, "device=cpu", "context=8", setting));
    experiment_output_release(&out);
    char *first, *second;
    size_t first_size, second_size;
    expect_ok(file_read_all(path, 1 << 24, &first, &first_size));
    assert_memory_equal(first, "\x80\x02", 2);
    assert_int_equal(RUN(&out, MODEL, "device=cpu", "context=16", setting), DYNO_INVALID);
    assert_null(out.run);
    /* Measured, it is the same: the pool does what was predicted. */
    const char *measured[] = {MODEL, "device=cpu", "context=8", setting, "measure"};
    expect_ok(run(&out, true, (int)(sizeof measured / sizeof *measured), measured));
    experiment_output_release(&out);
    expect_ok(file_read_all(path, 1 << 24, &second, &second_size));
    assert_int_equal(first_size, second_size);
    assert_memory_equal(first, second, first_size);
    free(first);
    free(second);
}

/* ---- units ---- */

/* Counts, names and numbers of launches have no unit; all else in a table says its own. */
static bool has_unit(const char *header) {
    static const char *const units[] = {"MiB", " B", "ms", "%"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strstr(header, units[i]))
            return true;
    return false;
}

static void every_number_in_a_table_has_a_unit(void **state) {
    (void)state;
    static const char *const counts[] = {"context", "batch",    "accumulate", "ranks",      "count",
                                         "launch",  "launches", "born at",    "dies after", NULL};
    experiment_output out;
    expect_ok(RUN(&out, MODEL, "device=cpu", "context=16", "measure"));
    for (int is_full = 0; is_full < 2; is_full++) {
        report_document *document = view_create_document(out.run, is_full);
        int tables = 0;
        for (int64_t i = 0; i < document->count; i++) {
            if (document->blocks[i].kind != BLOCK_TABLE)
                continue;
            const report_table *t = document->blocks[i].table;
            tables++;
            for (int row = 0; row < t->row_count; row++)
                for (int j = 0; j < t->column_count; j++) {
                    cell_kind kind = t->rows[row].cells[j].kind;
                    bool is_count = false;
                    for (int k = 0; counts[k]; k++)
                        is_count = is_count || strcmp(t->columns[j].header, counts[k]) == 0;
                    if ((kind == CELL_INTEGER || kind == CELL_REAL) && !is_count &&
                        !has_unit(t->columns[j].header))
                        fail_msg("'%s' has no unit in '%s'", t->columns[j].header, t->title);
                }
        }
        assert_int_equal(tables, 7);
        document_destroy(document);
    }
    experiment_output_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_of_the_grid_is_a_row),
        cmocka_unit_test(without_a_limit_of_its_own_the_chips_memory_decides),
        cmocka_unit_test(measured_is_equal_to_predicted),
        cmocka_unit_test(a_step_that_does_not_fit_is_not_run),
        cmocka_unit_test(a_chip_that_is_not_here_cannot_be_measured),
        cmocka_unit_test(advice_names_every_change_that_there_is),
        cmocka_unit_test(advice_to_accumulate_needs_what_such_a_step_reserves),
        cmocka_unit_test(advice_to_shard_needs_what_one_of_those_ranks_reserves),
        cmocka_unit_test(advice_to_shard_is_of_steps_that_are_not_sharded),
        cmocka_unit_test(advice_is_cheapest_first),
        cmocka_unit_test(a_change_needs_what_its_row_says),
        cmocka_unit_test(a_step_that_does_not_fit_is_told_what_would),
        cmocka_unit_test(a_snapshot_is_of_one_cell_and_replaces_nothing),
        cmocka_unit_test(every_number_in_a_table_has_a_unit),
    };
    return cmocka_run_group_tests(tests, own_cache_set_up, own_cache_tear_down);
}
