/* study.h - everything that a report is about: the runs of a directory, in sections, with the titles and
 * questions of the suite they were made by. */
#ifndef REPORT_STUDY_H
#define REPORT_STUDY_H

#include "report/suite.h"

typedef struct study_section {
    const char *name, *title, *question, *number;
    results *run;          /* all of its parts; NULL: there is none */
    const char *skipped;   /* why parts were not run; "" */
    const char **commands; /* that measure its parts again */
    int command_count, command_capacity;
    int place; /* in the suite; 0 where the study is none */
} study_section;

typedef struct study {
    const char *title;
    study_section *sections;
    int count, capacity;
    arena *memory;
} study;

/* A run.json, a directory of one, of several, or of a suite. On failure *out is NULL. */
NODISCARD dyno_status study_read(const char *path, study **out);
void study_destroy(study *s);

/* The whole report: one page that needs nothing else, of about `most_bytes`, which lacks the ends of long tables
 * and the largest records where that is not enough; Markdown; LaTeX with booktabs and pgfplots. */
void study_append_html(const study *s, size_t most_bytes, text *out);
void study_append_markdown(const study *s, text *out);
void study_append_tex(const study *s, text *out);

#endif
