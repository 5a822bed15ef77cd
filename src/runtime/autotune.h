/* autotune.h - choices that timing finds best, kept for each kind of device.
 *
 * One file of the cache directory holds all of them (tuning_cache.h): for an op's key the kernel and
 * its variant, for a product's problem the algorithm of cuBLASLt. Where the file holds nothing, or
 * nothing that can be read, nothing is known. */
#ifndef RUNTIME_AUTOTUNE_H
#define RUNTIME_AUTOTUNE_H

#include <stdbool.h>

#include "ops/kernel.h"

typedef struct autotune autotune;

/* A file for each model of a GPU, and of a CPU for each of its targets, because caches differ from
 * one model to the next. */
autotune *autotune_create(const target *chip);
void autotune_destroy(autotune *a);

/* For planning. Holds as long as `a` does. */
const kernel_tuning *autotune_kernels(const autotune *a);

/* Keys and values have no spaces. NULL: not known. The answer holds until the next call. */
const char *autotune_find(const autotune *a, const char *key);
/* False when it is kept for this process only: nothing can be written. */
bool autotune_keep(autotune *a, const char *key, const char *value);

/* What can be chosen among. */
typedef struct autotune_candidates {
    int count; /* in the order they are believed in */
    void *context;
    /* Nanoseconds of one run, of `repeats` back to back; false: it cannot run. */
    bool (*time)(void *context, int candidate, int repeats, double *ns);
} autotune_candidates;

/* The fastest, or -1 where none can run. Each is run once to load its code and once against the
 * clock, until a budget is spent; the best few are then timed again by turns. */
int autotune_choose(const autotune_candidates *from);

#endif
