/* plan_verify.h - the rules every finished plan obeys, checked after each pass over plans. */
#ifndef PLAN_PLAN_VERIFY_H
#define PLAN_PLAN_VERIFY_H

#include "plan/plan.h"

/* Fails naming the launch, its scope, the buffer, the values found and the rule they break:
 *   index       buffers, scopes and generated kernels exist; a launch has one kernel
 *   bounds      an operand lies inside its buffer, on a multiple of its type's size
 *   lifetime    transient buffers live within the step, persistent ones all of it; none is used
 *               before it is born or after its last use; births and deaths say the same
 *   write       the launch a transient buffer is born at writes it; what is read was written
 *   workspace   it is scratch of one launch, which no other launch and no operand uses
 *   overwrite   an output shares bytes with an input only where the kernel promises to allow it
 *               (plan_launch.overwrites) and every element lies where the input's does; outputs
 *               share none
 *   phase       no forward launch comes behind one of the backward (what is recomputed counts as
 *               backward). Updates of the optimizer may stand anywhere, for they run as soon as
 *               nothing reads their weights any more: only the optimizer reads what it wrote
 *   stream      what a launch on stream 1 uses lives until the next launch on stream 1 or the end
 *               of the step, and no launch of stream 0 before that writes it, or reads what it
 *               writes
 *   name        a named value lies in a buffer that outlives the last launch, and was written
 *   arena       static plans: buffers that are alive together share no byte of the arena, and lie
 *               inside it, aligned
 * Takes time in proportion to the plan's size, whatever its tensors' sizes. */
NODISCARD dyno_status plan_verify(const plan *p);

#endif
