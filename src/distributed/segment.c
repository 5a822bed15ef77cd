#define _GNU_SOURCE
#include "distributed/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/system_memory.h"
#include "base/units.h"
#include "distributed/communicator.h"

static const char MAGIC[16] = "dyno segment 1";

static int64_t whole_pages(int64_t bytes) {
    int64_t page = sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static int64_t header_bytes(int member_count) {
    return whole_pages((int64_t)sizeof(segment_header) +
                       (int64_t)member_count * (int64_t)sizeof(segment_member));
}

static dyno_status map_header(segment *s, int64_t bytes) {
    void *base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->file, 0);
    if (base == MAP_FAILED)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "mapping the %lld bytes that ranks share: %s",
                         (long long)bytes, strerror(errno));
    s->header = base;
    s->members = (segment_member *)(s->header + 1);
    s->header_bytes = bytes;
    return DYNO_OK;
}

static dyno_status create(segment *s, int member_count) {
    int64_t bytes = header_bytes(member_count);
    s->file = memfd_create("dyno-ranks", 0);
    if (s->file < 0 || ftruncate(s->file, bytes) != 0)
        return dyno_fail(DYNO_IO, "making memory for %d ranks to share: %s", member_count,
                         strerror(errno));
    RETURN_IF_FAILED(map_header(s, bytes));
    memcpy(s->header->magic, MAGIC, sizeof MAGIC);
    s->header->bytes_of_member = (uint32_t)sizeof(segment_member);
    s->header->member_count = member_count;
    atomic_store(&s->header->end, bytes);
    return DYNO_OK;
}

dyno_status segment_create(int member_count, segment **out) {
    *out = memory_allocate(1, sizeof **out);
    (*out)->file = -1;
    dyno_status status = create(*out, member_count);
    if (status != DYNO_OK) {
        segment_close(*out);
        *out = NULL;
    }
    return status;
}

static dyno_status open_file(segment *s) {
    struct stat found;
    if (fstat(s->file, &found) != 0)
        return dyno_fail(DYNO_IO, "the memory that ranks share (file %d): %s", s->file,
                         strerror(errno));
    int64_t least = header_bytes(1);
    if (!S_ISREG(found.st_mode) || found.st_size < least)
        return dyno_fail(DYNO_CORRUPT,
                         "file %d is not the memory that ranks share: it has %lld bytes", s->file,
                         (long long)found.st_size);
    RETURN_IF_FAILED(map_header(s, least));
    int count = s->header->member_count;
    if (memcmp(s->header->magic, MAGIC, sizeof MAGIC) != 0 ||
        s->header->bytes_of_member != sizeof(segment_member) || count < 1 ||
        count > MEETING_MOST_MEMBERS || found.st_size < header_bytes(count))
        return dyno_fail(DYNO_CORRUPT,
                         "the memory that ranks share was made by another build of dyno; start all "
                         "ranks from one build");
    munmap(s->header, (size_t)least);
    s->header = NULL;
    return map_header(s, header_bytes(count));
}

dyno_status segment_open(int file, segment **out) {
    *out = memory_allocate(1, sizeof **out);
    (*out)->file = file;
    dyno_status status = open_file(*out);
    if (status != DYNO_OK) {
        segment_close(*out);
        *out = NULL;
    }
    return status;
}

void segment_close(segment *s) {
    if (!s)
        return;
    if (s->header)
        munmap(s->header, (size_t)s->header_bytes);
    if (s->file >= 0)
        close(s->file);
    free(s);
}

dyno_status segment_extend(segment *s, int64_t bytes, int64_t *offset) {
    int64_t end = atomic_load(&s->header->end), longer;
    system_memory memory = system_memory_read();
    if (memory_is_refused() || (memory.available_bytes && bytes > memory.available_bytes))
        return dyno_fail(DYNO_OUT_OF_MEMORY,
                         "%s of memory for ranks to share: there are %s; use fewer ranks or fewer "
                         "bytes",
                         units_bytes(bytes).text, units_bytes(memory.available_bytes).text);
    if (!checked_add(end, whole_pages(bytes), &longer) || ftruncate(s->file, longer) != 0)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "%s of memory for ranks to share: %s",
                         units_bytes(bytes).text, strerror(errno));
    atomic_store(&s->header->end, longer);
    *offset = end;
    return DYNO_OK;
}

dyno_status segment_map(segment *s, int64_t offset, int64_t bytes, void **out) {
    *out = NULL;
    void *base =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->file, (off_t)offset);
    if (base == MAP_FAILED)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "mapping %s of memory that ranks share: %s",
                         units_bytes(bytes).text, strerror(errno));
    /* Huge pages where the system lets us: fewer faults and fewer misses of the TLB. */
    madvise(base, (size_t)bytes, MADV_HUGEPAGE);
    *out = base;
    return DYNO_OK;
}

void segment_unmap(segment *s, void *base, int64_t bytes, int64_t own, int64_t own_bytes) {
    munmap(base, (size_t)bytes);
    if (own_bytes > 0 && fallocate(s->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)own,
                                   (off_t)own_bytes) != 0) {
        /* The pages go when the file does. */
    }
}

void segment_fail(segment *s, dyno_status status, const char *message) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&s->header->failed, &none, 1))
        return;
    s->header->failure_status = (int)status;
    snprintf(s->header->failure, sizeof s->header->failure, "%s", message);
    atomic_store(&s->header->failed, 2);
}

dyno_status segment_check(const segment *s) {
    if (atomic_load(&s->header->failed) != 2)
        return DYNO_OK;
    return dyno_fail(DYNO_RANK_FAILED, "%.*s", SEGMENT_FAILURE_BYTES - 1, s->header->failure);
}

member_text segment_describe_member(const segment *s, int index) {
    const segment_member *m = &s->members[index];
    int process = atomic_load(&m->process);
    member_text out;
    if (m->host[0])
        snprintf(out.text, sizeof out.text, "rank %d on host '%.*s' (process %d)", m->rank,
                 WORLD_HOST_BYTES - 1, m->host, process);
    else
        snprintf(out.text, sizeof out.text, "rank %d", m->rank);
    return out;
}

member_text segment_member_phase(const segment *s, int index) {
    const segment_member *m = &s->members[index];
    int op = atomic_load(&m->collective);
    char phase[WORLD_PHASE_BYTES];
    member_text out;
    memcpy(phase, m->phase, sizeof phase);
    phase[sizeof phase - 1] = '\0';
    if (!phase[0])
        snprintf(phase, sizeof phase, "start-up");
    if (op > 0 && op <= COLLECTIVE_OP_COUNT)
        snprintf(out.text, sizeof out.text, "%s (%s)", collective_op_name((collective_op)(op - 1)),
                 phase);
    else
        snprintf(out.text, sizeof out.text, "%s", phase);
    return out;
}
