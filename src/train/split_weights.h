/* split_weights.h - a parameter in storage as f32, however the storage keeps it:
 *
 *   whole, in f32                          any plan
 *   whole and a low copy beside it         compiled fp16
 *   a bf16 low copy and the rest, in u16   compiled bf16 (compiler/passes/low_copies.h)
 *
 * Storage has one of them at a time. Converting between them is exact. */
#ifndef TRAIN_SPLIT_WEIGHTS_H
#define TRAIN_SPLIT_WEIGHTS_H

#include "model/parameters.h"
#include "runtime/storage.h"

/* All elements of the parameter. DYNO_INVALID when the storage does not have it. */
NODISCARD dyno_status weight_read(const storage *s, const model_parameter *parameter, float *to);
/* Whole or in halves, and the low copy where there is one. DYNO_INVALID as above. */
NODISCARD dyno_status weight_write(storage *s, const model_parameter *parameter, const float *from);

/* Whether it is there whole, with a low copy beside it that may have to be filled. */
bool weight_has_copy(const storage *s, const model_parameter *parameter);

/* Whether every low copy that the plan wants is there, in its type: none has to be filled. */
bool weights_have_copies(const storage *s, const plan *p);

/* Weights between two plans that share a storage and keep them differently. */
typedef struct held_weights held_weights;

/* Before the storage is used by `next`. Where that plan stores any weight differently, takes all of
 * them out and empties the storage; else *out is NULL. */
NODISCARD dyno_status weights_hold(storage *s, const model_config *config, const plan *next,
                                   held_weights **out);
/* When the storage has what the plan asked for. */
NODISCARD dyno_status weights_restore(storage *s, const held_weights *held);
void held_weights_destroy(held_weights *held);

#endif
