/* foreign_groups.h - a trace of another program, read and summed, for tests to ask about. */
#ifndef TESTS_SUPPORT_FOREIGN_GROUPS_H
#define TESTS_SUPPORT_FOREIGN_GROUPS_H

#include "profile/foreign_trace.h"
#include "profile/kernel_groups.h"

enum { BY_PHASE, BY_KERNEL, BY_OP, BY_CLASS, BY_SCOPE, BY_KERNEL_AND_PHASE, FOREIGN_GROUPINGS };

typedef struct foreign_groups {
    foreign_trace trace;
    kernel_groups *groups;
    launch_record last; /* without its texts */
    int64_t step_ns;    /* of the host, in all */
    int64_t range_ns;   /* of ranges that name phases */
    int range_count;
} foreign_groups;

/* Fails the test unless the status is `expected`. */
foreign_groups foreign_groups_read(const char *path, dyno_status expected);
void foreign_groups_release(foreign_groups *g);

/* Writes the document to a file of its own first. */
foreign_groups foreign_groups_of_text(const char *document, dyno_status expected);

/* Fails the test unless the group has so many records that run so long in all. */
void expect_group(const foreign_groups *g, int by, const char *key, int64_t count, int64_t ns);
/* The path of a file of tests/traces; holds until the next call. */
const char *trace_path(const char *name);

#endif
