/* tensor.h - a typed, strided view of memory. Values describe, buffers own: a tensor does
 * neither free nor move what it points at.
 *
 * Strides count elements. A stride of 0 repeats one element along a dimension (broadcast). */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include "tensor/dtype.h"
#include "tensor/shape.h"

typedef struct tensor {
    void *data; /* NULL in plans, where only the layout is known */
    dtype type;
    shape shape;
    int64_t stride[SHAPE_MAX_RANK];
} tensor;

/* Row-major and dense. */
tensor tensor_contiguous(void *data, dtype type, const shape *s);
bool tensor_is_contiguous(const tensor *t);
int64_t tensor_bytes(const tensor *t); /* of a dense copy */

/* Views of the same memory. Each returns false when no strides can express it. */
bool tensor_view_reshape(const tensor *t, const shape *s, tensor *view);
tensor tensor_view_transpose(const tensor *t, const int64_t *order);
tensor tensor_view_broadcast(const tensor *t, const shape *s);

/* Coalesces adjacent dimensions that all `count` tensors (of one shape) traverse alike, so that a
 * kernel's inner loop is as long as possible. Dimensions of size 1 disappear; at least one
 * dimension is left. */
void tensor_collapse(tensor *tensors, int count);

#endif
