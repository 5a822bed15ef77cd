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
/* How near the best row comes to the peak, of a run that compares sizes. */
void finding_append_utilization(const results *run, text *out);

/* finding_growth.c: how time and memory grow along the sweep; through two sizes, the slope between them. */
void finding_append_growth(const results *run, text *out);
/* From which length on flash attention is faster than naive. */
void finding_append_crossover(const results *run, text *out);

/* finding_tiles.c: the fastest tile of flash attention, where several were measured. */
void finding_append_tiles(const results *run, text *out);

/* finding_steps.c: the backward alone against the forward, where passes and sizes are compared. */
void finding_append_backward(const results *run, text *out);
/* What casts take of a traced step in each precision, and what the scores of attention take alone. */
void finding_append_casts(const results *run, text *out);
void finding_append_scores(const results *run, text *out);

/* finding_parallel.c: what part of communication is hidden behind computing. */
void finding_append_overlap(const results *run, text *out);
/* What each sharded way saves of each kind of memory against a plain one, and what it sends. */
void finding_append_sharding(const results *run, text *out);

#endif
