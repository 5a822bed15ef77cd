/* compare.c - two runs, or rounds of them, side by side. */
#include "report/compare.h"

#include <stdlib.h>

#include "api/options.h"
#include "base/memory.h"

struct dyno_comparison {
    char *a_name, *b_name;
    run_set a, b;
    comparison found;
};

static dyno_status check_share(const char *name, double share, double least, double below) {
    if (share >= least && share < below)
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID, "dyno_compare_options: %s is %g, it must be from %g to below %g",
                     name, share, least, below);
}

static double take_share(double given, double usual) {
    return given < 0 ? 0 : given > 0 ? given : usual;
}

static dyno_status take_options(const dyno_compare_options *given, dyno_compare_options *all,
                                compare_options *out) {
    dyno_compare_options known = {0};
    if (given)
        RETURN_IF_FAILED(options_take("dyno_compare_options", given, &known, sizeof known));
    *all = known;
    *out = (compare_options){.threshold = take_share(known.threshold, 0.02),
                             .confidence = known.confidence > 0 ? known.confidence : 0.95,
                             .between_runs = take_share(known.between_runs, 0.02)};
    RETURN_IF_FAILED(check_share("threshold", out->threshold, 0, 1));
    RETURN_IF_FAILED(check_share("between_runs", out->between_runs, 0, 1));
    return check_share("confidence", out->confidence, 0.5, 1);
}

dyno_status dyno_compare(const char *a, const char *b, const dyno_compare_options *options,
                         dyno_comparison **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(a, b);
    dyno_compare_options given;
    compare_options known;
    RETURN_IF_FAILED(take_options(options, &given, &known));
    dyno_comparison *c = memory_allocate(1, sizeof *c);
    c->a_name = memory_copy_string(given.names[0] ? given.names[0] : a);
    c->b_name = memory_copy_string(given.names[1] ? given.names[1] : b);
    dyno_status status = run_set_read(a, &c->a);
    if (status == DYNO_OK)
        status = run_set_read(b, &c->b);
    if (status == DYNO_OK)
        status = compare_runs(&c->a, &c->b, known, &c->found);
    if (status == DYNO_OK)
        *out = c;
    else
        dyno_comparison_destroy(c);
    return status_conclude(status);
}

void dyno_comparison_destroy(dyno_comparison *c) {
    if (!c)
        return;
    comparison_release(&c->found);
    run_set_release(&c->a);
    run_set_release(&c->b);
    free(c->a_name);
    free(c->b_name);
    free(c);
}

int64_t dyno_comparison_regressions(const dyno_comparison *c) {
    return c ? comparison_regressions(&c->found) : 0;
}

dyno_status dyno_comparison_render(const dyno_comparison *c, const dyno_render_options *options,
                                   char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(c);
    view_options how;
    text shown = {0};
    RETURN_IF_FAILED(options_take_render(options, TABLE_TERMINAL, &how));
    report_document *document = comparison_create_document(&c->found, c->a_name, c->b_name,
                                                           table_format_is_full(how.format));
    document_render(document, how.format, (render_options){how.is_bold, false, how.columns},
                    &shown);
    document_destroy(document);
    *out = options_take_text(&shown);
    return status_conclude(DYNO_OK);
}
