/* shape.h - the sizes of a tensor's dimensions, outermost first. Rank 0 is a scalar. */
#ifndef TENSOR_SHAPE_H
#define TENSOR_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

enum { SHAPE_MAX_RANK = 6 };

typedef struct shape {
    int rank;
    int64_t dim[SHAPE_MAX_RANK];
} shape;

#define SHAPE(...)                                                                                 \
    shape_make((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define SHAPE_SCALAR ((shape){0})

shape shape_make(int rank, const int64_t *dim);
/* The product of the dimensions; values are built only from shapes for which it fits. */
int64_t shape_elements(const shape *s);
/* False when a dimension is below 1 or the product with `element_bytes` leaves int64. */
bool shape_is_valid(const shape *s, int64_t element_bytes);
bool shape_equal(const shape *a, const shape *b);

typedef struct {
    char text[128];
} shape_text;
/* "4,128,768"; "" for a scalar. */
shape_text shape_format(const shape *s);

#endif
