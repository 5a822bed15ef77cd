/* target_rates.h - how fast a chip is on paper, for comparing ways to run a step on it.
 *
 * Rates of data sheets, dense, which no program reaches. They decide which of two ways takes longer and
 * by about how much; no rate that dyno reports is held against them (measure/machine.h measures). */
#ifndef BASE_TARGET_RATES_H
#define BASE_TARGET_RATES_H

#include "base/target.h"

typedef struct target_rates {
    double fp32, tf32, low; /* FLOP/s; tf32 and low (bf16, fp16) of products only */
    double memory;          /* B/s */
    double link;            /* B/s, in each direction, to other chips of its kind */
    /* Seconds that a launch takes at the least: started by the host, and in a step that is known
     * beforehand, which a GPU replays as one graph. */
    double launch, planned_launch;
} target_rates;

/* Of a GPU without a name those of the named one that is most like it; of a CPU from its instruction
 * sets and cores. */
target_rates target_rates_of(const target *t);

#endif
