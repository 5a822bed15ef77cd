/* loss_scale.h - dynamic loss scaling for fp16, so that small gradients do not underflow.
 *
 * Starts high, halves when a step's gradients overflow (that step is skipped), doubles after so
 * many good steps in a row: it stays as large as the gradients allow. */
#ifndef TRAIN_LOSS_SCALE_H
#define TRAIN_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

enum { LOSS_SCALE_START = 65536, LOSS_SCALE_PATIENCE = 2000, LOSS_SCALE_MOST = 1 << 24 };

typedef struct loss_scale {
    float factor;          /* a power of two, from 1 to LOSS_SCALE_MOST */
    int64_t good_steps;    /* since it changed last */
    int64_t skipped_steps; /* in all */
} loss_scale;

loss_scale loss_scale_create(void);
/* After each step. */
void loss_scale_adapt(loss_scale *s, bool overflowed);

#endif
