/* world.c - joining a job, small messages, and what a rank's work ends with.
 *
 * Ranks that dyno started inherit the segment. Ranks of mpirun find each other through MPI; those of
 * one host then open the segment that the first of them made, through /proc, so that there is never
 * a name to be left behind. */
#define _GNU_SOURCE
#include "distributed/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/threads.h"
#include "distributed/launch.h"
#include "distributed/mpi_module.h"
#include "distributed/mpi_wait.h"
#include "distributed/segment.h"

enum { KEY_BYTES = 160 };

/* What every rank says of itself. */
typedef struct introduction {
    char host[WORLD_HOST_BYTES];
    char key[KEY_BYTES]; /* equal for ranks that can share memory */
    int process, file;
} introduction;

struct world {
    world_place place;
    double timeout_s;
    segment *segment;
    meeting_place meeting;
    const mpi_module *mpi;
    mpi_job *job;
    int host_rank, host_count, first_of_host, hosts;
    cpu_set_t own_cores;  /* that this rank was started with */
    int host_cores;       /* of all ranks of the host together */
    int *host_of;         /* for each rank */
    introduction *others; /* for each rank */
    bool has_failed;
    char agreed[SEGMENT_FAILURE_BYTES]; /* the last failure that all ranks know of */
};

static world *current;
static world *unopened; /* a world that could not be joined: its ranks still report only once */

/* ---- who is where ---- */

static void read_line(const char *path, char *to, size_t bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : file_read(file, to, bytes - 1);
    if (file >= 0)
        close(file);
    to[length > 0 ? length : 0] = '\0';
    to[strcspn(to, "\n")] = '\0';
}

void world_find_host(char name[WORLD_HOST_BYTES]) {
    const char *chosen = getenv("DYNO_HOST");
    if (chosen && *chosen)
        snprintf(name, WORLD_HOST_BYTES, "%s", chosen);
    else if (gethostname(name, WORLD_HOST_BYTES - 1) != 0 || !name[0])
        snprintf(name, WORLD_HOST_BYTES, "unknown");
    name[WORLD_HOST_BYTES - 1] = '\0';
}

/* DYNO_HOST tells hosts apart, or together, where the system's own names do not. */
static introduction introduce(void) {
    introduction self = {.process = (int)getpid(), .file = -1};
    world_find_host(self.host);
    if (getenv("DYNO_HOST")) {
        snprintf(self.key, sizeof self.key, "%s", self.host);
        return self;
    }
    char boot[48];
    struct stat space = {0};
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    /* Processes of another process space cannot be found through /proc. */
    if (stat("/proc/self/ns/pid", &space) != 0)
        space.st_ino = 0;
    snprintf(self.key, sizeof self.key, "%.60s %.40s %llu", self.host, boot,
             (unsigned long long)space.st_ino);
    return self;
}

/* Numbers the hosts. Where the ranks of one are not in a row, or `is_apart`, each is its own. */
static void number_hosts(world *w, bool is_apart) {
    int count = w->place.count;
    bool is_in_rows = true;
    for (int r = 0; r < count; r++) {
        w->host_of[r] = -1;
        for (int before = 0; before < r && w->host_of[r] < 0; before++)
            if (strcmp(w->others[r].key, w->others[before].key) == 0)
                w->host_of[r] = w->host_of[before];
        if (w->host_of[r] < 0)
            w->host_of[r] = r ? w->hosts : 0;
        w->hosts = w->host_of[r] + 1 > w->hosts ? w->host_of[r] + 1 : w->hosts;
        if (r && w->host_of[r] < w->host_of[r - 1])
            is_in_rows = false;
    }
    if (!is_in_rows || is_apart) {
        w->hosts = count;
        for (int r = 0; r < count; r++)
            w->host_of[r] = r;
    }
    w->host_count = 0;
    for (int r = count - 1; r >= 0; r--)
        if (w->host_of[r] == w->host_of[w->place.rank]) {
            w->first_of_host = r;
            w->host_count++;
        }
    w->host_rank = w->place.rank - w->first_of_host;
}

/* ---- cores ---- */

/* The `index`-th of so many equal parts of the set. */
static cpu_set_t part_of_cores(const cpu_set_t *all, int index, int parts) {
    int count = CPU_COUNT(all), begin = count * index / parts, end = count * (index + 1) / parts;
    cpu_set_t part;
    CPU_ZERO(&part);
    int seen = 0;
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, all)) {
            if (seen >= begin && seen < end)
                CPU_SET(core, &part);
            seen++;
        }
    return part;
}

void world_bind_cores(world *w, int ranks) {
    if (w->place.starter != WORLD_DYNO)
        return;
    cpu_set_t cores = w->own_cores;
    if (ranks <= CPU_COUNT(&w->own_cores) && w->host_rank < ranks)
        cores = part_of_cores(&w->own_cores, w->host_rank, ranks);
    bool is_shared = CPU_EQUAL(&cores, &w->own_cores);
    if (sched_setaffinity(0, sizeof cores, &cores) == 0)
        threads_share_cores(is_shared ? ranks : 1);
}

/* What all ranks of the host may run on, together; and how many share this rank's cores. */
static void count_cores(world *w) {
    cpu_set_t all;
    int sharers = 0;
    CPU_ZERO(&all);
    for (int r = 0; r < w->host_count; r++) {
        cpu_set_t both;
        CPU_OR(&all, &all, &w->segment->members[r].cores);
        CPU_AND(&both, &w->own_cores, &w->segment->members[r].cores);
        sharers += CPU_COUNT(&both) > 0;
    }
    w->host_cores = CPU_COUNT(&all);
    threads_share_cores(sharers);
    world_bind_cores(w, w->host_count);
}

static void enter_segment(world *w, const introduction *self) {
    segment_member *me = &w->segment->members[w->host_rank];
    me->rank = w->place.rank;
    CPU_ZERO(&w->own_cores);
    if (sched_getaffinity(0, sizeof w->own_cores, &w->own_cores) != 0)
        CPU_SET(0, &w->own_cores);
    me->cores = w->own_cores;
    snprintf(me->host, sizeof me->host, "%s", self->host);
    atomic_store(&me->process, self->process);
    atomic_store(&me->state, MEMBER_PRESENT);
    w->meeting = (meeting_place){.shared = &w->segment->header->meeting,
                                 .segment = w->segment,
                                 .index = w->host_rank,
                                 .count = w->host_count,
                                 .timeout_s = world_host_timeout_s(w)};
}

/* All ranks of the host are there. */
static dyno_status meet_first(world *w) {
    RETURN_IF_FAILED(meeting_wait(&w->meeting));
    count_cores(w);
    w->meeting.spins = world_has_core_for(w, w->host_count);
    return DYNO_OK;
}

/* ---- started by dyno ---- */

/* The file of the ranks' memory, as the environment says; -1: it does not. */
static int launched_file(void) {
    const char *given = getenv(LAUNCH_FILE_VARIABLE);
    char *end = NULL;
    long file = given ? strtol(given, &end, 10) : -1;
    return !given || *end || file < 3 || file > 1 << 20 ? -1 : (int)file;
}

static dyno_status join_launched(world *w) {
    const char *given = getenv(LAUNCH_FILE_VARIABLE);
    int file = launched_file();
    if (file < 0)
        return dyno_fail(DYNO_INVALID,
                         "the environment says that this is rank %d of %d, but not where their "
                         "memory is (%s is '%s'); unset %s, or start ranks with --ranks",
                         w->place.rank, w->place.count, LAUNCH_FILE_VARIABLE, given ? given : "",
                         LAUNCH_RANK_VARIABLE);
    RETURN_IF_FAILED(segment_open(file, &w->segment));
    if (w->segment->header->member_count != w->place.count)
        return dyno_fail(DYNO_INVALID, "%s is %d, but the memory of the ranks is for %d",
                         LAUNCH_COUNT_VARIABLE, w->place.count, w->segment->header->member_count);
    fcntl(w->segment->file, F_SETFD, FD_CLOEXEC); /* what this rank starts is no rank */
    introduction self = introduce();
    for (int r = 0; r < w->place.count; r++)
        w->others[r] = self;
    number_hosts(w, false);
    enter_segment(w, &self);
    return meet_first(w);
}

/* ---- started by mpirun or srun ---- */

static dyno_status gather(world *w, const void *mine, void *all, size_t bytes) {
    mpi_transfer *transfer;
    RETURN_IF_FAILED(w->mpi->start_gather(w->job, mine, all, bytes, &transfer));
    return mpi_wait(w, &transfer, -1);
}

/* The first rank of the host makes the segment, the others open it where that one has it. */
static dyno_status open_segment(world *w, introduction *self) {
    if (w->host_rank == 0) {
        RETURN_IF_FAILED(segment_create(w->host_count, &w->segment));
        fcntl(w->segment->file, F_SETFD, FD_CLOEXEC);
        self->file = w->segment->file;
    }
    RETURN_IF_FAILED(gather(w, self, w->others, sizeof *self));
    if (w->host_rank == 0)
        return DYNO_OK;
    const introduction *first = &w->others[w->first_of_host];
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", first->process, first->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return dyno_fail(DYNO_IO, "opening the memory that ranks share, %s: %s", path,
                         strerror(errno));
    return segment_open(file, &w->segment);
}

/* Whether a rank could not open its host's segment: all ranks then do without. */
static dyno_status share_memory(world *w, introduction *self, bool *is_apart) {
    char opened = open_segment(w, self) == DYNO_OK && w->segment;
    char *all = memory_allocate((size_t)w->place.count, 1);
    dyno_status status = gather(w, &opened, all, 1);
    for (int r = 0; status == DYNO_OK && r < w->place.count; r++)
        *is_apart = *is_apart || !all[r];
    free(all);
    return status;
}

/* Programs start slowly on a busy machine, whatever a collective may take. */
#define LEAST_START_S 30.0

static dyno_status join_mpi(world *w) {
    int rank, count;
    double start_s = w->timeout_s > LEAST_START_S ? w->timeout_s : LEAST_START_S;
    dyno_status status = mpi_module_load(&w->mpi);
    if (status != DYNO_OK)
        return dyno_fail_within(status, "%s says that this is rank %d of %d", w->place.evidence,
                                w->place.rank, w->place.count);
    RETURN_IF_FAILED(w->mpi->open(start_s, &w->job, &rank, &count));
    if (rank != w->place.rank || count != w->place.count)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "%s says that this is rank %d of %d, MPI (%s) says rank %d of %d; use the "
                         "mpirun that belongs to this MPI",
                         w->place.evidence, w->place.rank, w->place.count, w->mpi->library(), rank,
                         count);
    introduction self = introduce();
    RETURN_IF_FAILED(gather(w, &self, w->others, sizeof self));
    number_hosts(w, false);
    bool is_apart = false;
    RETURN_IF_FAILED(share_memory(w, &self, &is_apart));
    if (is_apart) {
        segment_close(w->segment);
        w->segment = NULL;
        number_hosts(w, true);
        RETURN_IF_FAILED(segment_create(1, &w->segment));
    }
    enter_segment(w, &self);
    RETURN_IF_FAILED(meet_first(w));
    char nothing = 0, *all = memory_allocate((size_t)count, 1);
    status = gather(w, &nothing, all, 1);
    free(all);
    return status;
}

/* ---- opening and closing ---- */

static void release(world *w) {
    if (!w)
        return;
    if (w->segment && w->host_rank < w->segment->header->member_count)
        atomic_store(&w->segment->members[w->host_rank].state, MEMBER_LEFT);
    if (w->job)
        w->mpi->close(w->job, !w->has_failed);
    segment_close(w->segment);
    free(w->host_of);
    free(w->others);
    free(w);
}

void world_close(world *w) {
    if (!w)
        return;
    if (w == current)
        current = NULL;
    release(w);
}

static void close_all(void) {
    world_close(current);
    release(unopened);
    unopened = NULL;
}

static dyno_status join(world *w) {
    w->host_of = memory_allocate((size_t)w->place.count, sizeof *w->host_of);
    w->others = memory_allocate((size_t)w->place.count, sizeof *w->others);
    switch (w->place.starter) {
    case WORLD_DYNO:
        return join_launched(w);
    case WORLD_MPI:
        return join_mpi(w);
    case WORLD_ALONE:
        break;
    }
    w->others[0] = introduce();
    number_hosts(w, false);
    return DYNO_OK;
}

dyno_status world_open(const world_options *options, world **out) {
    static bool closes_at_exit;
    *out = current;
    if (current)
        return DYNO_OK;
    if (!closes_at_exit)
        atexit(close_all);
    closes_at_exit = true;
    world *w = memory_allocate(1, sizeof *w);
    w->timeout_s = options && options->timeout_s > 0 ? options->timeout_s : 30;
    dyno_status status = world_find_place(&w->place);
    if (status == DYNO_OK)
        status = join(w);
    if (status != DYNO_OK) {
        w->has_failed = true;
        release(unopened);
        unopened = w;
        return world_conclude(w, status);
    }
    *out = current = w;
    return DYNO_OK;
}

world *world_current(void) { return current; }

/* ---- asking ---- */

int world_rank(const world *w) { return w->place.rank; }
int world_count(const world *w) { return w->place.count; }
const char *world_host(const world *w, int rank) { return w->others[rank].host; }
double world_timeout_s(const world *w) { return w->timeout_s; }
double world_host_timeout_s(const world *w) {
    return w->hosts > 1 ? w->timeout_s * 0.75 : w->timeout_s;
}
int world_host_count(const world *w) { return w->host_count; }
int world_host_rank(const world *w) { return w->host_rank; }
struct segment *world_segment(const world *w) {
    return w->segment;
}
struct mpi_job *world_mpi(const world *w) {
    return w->job;
}
int world_first_of_host(const world *w) { return w->first_of_host; }
int world_host_of(const world *w, int rank) { return w->host_of[rank]; }
int world_hosts(const world *w) { return w->hosts; }

bool world_has_core_for(const world *w, int ranks) { return ranks <= w->host_cores; }

/* ---- what a rank does ---- */

void world_set_phase(world *w, const char *phase) {
    if (!w->segment)
        return;
    char *to = w->segment->members[w->host_rank].phase;
    snprintf(to, WORLD_PHASE_BYTES, "%s", phase);
}

void world_set_collective(world *w, int op) {
    if (w->segment)
        atomic_store_explicit(&w->segment->members[w->host_rank].collective, op + 1,
                              memory_order_relaxed);
}

/* ---- small messages ---- */

static dyno_status exchange_mail(world *w, const char *mine, char *all, size_t bytes,
                                 size_t stride) {
    memcpy(w->segment->members[w->host_rank].mail, mine, bytes);
    RETURN_IF_FAILED(meeting_wait(&w->meeting));
    for (int r = 0; r < w->host_count; r++)
        memcpy(all + (size_t)r * stride, w->segment->members[r].mail, bytes);
    return meeting_wait(&w->meeting); /* before the next mail is written */
}

dyno_status world_exchange(world *w, const void *mine, void *all, size_t bytes) {
    if (w->place.count == 1) {
        memcpy(all, mine, bytes);
        return DYNO_OK;
    }
    if (w->job)
        return gather(w, mine, all, bytes);
    for (size_t at = 0; at < bytes; at += SEGMENT_MAIL_BYTES) {
        size_t part = bytes - at < SEGMENT_MAIL_BYTES ? bytes - at : SEGMENT_MAIL_BYTES;
        RETURN_IF_FAILED(exchange_mail(w, (const char *)mine + at, (char *)all + at, part, bytes));
    }
    return DYNO_OK;
}

typedef struct verdict {
    int status;
    char message[SEGMENT_FAILURE_BYTES];
} verdict;

dyno_status world_agree(world *w, dyno_status mine) {
    verdict own = {.status = (int)mine};
    if (mine != DYNO_OK)
        snprintf(own.message, sizeof own.message, "%s", dyno_error_message());
    if (w->place.count == 1)
        return mine;
    verdict *all = memory_allocate((size_t)w->place.count, sizeof *all);
    dyno_status status = world_exchange(w, &own, all, sizeof own);
    for (int r = 0; status == DYNO_OK && r < w->place.count; r++)
        if (all[r].status != DYNO_OK) {
            all[r].message[sizeof all[r].message - 1] = '\0';
            status = dyno_fail((dyno_status)all[r].status, "rank %d on host '%s': %s", r,
                               w->others[r].host, all[r].message);
            snprintf(w->agreed, sizeof w->agreed, "%s", dyno_error_message());
        }
    free(all);
    return status;
}

typedef struct fact_value {
    hash_string hash; /* of the whole text */
    char shown[160];
} fact_value;

static dyno_status compare_fact(world *w, const world_fact *fact, fact_value *all) {
    fact_value own = {.hash = hash_text(fact->value, strlen(fact->value))};
    snprintf(own.shown, sizeof own.shown, "%s", fact->value);
    RETURN_IF_FAILED(world_exchange(w, &own, all, sizeof own));
    for (int r = 1; r < w->place.count; r++)
        if (memcmp(&all[r].hash, &all[0].hash, sizeof all[r].hash) != 0)
            return dyno_fail(DYNO_INVALID,
                             "ranks were started differently: %s is '%.*s' on rank %d (host '%s') "
                             "and '%.*s' on rank 0 (host '%s')",
                             fact->name, (int)sizeof all[r].shown - 1, all[r].shown, r,
                             w->others[r].host, (int)sizeof all[0].shown - 1, all[0].shown,
                             w->others[0].host);
    return DYNO_OK;
}

dyno_status world_compare(world *w, const world_fact *facts, int count) {
    if (w->place.count == 1)
        return DYNO_OK;
    fact_value *all = memory_allocate((size_t)w->place.count, sizeof *all);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < count && status == DYNO_OK; i++)
        status = compare_fact(w, &facts[i], all);
    free(all);
    return status;
}

/* ---- the end ---- */

/* What the user did is nobody's failure; what all ranks find wrong with their arguments is said as
 * one process would say it; and what all have agreed on names its rank already. */
static bool is_of_one_rank(const world *w, dyno_status status) {
    return status != DYNO_OK && status != DYNO_INTERRUPTED && status != DYNO_INVALID &&
           status != DYNO_RANK_FAILED && !(w->agreed[0] && strstr(dyno_error_message(), w->agreed));
}

dyno_status world_conclude(world *w, dyno_status status) {
    if (!w || status == DYNO_OK || w->place.count == 1)
        return status;
    w->has_failed = w->has_failed || status != DYNO_INTERRUPTED;
    if (!w->segment)
        return status;
    if (is_of_one_rank(w, status)) {
        status = dyno_fail_within(status, "%s failed during %s",
                                  segment_describe_member(w->segment, w->host_rank).text,
                                  segment_member_phase(w->segment, w->host_rank).text);
    }
    if (status != DYNO_INTERRUPTED && status != DYNO_RANK_FAILED)
        segment_fail(w->segment, status, dyno_error_message());
    return status;
}

/* A rank may fail before it joins: it looks into the memory of the ranks all the same. */
static bool is_first_to_report(void) {
    char *message = memory_copy_string(dyno_error_message()); /* that is to be reported */
    world_place place;
    segment *shared = NULL;
    bool is_rank = world_find_place(&place) == DYNO_OK && place.starter == WORLD_DYNO;
    int file = is_rank ? dup(launched_file()) : -1;
    bool is_first = file < 0 || segment_open(file, &shared) != DYNO_OK ||
                    !atomic_exchange(&shared->header->is_told, true);
    segment_close(shared);
    if (dyno_fail(DYNO_RANK_FAILED, "%s", message) != DYNO_OK)
        free(message);
    return is_first;
}

bool world_may_report(void) {
    const world *w = current ? current : unopened;
    if (!w)
        return is_first_to_report();
    return !w->segment || !atomic_exchange(&w->segment->header->is_told, true);
}
