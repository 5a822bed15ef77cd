/* finding.h - what the numbers of a run say, in a few sentences. Every number in it is computed from the
 * cells when it is written: there is no text that could contradict the table. */
#ifndef REPORT_FINDING_H
#define REPORT_FINDING_H

#include "base/text.h"
#include "measure/results.h"

/* Appends the sentences; nothing where there is nothing to say. */
void finding_append(const results *run, text *out);

/* The fastest cell of a bench in tokens a second, the highest utilization, the largest share of a traced
 * step: what the first screen answers with. Each appends nothing where the run does not tell. */
void finding_append_speed(const results *run, text *out);
void finding_append_limits(const results *run, text *out);
void finding_append_misfits(const results *run, text *out);
void finding_append_next(const results *run, text *out);

#endif
