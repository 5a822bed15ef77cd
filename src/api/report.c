/* report.c - a study as one text. */
#include <string.h>

#include "api/options.h"
#include "report/study.h"

static const struct {
    const char *name;
    void (*append)(const study *s, text *out);
} FORMATS[] = {
    {"html", study_append_html}, {"md", study_append_markdown}, {"tex", study_append_tex}};

dyno_status dyno_report(const char *path, const char *format, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(path, format);
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
        if (strcmp(format, FORMATS[i].name) == 0) {
            study *s;
            text made = {0};
            RETURN_IF_FAILED(study_read(path, &s));
            FORMATS[i].append(s, &made);
            study_destroy(s);
            *out = options_take_text(&made);
            return status_conclude(DYNO_OK);
        }
    return dyno_fail(DYNO_INVALID, "unknown format '%s' of a report; known are html, md and tex",
                     text_quote(format).text);
}
