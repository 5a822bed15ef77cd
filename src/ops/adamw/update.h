/* update.h - the arithmetic of AdamW: one function for the op on one parameter and the op on all of
 * them, so that both give the same bits. */
#ifndef OPS_ADAMW_UPDATE_H
#define OPS_ADAMW_UPDATE_H

#include <math.h>

#include "graph/op.h"
#include "ops/adamw/adamw.h"
#include "ops/kernel.h"

/* What is the same for every element of a step. */
typedef struct adamw_step {
    float beta1, beta2, rest1, rest2; /* rest: 1 - beta, taken in double: near 1 it cancels */
    float eps, keep, rate, inverse_root, scale;
    bool is_skipped;
} adamw_step;

/* The scalars are a step's learning rate, number and gradient scale. */
adamw_step adamw_step_create(const attributes *list, const tensor *learning_rate,
                             const tensor *number, const tensor *scale);
/* One element: its new weight; the moments are updated where they are. */
static inline float adamw_element(const adamw_step *u, float gradient, float weight, float *first,
                                  float *second) {
    float g = gradient * u->scale;
    float m = u->beta1 * *first + u->rest1 * g;
    float v = u->beta2 * *second + u->rest2 * g * g;
    *first = m;
    *second = v;
    return weight * u->keep - u->rate * m / (sqrtf(v) * u->inverse_root + u->eps);
}

/* AdamW does little with much memory. Loops over it go a chunk at a time and ask for each array's
 * chunk that comes so many elements later: hardware alone follows that many arrays too late. */
enum { ADAMW_CHUNK = 32, ADAMW_AHEAD = 512 };

static inline void adamw_ask(const void *array, int64_t element, int bytes) {
    const char *from = (const char *)array + (element + ADAMW_AHEAD) * bytes;
    for (int i = 0; i < ADAMW_CHUNK * bytes; i += 64)
        __builtin_prefetch(from + i);
}

void adamw_update(const adamw_step *step, int64_t count, const float *restrict gradient,
                  float *restrict weight, float *restrict first, float *restrict second);

/* The same in double for the ops' references, into other memory. */
void adamw_update_reference(const node *n, double rate, double number, double scale, int64_t count,
                            const double *const state[4], double *const updated[3]);

/* The shape rule's part about attributes and about the three scalars. */
NODISCARD dyno_status adamw_check(const node *n, const value *rate, const value *number,
                                  const value *scale);

/* The attributes that carry the options. */
enum { ADAMW_ATTRIBUTES = 5 };
int adamw_attributes(const adamw_options *options, attribute items[ADAMW_ATTRIBUTES]);

#endif
