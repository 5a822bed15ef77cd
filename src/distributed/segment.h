/* segment.h - the memory that the ranks of one host share: one file without a name.
 *
 * The file is a memfd: it has no name that could be left behind, and it is gone when the last process
 * that maps it is. At its beginning lies the table of members; behind that, regions are handed out that
 * all members map when they need them. Pages that nobody has touched take no memory.
 *
 *   [ header | members | region | region | ... ]
 *
 * A rank that cannot go on leaves a failure here, once; whoever waits for it finds it. */
#ifndef DISTRIBUTED_SEGMENT_H
#define DISTRIBUTED_SEGMENT_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "distributed/meeting.h"
#include "distributed/world.h"

enum { SEGMENT_MAIL_BYTES = 1024, SEGMENT_FAILURE_BYTES = 640 };

typedef enum member_state { MEMBER_AWAITED, MEMBER_PRESENT, MEMBER_LEFT } member_state;

/* One rank of this host. It writes its own; the launcher writes `process` beforehand. */
typedef struct segment_member {
    _Atomic int process; /* 0: not known yet */
    _Atomic int state;
    _Atomic int collective; /* the collective_op that it is in, and 1; 0: none */
    int rank;               /* of the world */
    char host[WORLD_HOST_BYTES];
    char phase[WORLD_PHASE_BYTES];
    cpu_set_t cores; /* that it may run on */
    _Alignas(64) char mail[SEGMENT_MAIL_BYTES];
} segment_member;

typedef struct segment_header {
    char magic[16];
    uint32_t bytes_of_member; /* with the magic: whether both sides were built alike */
    int member_count;
    bool is_launched;     /* by dyno, whose launcher watches over the processes */
    _Atomic int64_t end;  /* of the file: where the next region begins */
    _Atomic int failed;   /* 0, 1 while the failure is being written, 2 when it can be read */
    int failure_status;   /* the dyno_status that it was */
    _Atomic bool is_told; /* somebody has reported, or will report, the failure to the user */
    char failure[SEGMENT_FAILURE_BYTES];
    _Alignas(64) meeting meeting; /* of all members */
} segment_header;

typedef struct segment {
    segment_header *header;
    segment_member *members;
    int file;
    int64_t header_bytes;
} segment;

/* A new one. The file is inherited by processes that are started (no close-on-exec). */
NODISCARD dyno_status segment_create(int member_count, segment **out);
/* One that another process made: takes the open file, whatever happens. Whether it is a segment of
 * this build is checked. */
NODISCARD dyno_status segment_open(int file, segment **out);
/* Unmaps it; the ranks' regions are unmapped by those who mapped them. NULL is allowed. */
void segment_close(segment *s);

/* Makes the file longer by `bytes`, in whole pages; *offset is where they begin. One member calls it
 * and tells the others. DYNO_OUT_OF_MEMORY where there is not so much memory. */
NODISCARD dyno_status segment_extend(segment *s, int64_t bytes, int64_t *offset);
NODISCARD dyno_status segment_map(segment *s, int64_t offset, int64_t bytes, void **out);
/* Unmaps a region; its pages go back to the system when no member has it mapped, and those of
 * [own, own + own_bytes) at once. */
void segment_unmap(segment *s, void *base, int64_t bytes, int64_t own, int64_t own_bytes);

/* Leaves the failure for the others, unless there is one already. */
void segment_fail(segment *s, dyno_status status, const char *message);
/* DYNO_OK, or the failure that was left, as this thread's own. */
NODISCARD dyno_status segment_check(const segment *s);

typedef struct {
    char text[160];
} member_text;
/* "rank 2 on host 'a' (process 123)" */
member_text segment_describe_member(const segment *s, int index);
/* What it does: "all-reduce (timing)", "start-up". */
member_text segment_member_phase(const segment *s, int index);

#endif
