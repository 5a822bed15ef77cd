/* attributes.h - the constants of an operation: axes, scales, flags. */
#ifndef TENSOR_ATTRIBUTES_H
#define TENSOR_ATTRIBUTES_H

#include "tensor/shape.h"

struct text; /* base/text.h */

/* An attribute is an integer, a real, or a list of integers. */
typedef enum attribute_kind { ATTRIBUTE_INTEGER, ATTRIBUTE_REAL, ATTRIBUTE_LIST } attribute_kind;

typedef struct attribute {
    const char *name;
    attribute_kind kind;
    int64_t integer;
    double real;
    shape list;
} attribute;

typedef struct attributes {
    int count;
    attribute *items;
} attributes;

/* Attributes by name. The op's shape rule has already checked that they are there. */
int64_t attribute_integer(const attributes *list, const char *name);
double attribute_real(const attributes *list, const char *name);
const shape *attribute_list(const attributes *list, const char *name);
const attribute *attribute_find(const attributes *list, const char *name);

/* " {axes=[1], s=0.5}"; nothing when there are none. */
void attributes_print(const attributes *list, struct text *out);

#define ATTR_INTEGER(key, v) ((attribute){.name = key, .kind = ATTRIBUTE_INTEGER, .integer = (v)})
#define ATTR_REAL(key, v) ((attribute){.name = key, .kind = ATTRIBUTE_REAL, .real = (v)})
#define ATTR_LIST(key, v) ((attribute){.name = key, .kind = ATTRIBUTE_LIST, .list = (v)})

#endif
