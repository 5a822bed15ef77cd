/* attention_parts.h - what is inside attention: by the scopes of dyno's own launches, and in the forward
 * of another program by the order of its launches.
 *
 * In another program a softmax between two matrix products is attention: the product before it computes
 * the scores, the one after it the values, and the element-wise kernels between them (scale, mask,
 * dropout) count with the softmax. A fused kernel is a part of its own. Records come as their launches
 * did on each stream; where they do not, less is found and nothing wrong. */
#ifndef PROFILE_ATTENTION_PARTS_H
#define PROFILE_ATTENTION_PARTS_H

#include "profile/kernel_classes.h" /* the names of classes */
#include "profile/launch_record.h"

typedef enum attention_part {
    ATTENTION_SCORES,
    ATTENTION_SOFTMAX,
    ATTENTION_VALUES,
    ATTENTION_CASTS, /* of dyno's own: they stand in the scope of what they are made for */
    ATTENTION_FUSED,
    ATTENTION_PART_COUNT
} attention_part;
const char *attention_part_name(attention_part part);

/* The part that a launch of dyno's is of; ATTENTION_PART_COUNT where it is of none. Scale and mask are
 * the softmax's, and so is what is fused with it, whichever scope it ends in: in the scopes of scores
 * and values the matrix products alone are scores and values. */
attention_part attention_part_of_scope(const char *scope, const char *class_name, const char *op);

typedef struct attention_sum {
    int64_t launches;
    double ns;
    double flops;          /* of those launches whose FLOPs are known, */
    int64_t without_flops; /* and how many of products and softmaxes are not */
} attention_sum;

typedef struct attention_parts attention_parts;

attention_parts *attention_parts_create(void);
void attention_parts_destroy(attention_parts *parts);
/* Adds a launch of another program; its place among the others tells which part it is. */
void attention_parts_add(attention_parts *parts, const launch_record *record);
/* Adds a launch of dyno's own; its scope tells which part it is. Only the forward counts. */
void attention_parts_add_own(attention_parts *parts, const launch_record *record);
/* How many softmaxes between two products were found. */
int64_t attention_parts_count(const attention_parts *parts);
/* Products and softmaxes that are not in the order of their calls, or of more streams than are kept apart: attention
 * around them is not found. */
int64_t attention_parts_passed_over(const attention_parts *parts);
attention_sum attention_parts_sum(const attention_parts *parts, attention_part part);

#endif
