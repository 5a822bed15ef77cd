/* plan_what_fits.c - which models can be trained in so much memory, and what would help the others.
 *
 *     plan_what_fits [GIB [TARGET]]        24 GiB of a 4090 by default; nothing is run
 */
#include <dyno.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(dyno_status status) {
    fprintf(stderr, "plan_what_fits: %s: %s\n", dyno_status_name(status), dyno_error_message());
    return 1;
}

/* One line: what a training step of the preset needs, and whether that is there. */
static dyno_status print_preset(const char *preset, const char *target, double gib) {
    dyno_model_options sizes = {.size = sizeof sizes, .preset = preset};
    dyno_plan_options step = {.size = sizeof step,
                              .context = 512,
                              .mode = "compiled",
                              .precision = "bf16",
                              .target = target};
    dyno_cost cost = {.size = sizeof cost};
    dyno_model *model = NULL;
    dyno_plan *plan = NULL;
    char *advice = NULL;
    bool fits = false;

    dyno_status status = dyno_model_create(&sizes, &model);
    if (status == DYNO_OK)
        status = dyno_plan_create(model, &step, &plan);
    if (status == DYNO_OK)
        status = dyno_plan_cost(plan, &cost);
    if (status == DYNO_OK)
        status = dyno_plan_fits(plan, (int64_t)(gib * 0x1p30), &fits, &advice);
    if (status == DYNO_OK)
        printf("%-8s %8.1f M parameters %8.2f GiB  %s%s\n", preset,
               (double)dyno_model_elements(model) / 1e6, (double)cost.reserved_bytes / 0x1p30,
               fits ? "fits" : "does not fit: ", advice);
    dyno_text_free(advice);
    dyno_plan_destroy(plan);
    dyno_model_destroy(model);
    return status;
}

int main(int argc, char **argv) {
    double gib = argc > 1 ? atof(argv[1]) : 24;
    const char *target = argc > 2 ? argv[2] : "4090";
    printf("a step of 4 x 512 tokens, compiled, bf16, on %s with %g GiB\n", target, gib);
    for (int i = 0; dyno_preset_name(i); i++) {
        dyno_status status = print_preset(dyno_preset_name(i), target, gib);
        if (status != DYNO_OK)
            return fail(status);
    }
    return 0;
}
