/* NCCL between ranks that share the GPU here: every collective and type, exact, on a stream and inside a captured
 * graph. Ranks that share a GPU go through the host's network (docs/ranks.md). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "runtime/device.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/skip.h"

enum { NO_GPU = 77 };

/* A forked child must be the first to use CUDA: the test's own process never does. */
static device *open_gpu(void) {
    device *d;
    if (device_open("cuda", &d) != DYNO_OK) {
        if (world_may_report())
            fprintf(stderr, "%s\n", dyno_error_message());
        exit(NO_GPU);
    }
    return d;
}

static communicator *open_communicator(world *w, device *d) {
    communicator_options options = {.kind = COMMUNICATOR_NCCL};
    communicator *c;
    dyno_status status = device_create_communicator(d, w, &options, &c);
    if (status == DYNO_UNSUPPORTED) {
        if (world_may_report())
            fprintf(stderr, "%s\n", dyno_error_message());
        exit(NO_GPU);
    }
    RANK_OK(status);
    return c;
}

static double value_of(int rank, int64_t index) {
    return (double)((index * 7 + rank * 3) % 31 - 10);
}

static double expected(const collective *what, int rank, int ranks, int64_t index) {
    if (what->op == COLLECTIVE_ALL_GATHER)
        return value_of((int)(index / what->count), index % what->count);
    if (what->op == COLLECTIVE_BROADCAST)
        return value_of(what->root, index);
    double sum = 0;
    int64_t at = what->op == COLLECTIVE_REDUCE_SCATTER ? rank * what->count + index : index;
    for (int r = 0; r < ranks; r++)
        sum += value_of(r, at);
    return sum;
}

static void run_case(device *d, communicator *c, collective what) {
    int rank = communicator_rank(c), ranks = communicator_count(c);
    int64_t whole = what.count * ranks * dtype_bytes(what.type);
    void *from, *to, *host = malloc((size_t)whole);
    RANK_CHECK(host);
    RANK_OK(communicator_memory_create(c, whole, &from));
    RANK_OK(communicator_memory_create(c, whole, &to));
    for (int64_t i = 0; i < collective_from_count(&what, ranks); i++)
        dtype_store(what.type, host, i, value_of(rank, i));
    d->functions->write(d, from, host, whole);
    what.from = from;
    what.to = to;
    collective_handle handle;
    RANK_OK(communicator_start(c, &what, &handle));
    RANK_OK(communicator_wait(c, handle));
    RANK_CHECK(communicator_is_complete(c, handle));
    d->functions->read(d, host, to, whole);
    RANK_OK(d->functions->finish(d));
    for (int64_t i = 0; i < collective_to_count(&what, ranks); i++)
        RANK_CHECK(dtype_load(what.type, host, i) == expected(&what, rank, ranks, i));
    RANK_OK(communicator_barrier(c));
    communicator_memory_destroy(c, from);
    communicator_memory_destroy(c, to);
    free(host);
}

static int run_all_cases(world *w, void *context) {
    (void)context;
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    device *d = open_gpu();
    communicator *c = open_communicator(w, d);
    for (int op = 0; op < COLLECTIVE_BARRIER; op++)
        for (int type = 0; type < 3; type++)
            for (int64_t count = 1; count < 100000; count = count * 37 + 1)
                run_case(d, c,
                         (collective){.op = (collective_op)op,
                                      .type = types[type],
                                      .count = count,
                                      .root = world_count(w) - 1});
    communicator_destroy(c);
    device_close(d);
    return 0;
}

/* ---- inside a captured graph, by the driver's own functions ---- */

typedef struct driver {
    int (*stream_create)(void **stream, unsigned flags);
    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*launch)(void *executable, void *stream);
    int (*synchronize)(void *stream);
    int (*destroy_executable)(void *executable);
    int (*destroy_graph)(void *graph);
} driver;

static driver load_driver(void) {
    driver found;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    RANK_CHECK(library);
    const struct {
        const char *name;
        void *function;
    } rows[] = {{"cuStreamCreate", &found.stream_create},
                {"cuStreamBeginCapture_v2", &found.begin_capture},
                {"cuStreamEndCapture", &found.end_capture},
                {"cuGraphInstantiateWithFlags", &found.instantiate},
                {"cuGraphLaunch", &found.launch},
                {"cuStreamSynchronize", &found.synchronize},
                {"cuGraphExecDestroy", &found.destroy_executable},
                {"cuGraphDestroy", &found.destroy_graph}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(library, rows[i].name);
        RANK_CHECK(symbol);
        memcpy(rows[i].function, &symbol, sizeof symbol);
    }
    return found;
}

static int replay_captured(world *w, void *context) {
    (void)context;
    enum { COUNT = 10007, NON_BLOCKING = 1, THREAD_LOCAL_MODE = 1 };
    device *d = open_gpu();
    communicator *c = open_communicator(w, d);
    driver cuda = load_driver();
    void *memory, *stream, *graph, *executable;
    float *host = malloc(COUNT * sizeof *host);
    RANK_CHECK(host);
    RANK_OK(communicator_memory_create(c, COUNT * (int64_t)sizeof *host, &memory));
    collective what = {.op = COLLECTIVE_ALL_REDUCE,
                       .type = DTYPE_F32,
                       .from = memory,
                       .to = memory,
                       .count = COUNT};
    RANK_OK(communicator_run(c, &what)); /* once outside: connections are made */
    RANK_OK(communicator_barrier(c));
    RANK_CHECK(cuda.stream_create(&stream, NON_BLOCKING) == 0);
    what.stream = stream;
    RANK_CHECK(cuda.begin_capture(stream, THREAD_LOCAL_MODE) == 0);
    RANK_OK(communicator_run(c, &what));
    RANK_CHECK(cuda.end_capture(stream, &graph) == 0);
    RANK_CHECK(cuda.instantiate(&executable, graph, 0) == 0);
    for (int replay = 0; replay < 3; replay++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)(world_rank(w) + i % 100 + replay);
        d->functions->write(d, memory, host, COUNT * (int64_t)sizeof *host);
        RANK_OK(d->functions->finish(d));
        RANK_CHECK(cuda.launch(executable, stream) == 0);
        RANK_CHECK(cuda.synchronize(stream) == 0);
        d->functions->read(d, host, memory, COUNT * (int64_t)sizeof *host);
        int ranks = world_count(w), sum = ranks * (ranks - 1) / 2;
        for (int i = 0; i < COUNT; i++)
            RANK_CHECK(host[i] == (float)(sum + ranks * (i % 100 + replay)));
    }
    /* NCCL's end waits for the graphs that hold its collectives. */
    RANK_CHECK(cuda.destroy_executable(executable) == 0 && cuda.destroy_graph(graph) == 0);
    communicator_memory_destroy(c, memory);
    communicator_destroy(c);
    free(host);
    device_close(d);
    return 0;
}

static void expect_ranks(int count, rank_function *run) {
    dyno_status status;
    int code = ranks_run(count, 120, run, NULL, &status);
    if (code == NO_GPU)
        SKIP_BECAUSE("there is no GPU, or no NCCL");
    expect_ok(status);
    assert_int_equal(code, 0);
}

static void collectives_between_two_ranks_are_exact(void **state) {
    (void)state;
    expect_ranks(2, run_all_cases);
}

static void collectives_between_four_ranks_are_exact(void **state) {
    (void)state;
    expect_ranks(4, run_all_cases);
}

static void a_single_rank_is_exact(void **state) {
    (void)state;
    expect_ranks(1, run_all_cases);
}

static void a_captured_graph_sums_over_two_ranks_at_every_replay(void **state) {
    (void)state;
    expect_ranks(2, replay_captured);
}

static void a_captured_graph_sums_over_four_ranks_at_every_replay(void **state) {
    (void)state;
    expect_ranks(4, replay_captured);
}

/* ---- a rank that dies ---- */

static int lose_one(world *w, void *context) {
    (void)context;
    device *d = open_gpu();
    communicator *c = open_communicator(w, d);
    void *memory;
    RANK_OK(communicator_memory_create(c, 4000, &memory));
    collective what = {.op = COLLECTIVE_ALL_REDUCE,
                       .type = DTYPE_F32,
                       .from = memory,
                       .to = memory,
                       .count = 1000};
    collective_handle handle;
    RANK_OK(communicator_start(c, &what, &handle));
    RANK_OK(communicator_wait(c, handle));
    if (world_rank(w) == 1)
        raise(SIGKILL);
    dyno_status status = communicator_start(c, &what, &handle);
    if (status == DYNO_OK)
        status = communicator_wait(c, handle);
    RANK_CHECK(status != DYNO_OK);
    if (world_conclude(w, status) != DYNO_OK && world_may_report())
        fprintf(stderr, "%s\n", dyno_error_message());
    _exit(1);
}

static void a_rank_that_dies_ends_the_others(void **state) {
    (void)state;
    dyno_status status;
    int code = ranks_run(2, 20, lose_one, NULL, &status);
    if (code == NO_GPU)
        SKIP_BECAUSE("there is no GPU, or no NCCL");
    assert_int_equal(code, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_rank_is_exact),
        cmocka_unit_test(collectives_between_two_ranks_are_exact),
        cmocka_unit_test(collectives_between_four_ranks_are_exact),
        cmocka_unit_test(a_captured_graph_sums_over_two_ranks_at_every_replay),
        cmocka_unit_test(a_captured_graph_sums_over_four_ranks_at_every_replay),
        cmocka_unit_test(a_rank_that_dies_ends_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
