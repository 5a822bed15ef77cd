/* memory_formula.h - sizes in bytes as the products of the dimensions that make them. */
#ifndef PLAN_MEMORY_FORMULA_H
#define PLAN_MEMORY_FORMULA_H

#include "base/text.h"
#include "plan/plan.h"

/* "4 x 12 x 128 x 128 x 4 B" */
void memory_formula_append(const plan_buffer *b, text *out);

/* The buffers alive while that launch runs, grouped by shape and type, the largest first until nine
 * tenths of the bytes are listed; dimensions of 1 are left out: "8 x 4096 x 4096 x 4 B x 3 = 1.50
 * GiB (attn.scale, attn.softmax x 2), rest 48.00 MiB". Returns the bytes in all. */
int64_t memory_formula_explain(const plan *p, int launch, text *out);

#endif
