/* ordered_set.h - things in the order of their keys: finding, adding and removing one takes a time
 * that grows with the logarithm of their number.
 *
 * A thing holds its ordered_item, so that the set allocates nothing. */
#ifndef BASE_ORDERED_SET_H
#define BASE_ORDERED_SET_H

#include <stdint.h>

typedef struct ordered_item {
    int64_t key, second; /* the second decides between equal keys; no two items have both alike */
    uint64_t priority;
    struct ordered_item *left, *right;
} ordered_item;

/* Zero is an empty set. */
typedef struct ordered_set {
    ordered_item *root;
    uint64_t added; /* items ever, from which priorities come */
} ordered_set;

/* The item's keys are set; they stay as they are until it is removed. */
void ordered_set_add(ordered_set *set, ordered_item *item);
void ordered_set_remove(ordered_set *set, ordered_item *item);

/* The first item that is not before these keys; NULL when all are. */
ordered_item *ordered_set_first_from(const ordered_set *set, int64_t key, int64_t second);
/* The last item that is before these keys; NULL when none is. */
ordered_item *ordered_set_last_before(const ordered_set *set, int64_t key, int64_t second);

#endif
