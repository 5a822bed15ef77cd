/* test_cli_verbs.c - every verb does what its help says, in every format. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"
#include "measure/results_json.h"
#include "support/command.h"
#include "support/scratch.h"

#define GOLDEN DYNO_TEST_DIR "/golden/tiny"
#define SMALL "--d-model 32 --d-ff 64 --layers 1 --heads 2 --vocab 50 "
#define BENCH "bench " SMALL "--context 8 --steps 2 "

static const char *const formats[] = {"table", "md", "csv", "json"};

/* What the command prints to stdout, parsed. */
static json_t *parse(const text *output) {
    json_t *root;
    if (json_parse(text_string(output), output->length, "output", &root) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return root;
}

static void every_verb_explains_itself(void **state) {
    (void)state;
    static const char *const verbs[] = {"doctor",  "list",   "plan",       "memory", "bench",
                                        "profile", "init",   "step",       "show",   "compare",
                                        "suite",   "report", "completion", "man"};
    text all = {0};
    assert_int_equal(dyno_run(&all, "--help 2>/dev/null"), 0);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        text help = {0};
        assert_int_equal(dyno_run(&help, "%s --help 2>/dev/null", verbs[i]), 0);
        char usage[64], example[64];
        snprintf(usage, sizeof usage, "usage: dyno %s", verbs[i]);
        snprintf(example, sizeof example, "dyno %s", verbs[i]);
        assert_non_null(strstr(text_string(&help), usage));
        const char *examples = strstr(text_string(&help), "EXAMPLES");
        assert_non_null(examples);
        assert_non_null(strstr(examples, example));
        assert_non_null(strstr(text_string(&all), verbs[i]));
        text_release(&help);
    }
    text_release(&all);
    dyno_expect(0, "dyno " DYNO_VERSION "\n", "--version");
}

static void lists_come_in_every_format(void **state) {
    (void)state;
    text output = {0};
    dyno_expect(0, "2.7B", "list presets");
    dyno_expect(0, "| 10B |", "list presets --format md");
    dyno_expect(0, "small,768,3072,12,12,12,10000,128625408", "list --format csv");
    dyno_expect(0, "matmul_portable", "list kernels");
    dyno_expect(0, "scatter_add", "list ops");
    assert_int_equal(dyno_run(&output, "list --format json 2>/dev/null"), 0);
    json_t *root = parse(&output);
    assert_int_equal(json_array_size(json_object_get(root, "presets")), 6);
    assert_true(json_array_size(json_object_get(root, "ops")) > 30);
    assert_true(json_array_size(json_object_get(root, "kernels")) > 30);
    json_decref(root);
    assert_int_equal(dyno_run(&output, "list presets --format json 2>/dev/null"), 0);
    root = parse(&output);
    assert_int_equal(json_array_size(root), 6);
    json_decref(root);
    text_release(&output);
}

/* 2 V D + L (4 D^2 + 3 D F + 2 D) + D with D 4608, F 12288, L 50, V 10000. */
static void a_plan_counts_the_parameters_of_10B(void **state) {
    (void)state;
    text output = {0};
    dyno_expect(0, "12832823808", "plan --model 10B");
    dyno_expect(0, "12832823808", "plan --model 10B --format csv");
    dyno_expect(0, "| 12832823808 |", "plan --model 10B --format md");
    assert_int_equal(dyno_run(&output, "plan --model 10B --pass forward,step --format json "
                                       "2>/dev/null"),
                     0);
    json_t *root = parse(&output);
    results *run;
    assert_int_equal(results_from_json(root, "plan", &run), DYNO_OK);
    assert_true(run->is_complete);
    assert_int_equal(run->cell_count, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cell_find_metric(run->cells[i], "parameters")->value.integer, 12832823808);
    results_destroy(run);
    json_decref(root);
    text_release(&output);
}

static void a_plan_tells_what_fits(void **state) {
    (void)state;
    dyno_expect(0, "| small | 128 | step | 128625408 |",
                "plan --model small,10B --memory 32GiB --format md");
    dyno_expect(0, "| yes |", "plan --model small --memory 32GiB --format md");
    dyno_expect(0, "| no |", "plan --model 10B --memory 32GiB --format md");
    dyno_expect(0, "| --mode compiled --recompute mlp:",
                "plan --model small --context 512 --device cpu --memory 2400MiB --format md");
    dyno_expect(0, "\"recompute\": \"mlp:3\"",
                "plan --model small --recompute mlp:3 --format json");
    dyno_expect(0, "@backward", "plan " SMALL "--dump-after autodiff");
    dyno_expect(0, ", static, arena ", "plan " SMALL "--mode compiled --dump-after memory");
    dyno_expect(2, "'forward' is not one of build|", "plan " SMALL "--dump-after forward");
    dyno_expect(2, "2 are asked for; give one --model", "plan --model small,xl --dump-after build");
}

/* Same text to the terminal, to DIR/run.json and from `show`. */
static void a_bench_is_printed_kept_and_shown_alike(void **state) {
    (void)state;
    scratch made = scratch_create();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        text printed = {0}, shown = {0};
        assert_int_equal(dyno_run(&printed, BENCH "--out %s/%s --format %s 2>/dev/null", made.path,
                                  formats[i], formats[i]),
                         0);
        assert_int_equal(dyno_run(&shown, "show %s/%s --format %s 2>/dev/null", made.path,
                                  formats[i], formats[i]),
                         0);
        assert_string_equal(text_string(&printed), text_string(&shown));
        assert_non_null(strstr(text_string(&printed), "forward+backward"));
        if (strcmp(formats[i], "json") == 0) {
            json_t *here = parse(&printed), *kept;
            assert_int_equal(json_read_file(scratch_join(&made, "json/run.json").text, &kept),
                             DYNO_OK);
            assert_true(json_equal(here, kept));
            json_decref(here);
            json_decref(kept);
        }
        assert_int_equal(scratch_count(scratch_join(&made, formats[i]).text), 1);
        text_release(&printed);
        text_release(&shown);
    }
    scratch_remove(&made);
}

static results *read_run(const scratch *made) {
    results *run;
    if (results_read(made->path, &run) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return run;
}

static void a_plan_is_printed_kept_and_shown_alike(void **state) {
    (void)state;
    static const char *const more[] = {"--memory 1GiB", "--detail --context 8,16",
                                       "--map --pass forward,step"};
    scratch made = scratch_create();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int j = 0; j < 3; j++) {
            text printed = {0}, shown = {0};
            assert_int_equal(dyno_run(&printed, "plan " SMALL "%s --out %s/p%d%s --format %s",
                                      more[j], made.path, j, formats[i], formats[i]),
                             0);
            assert_int_equal(
                dyno_run(&shown, "show %s/p%d%s --format %s", made.path, j, formats[i], formats[i]),
                0);
            assert_string_equal(text_string(&printed), text_string(&shown));
            text_release(&printed);
            text_release(&shown);
        }
    scratch_remove(&made);
}

static void a_bench_keeps_every_sample_and_what_the_plan_foretold(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "",
                "bench " SMALL "--context 20,8 --steps 2 --warmup 0,3 --pass step,forward "
                "--breakdown --out %s",
                made.path);
    results *run = read_run(&made);
    assert_true(run->is_complete);
    assert_int_equal(run->cell_count, 8);
    for (int i = 0; i < 8; i++) { /* contexts, in them warm-ups, in them passes */
        const results_cell *cell = run->cells[i];
        const results_series *warmup = cell_find_series(cell, "warmup");
        assert_int_equal(cell->status, RESULTS_OK);
        assert_int_equal(cell_find_series(cell, "step")->count, 2);
        assert_int_equal(cell_find_series(cell, "optimizer") != NULL, i % 2 == 0);
        assert_int_equal(warmup ? warmup->count : 0, i / 2 % 2 * 3);
        assert_non_null(cell_find_breakdown(cell, "by_scope"));
        assert_non_null(cell_find_metric(cell, "watched_ns"));
        assert_non_null(cell_find_metric(cell, "preemptions"));
        assert_int_equal(cell_find_metric(cell, "reserved_bytes")->value.integer,
                         cell_find_metric(cell, "predicted_reserved_bytes")->value.integer);
    }
    results_destroy(run);
    scratch_remove(&made);
}

static void a_cell_that_does_not_fit_says_so_and_the_grid_goes_on(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, ", there is 1.00 MiB",
                "bench " SMALL "--context 256,8 --steps 1 --pass forward,step --memory 1MiB "
                "--out %s",
                made.path);
    results *run = read_run(&made);
    assert_true(run->is_complete);
    assert_int_equal(run->cell_count, 4);
    for (int i = 0; i < 4; i++) {
        const results_cell *cell = run->cells[i];
        assert_int_equal(cell->status, i < 2 ? RESULTS_OOM : RESULTS_OK);
        if (i < 2)
            assert_true(cell_find_metric(cell, "needed_bytes")->value.integer > 1 << 20);
    }
    results_destroy(run);
    dyno_expect(0, "OOM", "show %s", made.path);
    dyno_expect(0, "needs ", "show %s --format csv", made.path);
    scratch_remove(&made);
}

static void step_writes_what_it_computed(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path file = scratch_join(&made, "out");
    dyno_expect(0, "step 4  loss ",
                "step --load " GOLDEN " --tokens " GOLDEN
                "/tokens.bin --batch 2 --context 16 --steps 5 --dump loss,logits --out %s",
                file.text);
    safetensors_file *got, *wanted;
    assert_int_equal(safetensors_open(file.text, &got), DYNO_OK);
    assert_int_equal(safetensors_open(GOLDEN "/expected.safetensors", &wanted), DYNO_OK);
    assert_int_equal(safetensors_count(got), 6);
    for (int k = 0; k < 5; k++) {
        char name[32];
        double ours, theirs;
        snprintf(name, sizeof name, "loss.%d", k);
        assert_int_equal(safetensors_read_f64(got, safetensors_find(got, name), &ours), DYNO_OK);
        assert_int_equal(safetensors_read_f64(wanted, safetensors_find(wanted, name), &theirs),
                         DYNO_OK);
        assert_true(fabs(ours - theirs) <= 1e-5 * fabs(theirs));
    }
    assert_string_equal(shape_format(&safetensors_find(got, "logits")->shape).text, "2,16,97");
    safetensors_close(got);
    safetensors_close(wanted);
    scratch_remove(&made);
}

static void a_model_is_drawn_trained_and_saved(void **state) {
    (void)state;
    scratch made = scratch_create();
    static unsigned char ids[2 * 65];
    for (int i = 0; i < 65; i++)
        ids[2 * i] = (unsigned char)(i * 7 % 50);
    scratch_write(&made, "ids", ids, sizeof ids);
    dyno_expect(0, "", "init " SMALL "--kv-heads 1 --seed 5 --out %s/a", made.path);
    dyno_expect(0, "", "init " SMALL "--kv-heads 1 --seed 5 --threads 1 --out %s/b", made.path);
    dyno_expect(0, "step 1  loss ",
                "step --load %s/a --tokens %s/ids --batch 2 --context 16 --steps 2 --save %s/c",
                made.path, made.path, made.path);
    char *bytes[3];
    size_t sizes[3];
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "%c/model.safetensors", 'a' + i);
        assert_int_equal(
            file_read_all(scratch_join(&made, name).text, 1 << 24, &bytes[i], &sizes[i]), DYNO_OK);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    assert_int_equal(sizes[0], sizes[2]);
    assert_memory_not_equal(bytes[0], bytes[2], sizes[0]);
    for (int i = 0; i < 3; i++)
        free(bytes[i]);
    hf_directory *trained;
    assert_int_equal(hf_directory_open(scratch_join(&made, "c").text, &trained), DYNO_OK);
    assert_int_equal(hf_directory_config(trained)->kv_heads, 1);
    hf_directory_close(trained);
    scratch_remove(&made);
}

/* A bench with steps for hours, its stderr a terminal (so that it shows its progress), its
 * stdout a file. */
typedef struct running {
    pid_t process;
    int terminal;
    scratch made;
} running;

static running start_long_bench(void) {
    running r = {.terminal = posix_openpt(O_RDWR | O_NOCTTY), .made = scratch_create()};
    assert_true(r.terminal >= 0 && grantpt(r.terminal) == 0 && unlockpt(r.terminal) == 0);
    char name[64];
    assert_int_equal(ptsname_r(r.terminal, name, sizeof name), 0);
    scratch_path out = scratch_join(&r.made, "stdout"), kept = scratch_join(&r.made, "kept");
    char *arguments[] = {"dyno",      "bench",   "--d-model", "32", "--heads",   "2",
                         "--layers",  "1",       "--vocab",   "50", "--context", "8,16",
                         "--steps",   "1000000", "--warmup",  "0",  "--out",     kept.text,
                         "--threads", "1",       NULL};
    r.process = fork();
    assert_true(r.process >= 0);
    if (r.process == 0) {
        dup2(open(name, O_WRONLY | O_NOCTTY), STDERR_FILENO);
        dup2(open(out.text, O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
        execv(DYNO_BINARY, arguments);
        _exit(127);
    }
    return r;
}

/* Reads what it writes to its terminal until it says `part`. */
static void wait_for(const running *r, const char *part) {
    text seen = {0};
    char piece[512];
    while (!seen.data || !strstr(seen.data, part)) {
        ssize_t got = read(r->terminal, piece, sizeof piece);
        if (got <= 0)
            fail_msg("it ended before it said '%s': %s", part, text_string(&seen));
        text_append_bytes(&seen, piece, (size_t)got);
    }
    text_release(&seen);
}

static void an_interrupted_bench_keeps_what_it_measured(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        running r = start_long_bench();
        wait_for(&r, "context 8, forward");
        assert_int_equal(kill(r.process, signals[i]), 0);
        wait_for(&r, "stopping after this step");
        int status;
        assert_int_equal(waitpid(r.process, &status, 0), r.process);
        if (!WIFEXITED(status))
            fail_msg("it died of signal %d after signal %d", WTERMSIG(status), signals[i]);
        assert_int_equal(WEXITSTATUS(status), 128 + signals[i]);
        close(r.terminal);
        char *printed;
        size_t size;
        assert_int_equal(
            file_read_all(scratch_join(&r.made, "stdout").text, 1 << 24, &printed, &size), DYNO_OK);
        assert_non_null(strstr(printed, "incomplete: interrupted after 0 of 6 cells"));
        free(printed);
        scratch kept = {0};
        strcpy(kept.path, scratch_join(&r.made, "kept").text);
        results *run = read_run(&kept);
        assert_false(run->is_complete);
        assert_int_equal(run->planned_cells, 6);
        assert_int_equal(run->cells[0]->status, RESULTS_INCOMPLETE);
        assert_true(cell_find_series(run->cells[0], "step")->count > 0);
        results_destroy(run);
        dyno_expect(0, "incomplete", "show %s", kept.path);
        scratch_remove(&r.made);
    }
}

/* OpenMP binds the program to one core before it begins, and its other threads are not OpenMP's. */
static void cores_are_all_there_where_openmp_binds_its_threads(void **state) {
    (void)state;
    static const char command[] = "doctor --threads 1 --format csv 2>/dev/null";
    text free_threads = {0}, bound = {0};
    assert_int_equal(dyno_run(&free_threads, command), 0);
    setenv("OMP_PROC_BIND", "true", 1);
    assert_int_equal(dyno_run(&bound, command), 0);
    unsetenv("OMP_PROC_BIND");
    const char *part = strstr(text_string(&free_threads), "cores available,");
    assert_non_null(part);
    text wanted = {0};
    text_append_bytes(&wanted, part, strcspn(part, "\r\n"));
    assert_non_null(strstr(text_string(&bound), text_string(&wanted)));
    text_release(&wanted);
    text_release(&free_threads);
    text_release(&bound);
}

static void doctor_tells_what_the_machine_has(void **state) {
    (void)state;
    text output = {0};
    assert_int_equal(dyno_run(&output, "doctor --threads 1 --format json 2>/dev/null"), 0);
    json_decref(parse(&output));
    text_release(&output);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verb_explains_itself),
        cmocka_unit_test(lists_come_in_every_format),
        cmocka_unit_test(a_plan_counts_the_parameters_of_10B),
        cmocka_unit_test(a_plan_tells_what_fits),
        cmocka_unit_test(a_bench_is_printed_kept_and_shown_alike),
        cmocka_unit_test(a_plan_is_printed_kept_and_shown_alike),
        cmocka_unit_test(a_bench_keeps_every_sample_and_what_the_plan_foretold),
        cmocka_unit_test(a_cell_that_does_not_fit_says_so_and_the_grid_goes_on),
        cmocka_unit_test(step_writes_what_it_computed),
        cmocka_unit_test(a_model_is_drawn_trained_and_saved),
        cmocka_unit_test(an_interrupted_bench_keeps_what_it_measured),
        cmocka_unit_test(doctor_tells_what_the_machine_has),
        cmocka_unit_test(cores_are_all_there_where_openmp_binds_its_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
