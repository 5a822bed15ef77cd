/* report.c - a study as one text. */
#include <string.h>

#include "api/options.h"
#include "report/study.h"

enum { USUAL_BYTES = 3000000, LEAST_BYTES = 100000 };

dyno_status dyno_report(const char *path, const char *format, int64_t most_bytes, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(path, format);
    bool is_page = strcmp(format, "html") == 0, is_markdown = strcmp(format, "md") == 0;
    if (!is_page && !is_markdown && strcmp(format, "tex") != 0)
        return dyno_fail(DYNO_INVALID,
                         "unknown format '%s' of a report; known are html, md and tex",
                         text_quote(format).text);
    if (most_bytes && most_bytes < LEAST_BYTES)
        return dyno_fail(DYNO_INVALID, "a page of %lld bytes is too small, it takes %d at least",
                         (long long)most_bytes, LEAST_BYTES);
    study *s;
    text made = {0};
    RETURN_IF_FAILED(study_read(path, &s));
    if (is_page)
        study_append_html(s, most_bytes ? (size_t)most_bytes : USUAL_BYTES, &made);
    else if (is_markdown)
        study_append_markdown(s, &made);
    else
        study_append_tex(s, &made);
    study_destroy(s);
    *out = options_take_text(&made);
    return status_conclude(DYNO_OK);
}
