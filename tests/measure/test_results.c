#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "measure/environment.h"
#include "measure/keys.h"
#include "measure/results_json.h"
#include "plan/plan.h"

static results *example(void) {
    const char *argv[] = {"bench", "--context", "128"};
    results *run = results_create("bench", 3, argv);
    run->planned_cells = 4;
    results_set_environment_text(run, "cpu", "A \"quoted\" CPU \xc3\xa9");
    results_set_environment_integer(run, "cores", INT64_MAX);
    results_set_environment_real(run, "load", 0.1);
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, "model", "small");
    cell_set_integer(cell, "context", 128);
    cell_set_real(cell, "scale", 2.0);
    cell_set_status(cell, RESULTS_OK, NULL);
    cell_set_metric(cell, "flops", "FLOP", INT64_MIN);
    cell_set_metric_real(cell, "loss", "nat", 1.0 / 3);
    cell_add_sample(cell, "step", "ns", 9007199254740993); /* no double holds it */
    cell_add_sample(cell, "step", "ns", -1);
    cell_add_sample_real(cell, "loss", "nat", 1e-310);
    cell_add_sample_real(cell, "loss", "nat", 4.0);
    cell_add_sample_real(cell, "loss", "nat", NAN);
    cell_add_sample_real(cell, "loss", "nat", -INFINITY);
    const char *keys[] = {"class", "phase"};
    const results_column columns[] = {{"time", "ns"}, {"share", "1"}};
    results_breakdown *breakdown = cell_add_breakdown(cell, "by_class", keys, 2, columns, 2);
    breakdown_add_row(breakdown, (const char *[]){"matmul", "forward"},
                      (results_value[]){results_integer(5), results_real(0.7)});
    cell = results_add_cell(run);
    cell_set_status(cell, RESULTS_OOM, "at layers.3");
    results_add_cell(run);
    return run;
}

static char *dump(const results *run) {
    json_t *root = results_to_json(run);
    char *string = json_dumps(root, JSON_REAL_PRECISION(17));
    json_decref(root);
    return string;
}

static void make_directory(char *path, size_t bytes) {
    snprintf(path, bytes, "/tmp/dyno-results-XXXXXX");
    assert_non_null(mkdtemp(path));
}

static void remove_directory(const char *path) {
    char file[256];
    snprintf(file, sizeof file, "%s/run.json", path);
    unlink(file);
    assert_int_equal(rmdir(path), 0); /* so nothing else was left in it */
}

static void a_run_reads_back_as_it_was_written(void **state) {
    (void)state;
    char directory[64], file[96];
    make_directory(directory, sizeof directory);
    snprintf(file, sizeof file, "%s/run.json", directory);
    results *run = example(), *back;
    run->is_complete = true;
    assert_int_equal(results_write(run, directory), DYNO_OK);
    assert_int_equal(results_read(directory, &back), DYNO_OK);
    char *before = dump(run), *after = dump(back);
    assert_string_equal(before, after);
    const results_series *steps = cell_find_series(back->cells[0], "step");
    assert_int_equal(steps->kind, RESULTS_INTEGER);
    assert_int_equal(steps->integers[0], 9007199254740993);
    const results_series *loss = cell_find_series(back->cells[0], "loss");
    assert_true(loss->reals[0] == 1e-310 && loss->reals[1] == 4 && isnan(loss->reals[2]) &&
                loss->reals[3] < 0 && isinf(loss->reals[3]));
    assert_int_equal(cell_find_metric(back->cells[0], "flops")->value.integer, INT64_MIN);
    assert_true(cell_find_metric(back->cells[0], "loss")->value.real == 1.0 / 3);
    assert_int_equal(cell_find_parameter(back->cells[0], "scale")->kind, RESULTS_REAL);
    assert_string_equal(back->cells[1]->reason, "at layers.3");
    assert_int_equal(back->cells[2]->status, RESULTS_INCOMPLETE);
    assert_true(back->is_complete);
    assert_int_equal(back->planned_cells, 4);
    assert_string_equal(back->started, run->started);
    results_destroy(back);
    assert_int_equal(results_read(file, &back), DYNO_OK); /* by file name too */
    results_destroy(back);
    free(before);
    free(after);
    results_destroy(run);
    remove_directory(directory);
}

static void keys_keep_their_order_and_are_replaced_in_place(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL);
    results_cell *cell = results_add_cell(run);
    cell_set_integer(cell, "b", 1);
    cell_set_integer(cell, "a", 2);
    cell_set_text(cell, "b", "again");
    assert_int_equal(cell->parameters.count, 2);
    assert_string_equal(cell->parameters.entries[0].key, "b");
    assert_string_equal(cell->parameters.entries[0].value.text, "again");
    cell_set_metric(cell, "m", "B", 1);
    cell_set_metric(cell, "m", "B", 2);
    assert_int_equal(cell->metric_count, 1);
    assert_null(cell_find_parameter(cell, "c"));
    assert_null(cell_find_metric(cell, "c"));
    assert_null(cell_find_series(cell, "c"));
    assert_null(cell_find_breakdown(cell, "c"));
    assert_true(isnan(results_number(NULL)));
    assert_true(isnan(results_number(cell_find_parameter(cell, "b"))));
    results_destroy(run);
}

static void a_new_cell_is_incomplete(void **state) {
    (void)state;
    results *run = example();
    assert_int_equal(run->cells[2]->status, RESULTS_INCOMPLETE);
    assert_int_equal(results_finished_cells(run), 2);
    assert_false(run->is_complete);
    results_destroy(run);
}

static void integers_become_reals_when_a_real_joins(void **state) {
    (void)state;
    results *run = results_create("x", 0, NULL);
    results_cell *cell = results_add_cell(run);
    cell_add_sample(cell, "s", "ms", 1);
    cell_add_sample_real(cell, "s", "ms", 1.5);
    cell_add_sample(cell, "s", "ms", 2);
    const results_series *series = cell_find_series(cell, "s");
    assert_int_equal(series->count, 3);
    assert_true(results_series_at(series, 0) == 1 && results_series_at(series, 1) == 1.5 &&
                results_series_at(series, 2) == 2);
    results_destroy(run);
}

static void text_that_is_not_utf8_is_made_writable(void **state) {
    (void)state;
    const char *argv[] = {"caf\xe9"};
    results *run = results_create("bench", 1, argv), *back;
    assert_string_equal(run->argv[0], "caf?");
    results_set_environment_real(run, "load", INFINITY);
    assert_string_equal(results_find_environment(run, "load")->text, "inf");
    json_t *root = results_to_json(run);
    assert_int_equal(results_from_json(root, "it", &back), DYNO_OK);
    json_decref(root);
    results_destroy(back);
    results_destroy(run);
}

/* A valid run, to be broken in one place. */
static const char VALID[] =
    "{\"format\":\"dyno-run\",\"version\":1,\"verb\":\"bench\",\"argv\":[\"bench\"],"
    "\"started\":\"2025-01-31T12:00:00Z\",\"complete\":true,\"planned_cells\":1,"
    "\"environment\":{\"cpu\":\"x\"},\"cells\":[{\"parameters\":{\"model\":\"small\"},"
    "\"status\":\"OK\",\"reason\":\"\",\"metrics\":{\"flops\":{\"unit\":\"FLOP\",\"value\":1}},"
    "\"samples\":{\"step\":{\"unit\":\"ns\",\"values\":[1,2]}},\"breakdowns\":{\"by_class\":{"
    "\"keys\":[\"class\"],\"columns\":[{\"name\":\"time\",\"unit\":\"ns\"}],"
    "\"rows\":[{\"keys\":[\"matmul\"],\"values\":[3]}]}}}]}";

static dyno_status read_string(const char *string) {
    json_t *root;
    results *run = NULL;
    dyno_status status = json_parse(string, strlen(string), "it", &root);
    if (status == DYNO_OK) {
        status = results_from_json(root, "it", &run);
        json_decref(root);
    }
    if (status != DYNO_OK)
        assert_null(run);
    results_destroy(run);
    return status;
}

static char *replaced(const char *string, const char *from, const char *to) {
    const char *at = strstr(string, from);
    assert_non_null(at);
    size_t bytes = strlen(string) + strlen(to) + 1;
    char *out = malloc(bytes);
    assert_non_null(out);
    snprintf(out, bytes, "%.*s%s%s", (int)(at - string), string, to, at + strlen(from));
    return out;
}

static void every_field_of_the_wrong_type_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"\"dyno-run\"", "\"other\""},
        {"\"dyno-run\"", "7"},
        {"\"version\":1", "\"version\":\"1\""},
        {"\"version\":1", "\"version\":0"},
        {"\"version\":1", "\"version\":1.0"},
        {"\"version\":1", "\"edition\":1"},
        {"\"verb\":\"bench\"", "\"verb\":null"},
        {"\"verb\":\"bench\"", "\"v\":\"bench\""},
        {"[\"bench\"]", "\"bench\""},
        {"[\"bench\"]", "[1]"},
        {"\"2025-01-31T12:00:00Z\"", "5"},
        {"\"complete\":true", "\"complete\":1"},
        {"\"complete\":true", "\"done\":true"},
        {"\"planned_cells\":1", "\"planned_cells\":true"},
        {"{\"cpu\":\"x\"}", "[]"},
        {"{\"cpu\":\"x\"}", "{\"cpu\":null}"},
        {"{\"cpu\":\"x\"}", "{\"cpu\":{}}"},
        {"\"cells\":[{", "\"cells\":[null,{"},
        {"\"cells\":", "\"cellz\":"},
        {"{\"model\":\"small\"}", "{\"model\":true}"},
        {"{\"model\":\"small\"}", "\"model\""},
        {"\"OK\"", "\"FINE\""},
        {"\"OK\"", "0"},
        {"\"reason\":\"\"", "\"reason\":null"},
        {"{\"unit\":\"FLOP\",\"value\":1}", "1"},
        {"\"FLOP\"", "1"},
        {"\"value\":1", "\"value\":\"1\""},
        {"\"value\":1", "\"values\":1"},
        {"{\"unit\":\"ns\",\"values\":[1,2]}", "[1,2]"},
        {"[1,2]", "[1,\"2\"]"},
        {"[1,2]", "[1,null]"},
        {"[1,2]", "{}"},
        {"{\"by_class\":{", "[{\"by_class\":{"},
        {"[\"class\"]", "[1]"},
        {"[\"class\"]", "[]"},
        {"\"keys\":[\"class\"],", ""},
        {"{\"name\":\"time\",\"unit\":\"ns\"}", "\"time\""},
        {"{\"name\":\"time\",\"unit\":\"ns\"}", "{\"name\":\"time\"}"},
        {"\"rows\":[{", "\"rows\":[1,{"},
        {"[\"matmul\"]", "[\"a\",\"b\"]"},
        {"[\"matmul\"]", "[null]"},
        {"[3]", "[]"},
        {"[3]", "[3,4]"},
        {"[3]", "[\"x\"]"},
        {"[3]", "3"},
    };
    assert_int_equal(read_string(VALID), DYNO_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *broken = replaced(VALID, cases[i].from, cases[i].to);
        dyno_status status = read_string(broken);
        if (status != DYNO_CORRUPT)
            print_error("case %zu: %s -> %s\n", i, cases[i].from, cases[i].to);
        assert_int_equal(status, DYNO_CORRUPT);
        assert_non_null(strstr(dyno_error_message(), "it is not"));
        free(broken);
    }
    assert_int_equal(read_string("[]"), DYNO_CORRUPT);
    assert_int_equal(read_string("{}"), DYNO_CORRUPT);
    assert_int_equal(read_string(""), DYNO_CORRUPT);
}

static void every_truncation_is_refused(void **state) {
    (void)state;
    char *copy = strdup(VALID);
    for (size_t length = strlen(VALID) - 1; length > 0; length--) {
        copy[length] = '\0';
        assert_int_equal(read_string(copy), DYNO_CORRUPT);
    }
    free(copy);
}

static void a_newer_version_is_told_apart_from_damage(void **state) {
    (void)state;
    char *newer = replaced(VALID, "\"version\":1", "\"version\":2");
    assert_int_equal(read_string(newer), DYNO_UNSUPPORTED);
    assert_non_null(strstr(dyno_error_message(), "written by a newer dyno"));
    free(newer);
}

static void fields_nobody_knows_are_ignored(void **state) {
    (void)state;
    char *more = replaced(VALID, "\"planned_cells\":1", "\"planned_cells\":1,\"mood\":[1,{}]");
    assert_int_equal(read_string(more), DYNO_OK);
    free(more);
}

static void a_file_with_absurdly_many_names_is_refused(void **state) {
    (void)state;
    size_t bytes = 100000;
    char *names = malloc(bytes);
    assert_non_null(names);
    size_t used = (size_t)snprintf(names, bytes, "{\"cpu\":\"x\"");
    for (int i = 0; i < 2000; i++)
        used += (size_t)snprintf(names + used, bytes - used, ",\"k%d\":1", i);
    snprintf(names + used, bytes - used, "}");
    char *many = replaced(VALID, "{\"cpu\":\"x\"}", names);
    assert_int_equal(read_string(many), DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), "the limit is"));
    free(many);
    free(names);
}

static void a_path_that_holds_no_run_says_so(void **state) {
    (void)state;
    char directory[64];
    make_directory(directory, sizeof directory);
    results *run;
    assert_int_equal(results_read(directory, &run), DYNO_NOT_FOUND);
    assert_non_null(strstr(dyno_error_message(), "has no run.json"));
    assert_int_equal(results_read("/nowhere/at/all", &run), DYNO_NOT_FOUND);
    assert_int_equal(results_read("/dev/null", &run), DYNO_INVALID);
    assert_null(run);
    remove_directory(directory);
    run = example();
    assert_int_equal(results_write(run, directory), DYNO_IO);
    results_destroy(run);
}

static void the_environment_is_captured_and_survives_the_file(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL), *back;
    environment_capture(run);
    static const char *const keys[] = {"cpu",
                                       "cores_physical",
                                       "cores_available",
                                       "cpu_flags",
                                       "architecture",
                                       "memory_total_bytes",
                                       "memory_available_bytes",
                                       "frequency_governor",
                                       "kernel",
                                       "compiler",
                                       "dyno_version",
                                       "threads",
                                       "onednn",
                                       "date"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_non_null(results_find_environment(run, keys[i]));
    bool is_x86 = isa_is_of_this_architecture(ISA_AVX2);
    bool is_arm = isa_is_of_this_architecture(ISA_NEON);
    assert_int_equal(results_find_environment(run, "isa_avx2") != NULL, is_x86);
    assert_int_equal(results_find_environment(run, "isa_amx_bf16") != NULL, is_x86);
    assert_int_equal(results_find_environment(run, "isa_neon") != NULL, is_arm);
    assert_true(results_number(results_find_environment(run, "cores_available")) >= 1);
    assert_true(results_number(results_find_environment(run, "memory_available_bytes")) > 0);
    json_t *root = results_to_json(run);
    assert_int_equal(results_from_json(root, "it", &back), DYNO_OK);
    json_decref(root);
    char *before = dump(run), *after = dump(back);
    assert_string_equal(before, after);
    free(before);
    free(after);
    results_destroy(run);
    results_destroy(back);
}

static void an_unusable_instruction_set_says_why(void **state) {
    (void)state;
    for (isa which = 0; which < ISA_COUNT; which++) {
        isa_answer answer = isa_check(which);
        assert_int_equal(answer.is_usable, answer.why_not[0] == '\0');
    }
    assert_null(isa_missing_for_this_build());
}

/* Samples and FLOPs of a phase are recorded under its name and read under a key. */
static void the_names_of_phases_are_keys(void **state) {
    (void)state;
    assert_string_equal(phase_name(PHASE_FORWARD), SERIES_FORWARD);
    assert_string_equal(phase_name(PHASE_BACKWARD), SERIES_BACKWARD);
    assert_string_equal(phase_name(PHASE_OPTIMIZER), SERIES_OPTIMIZER);
    assert_string_equal(SERIES_BACKWARD "+" SERIES_OPTIMIZER, SERIES_BACKWARD_OPTIMIZER);
    assert_string_equal(SERIES_FORWARD METRIC_FLOPS_SUFFIX, METRIC_FORWARD_FLOPS);
    assert_string_equal(SERIES_BACKWARD METRIC_FLOPS_SUFFIX, METRIC_BACKWARD_FLOPS);
    assert_string_equal(SERIES_OPTIMIZER METRIC_FLOPS_SUFFIX, METRIC_OPTIMIZER_FLOPS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_reads_back_as_it_was_written),
        cmocka_unit_test(keys_keep_their_order_and_are_replaced_in_place),
        cmocka_unit_test(a_new_cell_is_incomplete),
        cmocka_unit_test(integers_become_reals_when_a_real_joins),
        cmocka_unit_test(text_that_is_not_utf8_is_made_writable),
        cmocka_unit_test(every_field_of_the_wrong_type_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_newer_version_is_told_apart_from_damage),
        cmocka_unit_test(fields_nobody_knows_are_ignored),
        cmocka_unit_test(a_file_with_absurdly_many_names_is_refused),
        cmocka_unit_test(a_path_that_holds_no_run_says_so),
        cmocka_unit_test(the_environment_is_captured_and_survives_the_file),
        cmocka_unit_test(an_unusable_instruction_set_says_why),
        cmocka_unit_test(the_names_of_phases_are_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
