/* nested_ranges.h - the ranges around pieces of work that follow one another, rebuilt from what each
 * piece is for: its phase, in it the parts of its scope.
 *
 * A range lasts from the begin of the first piece to the end of the last, so ranges of one sequence are
 * inside each other or apart. */
#ifndef PROFILE_NESTED_RANGES_H
#define PROFILE_NESTED_RANGES_H

#include <stddef.h>
#include <stdint.h>

/* Texts are borrowed. */
typedef struct ranged_work {
    int step;
    const char *phase; /* NULL: it is in no range */
    const char
        *scope; /* "layers.3.attn", of which so many bytes count; may be NULL where none do */
    size_t scope_length;
    int64_t begin_ns, end_ns;
} ranged_work;

typedef struct nested_range {
    const char *name; /* so many bytes of it */
    int length;
    int depth; /* from 0: a phase */
    int64_t begin_ns, end_ns;
} nested_range;

enum { NESTED_RANGES_DEPTH = 32 }; /* deeper parts of a scope have no range */

/* Zero has no ranges. Open for reading: those around others come before them. */
typedef struct nested_ranges {
    nested_range *ranges;
    int count, capacity;
    int open[NESTED_RANGES_DEPTH]; /* indices of those around the last piece */
    int open_count, step;
} nested_ranges;

/* `work` begins when the last that was added has ended, or later. */
void nested_ranges_add(nested_ranges *ranges, const ranged_work *work);
void nested_ranges_release(nested_ranges *ranges);

#endif
