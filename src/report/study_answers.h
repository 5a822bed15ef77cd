/* study_answers.h - what a reader of a study asks first, and what its runs answer: every renderer begins
 * with it. */
#ifndef REPORT_STUDY_ANSWERS_H
#define REPORT_STUDY_ANSWERS_H

#include "base/text.h"
#include "report/study.h"

typedef struct study_question {
    const char *text;
    const char *otherwise; /* where no run answers it */
    /* Appends what a run answers, nothing where it does not. */
    void (*append)(const results *run, text *out);
} study_question;

enum { STUDY_QUESTIONS = 4 };
extern const study_question study_questions[STUDY_QUESTIONS];

/* Appends what a section answers; nothing where it has no cells. */
void study_append_answer(const study_section *section, const study_question *question, text *out);

/* Which machine: its parts, what was measured of them, versions, when. Plain text. */
extern const char study_machine_question[];
void study_append_machine(const study *s, text *out);

#endif
