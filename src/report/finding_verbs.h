/* finding_verbs.h - what particular experiments show, each as a sentence that begins with a space; nothing
 * where the run is of another kind or its cells do not tell. */
#ifndef REPORT_FINDING_VERBS_H
#define REPORT_FINDING_VERBS_H

#include "base/text.h"
#include "measure/results.h"

/* The worst and the best way to sum up, of `dyno precision accumulation`. */
void finding_append_accumulation(const results *run, text *out);
/* What has 16 bits under each policy, of `dyno precision policy`. */
void finding_append_policy(const results *run, text *out);
/* The highest bus bandwidth, of `dyno allreduce`. */
void finding_append_bandwidth(const results *run, text *out);
/* The most ranks before communication dominates, for each way to be parallel, of `dyno scale`. */
void finding_append_ranks(const results *run, text *out);
/* What the first step takes without warm-up, and how samples scatter with and without. */
void finding_append_warmup(const results *run, text *out);
/* What recomputing saves at best, and what that costs. */
void finding_append_recompute(const results *run, text *out);

#endif
