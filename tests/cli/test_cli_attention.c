/* test_cli_attention.c - `dyno attention` as a user runs it. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/json.h"
#include "measure/results.h"
#include "support/command.h"
#include "support/scratch.h"

#define SMALL "attention --batch 2 --seq 9,17 --head-dim 3,8 --reps 2 --threads 1 "

static const char *const formats[] = {"table", "md", "csv", "json"};

static results *read_run(const scratch *made) {
    results *run;
    if (results_read(made->path, &run) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return run;
}

static int64_t metric(const results_cell *cell, const char *name) {
    return cell_find_metric(cell, name)->value.integer;
}

static int64_t samples(const results_cell *cell, const char *name) {
    const results_series *series = cell_find_series(cell, name);
    return series ? series->count : 0;
}

static void it_is_printed_kept_and_shown_alike(void **state) {
    (void)state;
    scratch made = scratch_create();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        text printed = {0}, shown = {0};
        assert_int_equal(dyno_run(&printed, SMALL "--out %s/%s --format %s 2>/dev/null", made.path,
                                  formats[i], formats[i]),
                         0);
        assert_int_equal(dyno_run(&shown, "show %s/%s --format %s 2>/dev/null", made.path,
                                  formats[i], formats[i]),
                         0);
        assert_string_equal(text_string(&printed), text_string(&shown));
        if (strcmp(formats[i], "json") == 0) {
            json_t *root;
            assert_int_equal(json_parse(text_string(&printed), printed.length, "output", &root),
                             DYNO_OK);
            assert_int_equal(json_array_size(json_object_get(root, "cells")), 16);
            json_decref(root);
        } else {
            assert_non_null(strstr(text_string(&printed), "forward ms"));
            assert_non_null(strstr(text_string(&printed), "before backward MiB"));
        }
        text_release(&printed);
        text_release(&shown);
    }
    scratch_remove(&made);
}

static void every_point_has_both_passes_and_every_sample(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "", SMALL "--warmup 3 --causal no,yes --out %s", made.path);
    results *run = read_run(&made);
    assert_true(run->is_complete);
    assert_int_equal(run->cell_count, 2 * 2 * 2 * 2 * 2);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        bool is_whole = i % 2;
        assert_int_equal(cell->status, RESULTS_OK);
        assert_string_equal(cell_find_parameter(cell, "pass")->text,
                            is_whole ? "forward+backward" : "forward");
        assert_string_equal(cell_find_parameter(cell, "mode")->text,
                            i / 2 % 2 ? "compiled" : "eager");
        assert_int_equal(cell_find_parameter(cell, "seq")->integer, i / 4 % 2 ? 17 : 9);
        assert_int_equal(cell_find_parameter(cell, "head_dim")->integer, i / 8 % 2 ? 8 : 3);
        assert_string_equal(cell_find_parameter(cell, "causal")->text, i / 16 ? "yes" : "no");
        assert_int_equal(samples(cell, "warmup"), 3);
        assert_int_equal(samples(cell, "step"), 2);
        assert_int_equal(samples(cell, "backward"), is_whole ? 2 : 0);
        assert_int_equal(cell_find_metric(cell, "before_backward_bytes") != NULL, is_whole);
        assert_int_equal(metric(cell, "reserved_bytes"), metric(cell, "predicted_reserved_bytes"));
    }
    results_destroy(run);
    scratch_remove(&made);
}

static void a_pass_that_is_not_asked_for_is_not_run(void **state) {
    (void)state;
    static const struct {
        const char *flag, *pass;
        int cells;
    } cases[] = {{"forward", "forward", 1},
                 {"backward", "forward+backward", 1},
                 {"both", "forward+backward", 1},
                 {"backward,both", "forward+backward", 1},
                 {"both,forward", "forward", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch made = scratch_create();
        dyno_expect(0, "", "attention --seq 4 --mode eager --reps 1 --pass %s --out %s",
                    cases[i].flag, made.path);
        results *run = read_run(&made);
        assert_int_equal(run->cell_count, cases[i].cells);
        assert_string_equal(cell_find_parameter(run->cells[0], "pass")->text, cases[i].pass);
        results_destroy(run);
        scratch_remove(&made);
    }
}

static void without_reps_there_are_as_many_as_fit_between_3_and_100(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "",
                "attention --batch 1 --seq 1,200 --mode eager --pass both --seconds 0.001 "
                "--threads 1 --out %s",
                made.path);
    results *run = read_run(&made);
    for (int i = 0; i < 2; i++) {
        int64_t count = samples(run->cells[i], "step");
        assert_in_range(count, 3, 100);
        assert_int_equal(cell_find_parameter(run->cells[i], "reps")->integer, count);
    }
    results_destroy(run);
    dyno_expect(0, "",
                "attention --batch 1 --seq 1 --mode eager --pass both --seconds 100 "
                "--threads 1 --out %s",
                made.path);
    run = read_run(&made);
    assert_int_equal(samples(run->cells[0], "step"), 100);
    results_destroy(run);
    scratch_remove(&made);
}

static void a_row_that_does_not_fit_says_which_values_make_it(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "8 x 4096 x 4096 x 4 B x ",
                "attention --seq 4096,8 --mode eager --memory 64MiB --reps 1 --out %s", made.path);
    results *run = read_run(&made);
    assert_true(run->is_complete);
    for (int i = 0; i < 4; i++) {
        const results_cell *cell = run->cells[i];
        assert_int_equal(cell->status, i < 2 ? RESULTS_OOM : RESULTS_OK);
        if (i < 2)
            assert_true(metric(cell, "needed_bytes") > metric(cell, "available_bytes"));
    }
    results_destroy(run);
    dyno_expect(0, "forward OK, backward OOM",
                "attention --batch 1 --seq 256 --mode eager --memory 1280KiB --reps 1");
    scratch_remove(&made);
}

static void the_preset_is_the_grid_of_the_write_up_and_flags_change_it(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "", "attention --preset naive-table --memory 1KiB --out %s", made.path);
    results *run = read_run(&made);
    assert_int_equal(run->cell_count, 5 * 4 * 2 * 2);
    const results_cell *last = run->cells[run->cell_count - 1];
    assert_int_equal(cell_find_parameter(last, "batch")->integer, 8);
    assert_int_equal(cell_find_parameter(last, "seq")->integer, 16384);
    assert_int_equal(cell_find_parameter(last, "head_dim")->integer, 128);
    results_destroy(run);
    dyno_expect(0, "", "attention --preset naive-table --seq 2 --head-dim 4 --batch 1 --out %s",
                made.path);
    run = read_run(&made);
    assert_int_equal(run->cell_count, 4);
    assert_int_equal(samples(run->cells[3], "step"), 100);
    results_destroy(run);
    scratch_remove(&made);
}

static const char *parameter(const results_cell *cell, const char *key) {
    const results_value *found = cell_find_parameter(cell, key);
    return found && found->kind == RESULTS_TEXT ? found->text : "";
}

static void every_preset_is_its_experiment(void **state) {
    (void)state;
    static const struct {
        const char *name, *first_impl, *last_impl, *math, *causal;
        int cells, batch, heads, last_seq, last_head_dim;
    } presets[] = {
        {"naive-table", "naive", "naive", "fp32", "no", 5 * 4 * 2 * 2, 8, 1, 16384, 128},
        {"flash-table", "naive", "flash", "bf16", "yes", 10 * 4 * 2 * 2 * 2, 1, 1, 65536, 128},
        {"leaderboard", "flash", "flash", "bf16", "yes", 2, 1, 16, 16384, 64},
    };
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        scratch made = scratch_create();
        dyno_expect(0, "OOM", "attention --preset %s --memory 1KiB --out %s", presets[i].name,
                    made.path);
        results *run = read_run(&made);
        assert_int_equal(run->cell_count, presets[i].cells);
        const results_cell *first = run->cells[0], *last = run->cells[run->cell_count - 1];
        assert_string_equal(parameter(first, "impl"), presets[i].first_impl);
        assert_string_equal(parameter(last, "impl"), presets[i].last_impl);
        assert_string_equal(parameter(first, "math"), presets[i].math);
        assert_string_equal(parameter(last, "causal"), presets[i].causal);
        assert_int_equal(cell_find_parameter(last, "batch")->integer, presets[i].batch);
        assert_int_equal(cell_find_parameter(last, "heads")->integer, presets[i].heads);
        assert_int_equal(cell_find_parameter(last, "seq")->integer, presets[i].last_seq);
        assert_int_equal(cell_find_parameter(last, "head_dim")->integer, presets[i].last_head_dim);
        results_destroy(run);
        scratch_remove(&made);
    }
    /* Flags before and after it, and --seconds instead of its repetitions. */
    scratch made = scratch_create();
    dyno_expect(0, "",
                "attention --seq 5 --preset naive-table --mode eager --head-dim 4 --seconds 0.001 "
                "--out %s",
                made.path);
    results *run = read_run(&made);
    assert_int_equal(run->cell_count, 2);
    assert_string_equal(parameter(run->cells[0], "mode"), "eager");
    results_destroy(run);
    scratch_remove(&made);
}

/* ---- tiles ---- */

#define FLASH "attention --impl flash --mode eager --batch 1 --seq 70 --head-dim 8 --threads 1 "

static void every_tile_that_is_asked_for_is_a_row(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "best tile", FLASH "--reps 1 --tiles auto,32x32,32x64/32x32 --out %s",
                made.path);
    results *run = read_run(&made);
    static const char *const tiles[] = {"auto", "32x32", "32x64/32x32"};
    assert_int_equal(run->cell_count, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(run->cells[i]->status, RESULTS_OK);
        assert_string_equal(parameter(run->cells[i], "tile"), tiles[i / 2]);
    }
    assert_string_equal(parameter(run->cells[2], "tiles_used"), "32x32");
    assert_string_equal(parameter(run->cells[3], "tiles_used"), "32x32/32x32");
    assert_string_equal(parameter(run->cells[5], "tiles_used"), "32x64/32x32");
    results_destroy(run);
    scratch_remove(&made);
}

static void a_kernel_can_be_asked_for_by_its_name(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "attention_tiled:16x16/auto",
                FLASH "--reps 1 --tiles attention_tiled:16x16/auto --out %s", made.path);
    results *run = read_run(&made);
    assert_non_null(strstr(parameter(run->cells[1], "tiles_used"), "16x16/"));
    results_destroy(run);
    scratch_remove(&made);
    dyno_expect(1, "attention has no variant attention_hopper for f32[",
                FLASH "--reps 1 --tiles attention_hopper");
}

static void a_tile_that_the_kernel_does_not_have_is_a_row_with_those_it_has(void **state) {
    (void)state;
    dyno_expect(0, "SKIP", FLASH "--reps 1 --tiles auto,33x64");
    dyno_expect(0, "attention has no variant 33x64 for f32[1,1,70,8]; it has ",
                FLASH "--reps 1 --tiles auto,33x64");
    dyno_expect(0, "SKIP", "attention --impl flash --head-dim 8,300 --seq 9 --reps 1");
    dyno_expect(0, "use naive attention",
                "attention --impl naive,flash --head-dim 300 --seq 9 "
                "--mode eager --batch 1 --reps 1");
    /* Nothing but such rows. */
    dyno_expect(1, "has no variant 33x64", FLASH "--reps 1 --tiles 33x64");
}

/* Runs with a cache of its own. */
static void tune(const scratch *cache) {
    setenv("XDG_CACHE_HOME", cache->path, 1);
    dyno_expect(0, "1 best tile is in the cache", FLASH "--tune --pass forward --reps 2");
    dyno_expect(0, "2 best tiles are in the cache", FLASH "--tune --reps 2");
}

static results *run_auto(const scratch *out) {
    dyno_expect(0, "auto: ", FLASH "--reps 1 --out %s", out->path);
    return read_run(out);
}

static char *read_cache(const scratch *cache, scratch_path *path) {
    scratch_path directory = scratch_join(cache, "dyno");
    DIR *opened = opendir(directory.text);
    assert_non_null(opened);
    for (const struct dirent *entry; (entry = readdir(opened));)
        if (strncmp(entry->d_name, "autotune-", 9) == 0)
            snprintf(path->text, sizeof path->text, "%.200s/dyno/%.200s", cache->path,
                     entry->d_name);
    closedir(opened);
    char *data;
    size_t size;
    assert_int_equal(file_read_all(path->text, 1 << 20, &data, &size), DYNO_OK);
    return data;
}

static void the_best_tile_is_kept_and_used_from_then_on(void **state) {
    (void)state;
    scratch cache = scratch_create(), made = scratch_create();
    char *before = getenv("XDG_CACHE_HOME");
    before = before ? strdup(before) : NULL;
    tune(&cache);
    scratch_path path;
    char *kept = read_cache(&cache, &path);
    results *run = run_auto(&made);
    const char *used = parameter(run->cells[1], "tiles_used"), *slash = strchr(used, '/');
    assert_non_null(slash);
    char forward[64], backward[64];
    snprintf(forward, sizeof forward, ":%.*s\n", (int)(slash - used), used);
    snprintf(backward, sizeof backward, ":%s\n", slash + 1);
    assert_non_null(strstr(kept, " attention,f32,d8,full,q128,k128 attention_"));
    assert_non_null(strstr(kept, " attention_gradient,f32,d8,full,q128,k128 attention_gradient_"));
    assert_non_null(strstr(kept, forward));
    assert_non_null(strstr(kept, backward));
    results_destroy(run);
    free(kept);
    /* Damaged, it is as if there were none. */
    FILE *file = fopen(path.text, "w");
    fputs("0123 attention,f32,d8,full,q128,k128 8x8\n\x01\x02 no line at all", file);
    fclose(file);
    run = run_auto(&made);
    assert_int_equal(run->cells[1]->status, RESULTS_OK);
    results_destroy(run);
    scratch_remove(&made);
    scratch_remove(&cache);
    if (before)
        setenv("XDG_CACHE_HOME", before, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    free(before);
}

static void tuning_prints_all_tiles_and_works_without_a_cache(void **state) {
    (void)state;
    scratch made = scratch_create();
    text said = {0};
    assert_int_equal(dyno_run(&said,
                              "attention --tune --batch 1 --seq 9 --head-dim 8 --reps 1 --out %s "
                              "2>&1 > /dev/null; exit $?",
                              made.path),
                     0);
    assert_non_null(strstr(text_string(&said), "tuned choices cannot be kept"));
    assert_null(strstr(text_string(&said), "in the cache"));
    text_release(&said);
    results *run = read_run(&made);
    assert_true(run->cell_count >= 12); /* at least six tiles each way */
    for (int64_t i = 0; i < run->cell_count; i++) {
        assert_int_equal(run->cells[i]->status, RESULTS_OK);
        assert_string_equal(parameter(run->cells[i], "impl"), "flash");
    }
    results_destroy(run);
    scratch_remove(&made);
}

static int without_cache(void **state) {
    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    return 0;
}

static int with_cache(void **state) {
    (void)state;
    unsetenv("XDG_CACHE_HOME");
    return 0;
}

/* ---- time ---- */

static void what_takes_too_long_is_skipped_with_an_estimate(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "--seconds-per-cell allows",
                "attention --preset leaderboard --seconds-per-cell 0.01 --out %s", made.path);
    results *run = read_run(&made);
    assert_int_equal(run->cell_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run->cells[i]->status, RESULTS_SKIP);
        assert_non_null(strstr(run->cells[i]->reason, "would take about "));
        assert_true(cell_find_metric(run->cells[i], "estimated_s")->value.real > 0.01);
    }
    results_destroy(run);
    /* The first run tells what the prediction did not: a million of them take longer. */
    dyno_expect(0, "as the first one showed",
                "attention --impl flash --batch 1 --seq 1 --head-dim 1 --mode eager --reps 1000000 "
                "--seconds-per-cell 0.5 --pass both");
    scratch_remove(&made);
}

static void it_says_how_time_grows(void **state) {
    (void)state;
    dyno_expect(0, "time grows as seq^k", SMALL);
    dyno_expect(0, "\nnaive eager, head size 3     ", SMALL);
    dyno_expect(0, " from 9 to 17\n", SMALL);
    dyno_expect(0, "speed-up: against eager in the same precision", SMALL);
    dyno_expect(0, "\nnaive compiled, causal yes, head size 8  ", SMALL "--causal no,yes");
    dyno_expect(0, ",forward growth at the end,", SMALL "--format csv");
    dyno_expect(0, " over 3, ", "attention --batch 1 --seq 4,9,17 --reps 2 --threads 1");
}

/* Eager naive attention keeps T x T weights for the backward, flash a number for each query. */
static void flash_stands_beside_naive_and_keeps_less(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "speed-up: against naive in the same mode, precision and sizes",
                "attention --impl naive,flash --mode eager --batch 1 --seq 200 --head-dim 8 "
                "--causal no,yes --precision fp32,bf16 --reps 1 --out %s",
                made.path);
    results *run = read_run(&made);
    assert_int_equal(run->cell_count, 2 * 2 * 2 * 2);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        assert_int_equal(cell->status, RESULTS_OK);
        assert_string_equal(cell_find_parameter(cell, "impl")->text, i / 4 % 2 ? "flash" : "naive");
        if (i % 2 && i / 4 % 2)
            assert_true(metric(cell, "before_backward_bytes") <
                        metric(run->cells[i - 4], "before_backward_bytes"));
    }
    results_destroy(run);
    scratch_remove(&made);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    dyno_expect(2, "'fast' is not one of naive", "attention --impl fast");
    dyno_expect(1, "head size is 257, the kernels stop at 256",
                "attention --impl flash --head-dim 257");
    dyno_expect(2, "--seq: 0 is outside 1 to", "attention --seq 0");
    dyno_expect(2, "--head-dim: 0 is outside 1 to", "attention --head-dim 0");
    dyno_expect(2, "--mode: 'fast' is not one of eager", "attention --mode fast");
    dyno_expect(2, "--pass: 'step' is not one of forward", "attention --pass step");
    dyno_expect(2, "--causal: 'maybe' is not one of no", "attention --causal maybe");
    dyno_expect(2, "--reps: 0 is outside", "attention --reps 0");
    dyno_expect(2, "--preset: 'all' is not one of naive-table", "attention --preset all");
    dyno_expect(2, "did you mean 'flash-table'?", "attention --preset flash-tabel");
    dyno_expect(2, "--pass: 'foo' is not one of forward", "attention --pass foo");
    static const char *const no_tiles[] = {"0x64",     "33x",      "64",     "x64",
                                           "64x64x64", "64x-1",    "64x64/", "/",
                                           "99999x64", "auto/all", "fast"};
    for (size_t i = 0; i < sizeof no_tiles / sizeof *no_tiles; i++)
        dyno_expect(2, "is no tile; write auto, all", "attention --seq 2 --tiles %s", no_tiles[i]);
    static const char *const no_kernels[] = {"gelu:32x32", "attention_tiled:", "attention_tiled:x",
                                             "attention_tiled:32x32:8"};
    for (size_t i = 0; i < sizeof no_kernels / sizeof *no_kernels; i++)
        dyno_expect(2, "is no tile; write auto, all", "attention --seq 2 --tiles %s",
                    no_kernels[i]);
    dyno_expect(2, "--tiles does not go with", "attention --tune --tiles auto");
    dyno_expect(2, "--tune is of flash attention", "attention --tune --impl naive");
    dyno_expect(2, "--tiles is of flash attention", "attention --tiles 64x64");
    dyno_expect(2, "--seconds-per-cell", "attention --seconds-per-cell -1");
    dyno_expect(0, "OK", "attention --impl flash --seq 5 --head-dim 12 --reps 1");
    dyno_expect(2, "more bytes than can be counted",
                "attention --batch 1048576 --heads 65536 --seq 16777216");
    dyno_expect(1, "/dev/null", "attention --seq 2 --reps 1 --out /dev/null/here");
}

/* Until the progress line, which only a terminal shows, says that measuring has begun. */
static void wait_for_progress(int terminal) {
    char seen[4096];
    ssize_t got, have = 0;
    while ((got = read(terminal, seen + have, sizeof seen - 1 - (size_t)have)) > 0) {
        have += got;
        seen[have] = '\0';
        if (strchr(seen, '%') || have == (ssize_t)sizeof seen - 1)
            return;
    }
    fail_msg("it ended before it showed progress");
}

/* Waits for the first cell, then asks it to stop. */
static void an_interruption_keeps_what_was_measured(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path shown = scratch_join(&made, "shown");
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(open(shown.text, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open(ptsname(terminal), O_WRONLY | O_NOCTTY), STDERR_FILENO);
        execl(DYNO_BINARY, "dyno", "attention", "--seq", "8", "--reps", "1000000", "--mode",
              "eager", "--threads", "1", "--out", made.path, (char *)NULL);
        _exit(127);
    }
    wait_for_progress(terminal);
    kill(child, SIGINT);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    close(terminal);
    results *run = read_run(&made);
    assert_false(run->is_complete);
    assert_int_equal(run->planned_cells, 2);
    assert_true(run->cell_count > 0);
    assert_int_equal(run->cells[run->cell_count - 1]->status, RESULTS_INCOMPLETE);
    results_destroy(run);
    dyno_expect(0, "incomplete: interrupted after", "show %s", made.path);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_printed_kept_and_shown_alike),
        cmocka_unit_test(every_point_has_both_passes_and_every_sample),
        cmocka_unit_test(a_pass_that_is_not_asked_for_is_not_run),
        cmocka_unit_test(without_reps_there_are_as_many_as_fit_between_3_and_100),
        cmocka_unit_test(a_row_that_does_not_fit_says_which_values_make_it),
        cmocka_unit_test(the_preset_is_the_grid_of_the_write_up_and_flags_change_it),
        cmocka_unit_test(every_preset_is_its_experiment),
        cmocka_unit_test(every_tile_that_is_asked_for_is_a_row),
        cmocka_unit_test(a_kernel_can_be_asked_for_by_its_name),
        cmocka_unit_test(a_tile_that_the_kernel_does_not_have_is_a_row_with_those_it_has),
        cmocka_unit_test(the_best_tile_is_kept_and_used_from_then_on),
        cmocka_unit_test_setup_teardown(tuning_prints_all_tiles_and_works_without_a_cache,
                                        without_cache, with_cache),
        cmocka_unit_test(what_takes_too_long_is_skipped_with_an_estimate),
        cmocka_unit_test(it_says_how_time_grows),
        cmocka_unit_test(flash_stands_beside_naive_and_keeps_less),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(an_interruption_keeps_what_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
