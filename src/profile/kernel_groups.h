/* kernel_groups.h - sums records of launches as they come, one at a time and in any order.
 *
 * Each record is added to one group of every grouping: by kernel, class, op, scope, phase and so on.
 * A group keeps how often each duration occurred, so that the median and the standard deviation are
 * exact and a long trace still needs little memory. Records that cannot be attributed are a group of
 * their own, ROW_UNATTRIBUTED, and never spread over others.
 *
 * The time of a device is the union over its streams. Which phase a record belongs to is a matter of its
 * launch: a phase's span is that of its launches. Others may run in it as well, so that the device is busy
 * while anything runs, of whichever phase and step, and only the rest of the span is a gap. */
#ifndef PROFILE_KERNEL_GROUPS_H
#define PROFILE_KERNEL_GROUPS_H

#include "base/status.h"
#include "profile/interval_set.h"
#include "profile/launch_record.h"
#include "profile/row_names.h"
#include "profile/value_counts.h"

/* What groups can be told apart by. */
typedef enum group_key {
    GROUP_KERNEL,  /* the device's own function; where it tells none, as planned */
    GROUP_PLANNED, /* "" where dyno did not plan it */
    GROUP_OP,
    GROUP_CLASS,
    GROUP_SCOPE,
    GROUP_FOLDED_SCOPE, /* layers.3.attn -> layers.*.attn */
    GROUP_PHASE,
    GROUP_LAUNCH, /* "17"; "" of a launch that is in no plan */
    GROUP_GRID,   /* "24x4x1"; "" where there is none */
    GROUP_BLOCK,
    GROUP_COST, /* FLOPs and bytes of one launch, so that those of a group are all alike */
    GROUP_KEY_COUNT
} group_key;
const char *group_key_name(group_key key);

enum { GROUPING_MOST_KEYS = 10 };

typedef struct grouping {
    const char *name; /* of the breakdown */
    group_key keys[GROUPING_MOST_KEYS];
    int key_count;
} grouping;

typedef struct kernel_group {
    const char *keys[GROUPING_MOST_KEYS]; /* in the order of the grouping */
    int64_t count;                        /* of records, */
    int64_t launches;                     /* and of launches: one may do several pieces of work */
    value_counts durations;               /* ns */
    value_counts steps;                   /* which step how many records are of */
    double running_ns, share_ns;          /* sums; see launch_record */
    double flops, bytes;
    int64_t without_cost, with_counters; /* records */
    double cycles, instructions, cache_misses;
    int registers; /* most */
    int64_t shared_bytes;
    uint64_t hash;
} kernel_group;

typedef struct kernel_groups kernel_groups;

/* `groupings` is borrowed. */
kernel_groups *kernel_groups_create(const grouping *groupings, int count);
void kernel_groups_destroy(kernel_groups *groups);

/* Texts of the record are copied where they are new. DYNO_CORRUPT, and nothing is added, for a record
 * that ends before it begins or whose times no clock could have. DYNO_OUT_OF_MEMORY, and the groups
 * are of no further use, where records differ so much that groups would take more than 256 MiB. */
NODISCARD dyno_status kernel_groups_add(kernel_groups *groups, const launch_record *record);

int kernel_groups_grouping_count(const kernel_groups *groups);
const grouping *kernel_groups_grouping(const kernel_groups *groups, int index);
/* Of a grouping, the longest running first; `count` is set. The pointer holds until the
 * next call, or until more is added. */
const kernel_group *const *kernel_groups_sorted(kernel_groups *groups, int index, int *count);
/* NULL when there is none with these keys. */
const kernel_group *kernel_groups_find(const kernel_groups *groups, int index,
                                       const char *const *keys);
/* Whether every step that has records has as many of this group. */
bool kernel_group_is_even(const kernel_group *group, int64_t steps);

/* Sums over the steps of a device, or of one of its phases. */
typedef struct device_time {
    int device;
    const char *phase; /* NULL: all */
    int place;         /* among all, by the first launch */
    int64_t steps, launches;
    double span_ns; /* from the first begin of a step to its last end, once where steps overlap */
    double span_median_ns;  /* the same of the median step */
    double busy_ns;         /* of that, while anything ran on the device */
    double running_ns;      /* how long launches ran: more than busy where streams overlap */
    value_summary gaps;     /* ns, while nothing ran on the device */
    double host_calls_ns;   /* in the calls that launched them, where these are known, */
    int64_t host_calls;     /* and how many: a call may launch a whole graph */
    value_summary behind;   /* ns from the begin of the call to that of the work on the device */
    int64_t unattributed;   /* records of no launch that is known, */
    double unattributed_ns; /* and how long they ran */
} device_time;

/* Devices in order; of each all phases together first, then each in order of its first launch. */
int kernel_groups_device_times(kernel_groups *groups, const device_time **out);

/* Different steps that records are of. */
int64_t kernel_groups_step_count(const kernel_groups *groups);
int64_t kernel_groups_record_count(const kernel_groups *groups);

#endif
