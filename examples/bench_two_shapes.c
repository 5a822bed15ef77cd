/* bench_two_shapes.c - is a deep or a wide model of about the same size faster here?
 *
 *     bench_two_shapes [SECONDS]           stops after so many seconds with what there is
 */
#include <dyno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int fail(dyno_status status) {
    fprintf(stderr, "bench_two_shapes: %s: %s\n", dyno_status_name(status), dyno_error_message());
    return 1;
}

static void show_progress(void *caller, double done, double total, const char *label) {
    (void)caller;
    fprintf(stderr, "\r%3.0f %%  %-60s", total > 0 ? 100 * done / total : 0, label);
}

static bool is_late(void *deadline) { return time(NULL) >= *(const time_t *)deadline; }

/* Times whole steps of one shape and prints the table, also of a run that was stopped. */
static dyno_status bench(const char *title, const char *layers, const char *width,
                         time_t *deadline) {
    const char *const settings[] = {layers,       width,       "d-ff=256", "heads=4", "vocab=256",
                                    "context=64", "pass=step", "warmup=1", "steps=3"};
    dyno_experiment_options options = {.size = sizeof options,
                                       .name = "bench",
                                       .settings = settings,
                                       .setting_count = sizeof settings / sizeof *settings,
                                       .caller = deadline,
                                       .on_progress = show_progress,
                                       .should_stop = is_late};
    dyno_render_options how = {.size = sizeof how, .format = "md"};
    dyno_results *results;
    char *table;
    dyno_status status = dyno_experiment_run(&options, &results);
    fputc('\n', stderr);
    if (!results)
        return status;
    dyno_status shown = dyno_results_render(results, &how, &table);
    if (shown == DYNO_OK)
        printf("## %s%s\n\n%s\n", title, status == DYNO_INTERRUPTED ? " (stopped)" : "", table);
    if (shown == DYNO_OK)
        dyno_text_free(table);
    dyno_results_destroy(results);
    return status == DYNO_INTERRUPTED ? shown : status;
}

int main(int argc, char **argv) {
    time_t deadline = time(NULL) + (argc > 1 ? atoi(argv[1]) : 60);
    dyno_status status = bench("deep: 8 layers of 64", "layers=8", "d-model=64", &deadline);
    if (status == DYNO_OK)
        status = bench("wide: 3 layers of 128", "layers=3", "d-model=128", &deadline);
    return status == DYNO_OK ? 0 : fail(status);
}
