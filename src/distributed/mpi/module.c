/* module.c - libdyno_mpi.so: the only file that sees mpi.h. Codes of MPI become messages here. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "distributed/mpi_module.h"

enum { MOST_GROUPS = 1024 };

struct mpi_job {
    MPI_Comm all;
    int rank, count;
    bool was_initialized; /* by the program itself: then it ends MPI, too */
    MPI_Comm
        groups[MOST_GROUPS + 1]; /* of the first so many ranks, for the library's collectives */
    void *part;                  /* of one rank, for reduce-scatter */
    size_t part_bytes;
};

struct mpi_transfer {
    MPI_Request request;
};

static const mpi_host *host;

static dyno_status check(int code, const char *what) {
    char reason[MPI_MAX_ERROR_STRING] = "", message[MPI_MAX_ERROR_STRING + 64];
    int length = 0;
    if (code == MPI_SUCCESS)
        return DYNO_OK;
    MPI_Error_string(code, reason, &length);
    snprintf(message, sizeof message, "MPI: %s: %s", what, reason);
    return host->fail(DYNO_RANK_FAILED, message);
}

#define CHECK(call, what) RETURN_IF_FAILED(check((call), (what)))

static const char *library(void) {
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (!name[0] && MPI_Get_library_version(name, &length) == MPI_SUCCESS)
        name[strcspn(name, ",\n")] = '\0';
    return name;
}

/* MPI_Init waits for every rank and takes no timeout: a thread calls it, and is left behind where a
 * rank does not come. Static, because that thread goes on using it. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done;
    int code, provided;
} beginning = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *begin_mpi(void *unused) {
    int provided = 0, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    pthread_mutex_lock(&beginning.lock);
    beginning.code = code;
    beginning.provided = provided;
    beginning.is_done = true;
    pthread_cond_signal(&beginning.changed);
    pthread_mutex_unlock(&beginning.lock);
    return unused;
}

static struct timespec after(double seconds) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + (int64_t)(seconds * 1e9);
    at.tv_sec += (time_t)(ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

static dyno_status init(double timeout_s, int *provided) {
    char message[160];
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&beginning.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_t thread;
    if (pthread_create(&thread, NULL, begin_mpi, NULL) != 0)
        return host->fail(DYNO_OUT_OF_MEMORY, "MPI: no thread to begin it with");
    pthread_detach(thread);
    struct timespec until = after(timeout_s);
    int waited = 0;
    pthread_mutex_lock(&beginning.lock);
    while (!beginning.is_done && waited == 0)
        waited = pthread_cond_timedwait(&beginning.changed, &beginning.lock, &until);
    bool is_done = beginning.is_done;
    *provided = beginning.provided;
    pthread_mutex_unlock(&beginning.lock);
    if (is_done)
        return check(beginning.code, "init");
    snprintf(
        message, sizeof message,
        "MPI: a rank did not come within %g s: it is dead or stopped, or a longer --timeout is "
        "needed",
        timeout_s);
    return host->fail(DYNO_RANK_FAILED, message);
}

static dyno_status start(double timeout_s, mpi_job *job) {
    int initialized = 0, provided = 0;
    CHECK(MPI_Initialized(&initialized), "initialized");
    job->was_initialized = initialized != 0;
    if (!initialized)
        RETURN_IF_FAILED(init(timeout_s, &provided));
    else
        CHECK(MPI_Query_thread(&provided), "query thread");
    if (provided < MPI_THREAD_MULTIPLE)
        return host->fail(DYNO_UNSUPPORTED,
                          "this MPI does not let several threads call it (MPI_THREAD_MULTIPLE)");
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &job->all), "dup");
    CHECK(MPI_Comm_set_errhandler(job->all, MPI_ERRORS_RETURN), "errhandler");
    CHECK(MPI_Comm_rank(job->all, &job->rank), "rank");
    CHECK(MPI_Comm_size(job->all, &job->count), "size");
    for (int i = 0; i <= MOST_GROUPS; i++)
        job->groups[i] = MPI_COMM_NULL;
    return DYNO_OK;
}

static dyno_status open_job(double timeout_s, mpi_job **out, int *rank, int *count) {
    *out = calloc(1, sizeof **out);
    if (!*out)
        return host->fail(DYNO_OUT_OF_MEMORY, "MPI: no memory for its job");
    dyno_status status = start(timeout_s, *out);
    if (status != DYNO_OK) {
        free(*out);
        *out = NULL;
        return status;
    }
    *rank = (*out)->rank;
    *count = (*out)->count;
    return DYNO_OK;
}

static void close_job(mpi_job *job, bool is_clean) {
    if (is_clean) {
        for (int i = 0; i <= MOST_GROUPS; i++)
            if (job->groups[i] != MPI_COMM_NULL)
                MPI_Comm_free(&job->groups[i]);
        MPI_Comm_free(&job->all);
        if (!job->was_initialized)
            MPI_Finalize();
    }
    free(job->part);
    free(job);
}

/* ---- transfers ---- */

static dyno_status begin(int code, const char *what, MPI_Request request, mpi_transfer **out) {
    *out = NULL;
    CHECK(code, what);
    *out = malloc(sizeof **out);
    if (!*out)
        return host->fail(DYNO_OUT_OF_MEMORY, "MPI: no memory for a transfer");
    (*out)->request = request;
    return DYNO_OK;
}

static dyno_status start_gather(mpi_job *job, const void *mine, void *all, size_t bytes,
                                mpi_transfer **out) {
    MPI_Request request;
    int code =
        MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, job->all, &request);
    return begin(code, "all-gather", request, out);
}

static dyno_status start_send(mpi_job *job, int to, int tag, const void *data, size_t bytes,
                              mpi_transfer **out) {
    MPI_Request request;
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, job->all, &request);
    return begin(code, "send", request, out);
}

static dyno_status start_receive(mpi_job *job, int from, int tag, void *data, size_t bytes,
                                 mpi_transfer **out) {
    MPI_Request request;
    int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, job->all, &request);
    return begin(code, "receive", request, out);
}

static dyno_status test(mpi_transfer **transfer, bool *is_complete) {
    int flag = 0;
    CHECK(MPI_Test(&(*transfer)->request, &flag, MPI_STATUS_IGNORE), "test");
    *is_complete = flag != 0;
    if (flag) {
        free(*transfer);
        *transfer = NULL;
    }
    return DYNO_OK;
}

/* ---- the library's own collectives ---- */

static dyno_status find_group(mpi_job *job, int ranks, MPI_Comm *out) {
    *out = job->groups[ranks];
    if (*out != MPI_COMM_NULL)
        return DYNO_OK;
    MPI_Group all, some;
    int range[1][3] = {{0, ranks - 1, 1}};
    CHECK(MPI_Comm_group(job->all, &all), "group");
    CHECK(MPI_Group_range_incl(all, 1, range, &some), "group");
    CHECK(MPI_Comm_create_group(job->all, some, ranks, &job->groups[ranks]), "create group");
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    CHECK(MPI_Comm_set_errhandler(job->groups[ranks], MPI_ERRORS_RETURN), "errhandler");
    *out = job->groups[ranks];
    return DYNO_OK;
}

static dyno_status scatter_reduced(mpi_job *job, MPI_Comm group, const collective *what) {
    size_t bytes = (size_t)what->count * sizeof(float);
    if (bytes > job->part_bytes) {
        free(job->part);
        job->part = malloc(bytes);
        job->part_bytes = job->part ? bytes : 0;
        if (!job->part)
            return host->fail(DYNO_OUT_OF_MEMORY, "MPI: no memory for a rank's part");
    }
    /* In place, MPI would put the part elsewhere than NCCL does. */
    CHECK(MPI_Reduce_scatter_block(what->from, job->part, (int)what->count, MPI_FLOAT, MPI_SUM,
                                   group),
          "reduce-scatter");
    memcpy(what->to, job->part, bytes);
    return DYNO_OK;
}

static dyno_status run_library(mpi_job *job, int ranks, const collective *what) {
    MPI_Comm group;
    int rank = job->rank, count = (int)what->count;
    if (what->op != COLLECTIVE_BARRIER && what->type != DTYPE_F32)
        return host->fail(DYNO_UNSUPPORTED, "MPI has no 16-bit floats; use fp32");
    if (what->count > INT32_MAX || ranks < 1 || ranks > MOST_GROUPS)
        return host->fail(DYNO_UNSUPPORTED, "MPI counts to 2^31 - 1 elements");
    dyno_status status = find_group(job, ranks, &group);
    if (status != DYNO_OK)
        return status;
    switch (what->op) {
    case COLLECTIVE_ALL_REDUCE:
        CHECK(MPI_Allreduce(what->from == what->to ? MPI_IN_PLACE : what->from, what->to, count,
                            MPI_FLOAT, MPI_SUM, group),
              "all-reduce");
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        return scatter_reduced(job, group, what);
    case COLLECTIVE_ALL_GATHER: {
        bool is_in_place = what->from == (const float *)what->to + (size_t)rank * (size_t)count;
        CHECK(MPI_Allgather(is_in_place ? MPI_IN_PLACE : what->from, count, MPI_FLOAT, what->to,
                            count, MPI_FLOAT, group),
              "all-gather");
        break;
    }
    case COLLECTIVE_BROADCAST:
        if (rank == what->root && what->from != what->to)
            memcpy(what->to, what->from, (size_t)count * sizeof(float));
        CHECK(MPI_Bcast(what->to, count, MPI_FLOAT, what->root, group), "broadcast");
        break;
    case COLLECTIVE_BARRIER:
        CHECK(MPI_Barrier(group), "barrier");
        break;
    case COLLECTIVE_OP_COUNT:
        break;
    }
    return DYNO_OK;
}

static const mpi_module MODULE = {.abi = MPI_MODULE_ABI,
                                  .version = DYNO_VERSION,
                                  .library = library,
                                  .open = open_job,
                                  .close = close_job,
                                  .start_gather = start_gather,
                                  .start_send = start_send,
                                  .start_receive = start_receive,
                                  .test = test,
                                  .run_library = run_library};

__attribute__((visibility("default"))) const mpi_module *dyno_mpi_module(const mpi_host *of);

const mpi_module *dyno_mpi_module(const mpi_host *of) {
    if (of->abi != MPI_MODULE_ABI || strcmp(of->version, DYNO_VERSION) != 0)
        return NULL;
    host = of;
    return &MODULE;
}
