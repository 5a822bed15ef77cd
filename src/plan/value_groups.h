/* value_groups.h - the buffers of a plan for people: those of one name, role and shape are one line. */
#ifndef PLAN_VALUE_GROUPS_H
#define PLAN_VALUE_GROUPS_H

#include "plan/plan.h"
#include "plan/scope.h"

typedef struct value_group {
    scope_text name;           /* the value's, else the scope that made it; layers are folded */
    const char *op;            /* that made it; "" of what no launch made */
    const plan_buffer *sample; /* the first of them: role, type, shape, birth and death */
    int64_t count, bytes;      /* of all of them */
} value_group;

typedef struct value_group_options {
    /* Which buffers; NULL: all. */
    bool (*takes)(void *context, const plan_buffer *b);
    void *context;
    bool is_by_op; /* values of different ops are different lines */
} value_group_options;

/* In the order in which their first ones are in the plan; the caller frees it. */
value_group *value_groups_create(const plan *p, const value_group_options *options, int *count);
/* Most bytes together first, or the largest single value first; equals stay in order. */
void value_groups_sort_by_total(value_group *groups, int count);
void value_groups_sort_by_size(value_group *groups, int count);

#endif
