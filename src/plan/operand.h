/* operand.h - which bytes of its buffer an operand touches, and whether two operands overlap. */
#ifndef PLAN_OPERAND_H
#define PLAN_OPERAND_H

#include "plan/plan.h"

/* Bytes [begin, end) of a buffer; empty where end is not above begin. */
typedef struct byte_range {
    int64_t begin, end;
} byte_range;

/* From the first byte of the strided view to its last: everything between counts. */
byte_range plan_operand_range(const plan_operand *o);

/* Whether element i of both is at the same address, if their buffers are one. */
bool plan_operands_coincide(const plan_operand *a, const plan_operand *b);

/* Whether they share no byte of one buffer, as far as is easily proved: their ranges are disjoint,
 * or they are interleaved, as column slices of the same rows are. */
bool plan_operands_are_apart(const plan_operand *a, const plan_operand *b);

/* Whether both launches touch some byte, and one of them writes it. */
bool plan_launches_conflict(const plan *p, int a, int b);

#endif
