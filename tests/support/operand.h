/* operand.h - tensors with data, in the layouts that views give a kernel. */
#ifndef TESTS_SUPPORT_OPERAND_H
#define TESTS_SUPPORT_OPERAND_H

#include "support/draw.h"
#include "tensor/tensor.h"

typedef enum layout {
    LAYOUT_DENSE,
    LAYOUT_TRANSPOSED, /* dimensions lie in memory in another order */
    LAYOUT_BROADCAST,  /* some dimensions have stride 0 */
    LAYOUT_PADDED,     /* rows are dense but do not touch */
    LAYOUT_SPREAD,     /* every other element */
    LAYOUT_COUNT
} layout;

/* What the elements are. A zero fill is normal. */
typedef enum fill_kind { FILL_NORMAL, FILL_UNIFORM, FILL_INTEGERS, FILL_CHOICE } fill_kind;
typedef struct fill {
    fill_kind kind;
    double low, high; /* [low, high) of uniform and integers; FILL_NORMAL: times `high` if > 0 */
    const double *choice; /* FILL_CHOICE: one of these, `count` of them */
    int count;
} fill;

typedef struct operand {
    tensor view;   /* what the kernel sees */
    double *dense; /* the same elements, row-major */
    void *block;   /* what owns the view's memory, and not a byte more */
} operand;

operand operand_create(dtype type, const shape *s, layout how, fill what, draw *d);
void operand_release(operand *o);

double fill_draw(fill what, draw *d);
/* A tensor's elements, row-major, as doubles (free). */
double *tensor_to_doubles(const tensor *t);
/* The offset, in elements, of the i-th element in row-major order: the naive way. */
int64_t tensor_offset(const tensor *t, int64_t i);

#endif
