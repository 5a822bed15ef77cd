/* plan_text.h - a plan as text, for people.
 *
 *   plan tiny, static, arena 8192 B
 *   parameter b0 f32[97,64] "model.embed_tokens.weight"
 *   input b1 i32[8] "tokens"
 *   saved b2 f32[8,64] 0..7 at 2048
 *   0: b2 = gather (gather_cpu) b0 b1 @forward embed
 *   1: b3 b4+256:f32[8,32]:[64,1] = split (copy_cpu) b2 {axis=1} @forward layers.0 stream 1 work b5
 *   name "loss" b9
 *
 * Names are those that are not their buffers'. Buffers say the launches they live from and to, and their offset in the arena; an operand that is
 * not its buffer's whole value, dense, says its offset in bytes, its type, shape and strides. */
#ifndef PLAN_PLAN_TEXT_H
#define PLAN_PLAN_TEXT_H

#include "base/text.h"
#include "plan/plan.h"

void plan_print(const plan *p, text *out);

#endif
