#include "support/ranks.h"

#include "support/expect.h"

typedef struct rank_job {
    rank_function *run;
    void *context;
    double timeout_s;
} rank_job;

static int run_rank(void *context) {
    const rank_job *job = context;
    world_options options = {.timeout_s = job->timeout_s};
    world *w;
    if (world_open(&options, &w) != DYNO_OK) {
        if (world_may_report())
            fprintf(stderr, "opening the world: %s\n", dyno_error_message());
        return 1;
    }
    int code = job->run(w, job->context);
    world_close(w);
    return code;
}

int ranks_run(int count, double timeout_s, rank_function *run, void *context, dyno_status *status) {
    rank_job job = {run, context, timeout_s};
    launch_options options = {
        .ranks = count, .run = run_rank, .context = &job, .timeout_s = timeout_s};
    int code;
    *status = launch_ranks(&options, &code);
    return code;
}

void ranks_expect_ok(int count, rank_function *run, void *context) {
    dyno_status status;
    int code = ranks_run(count, 30, run, context, &status);
    expect_ok(status);
    assert_int_equal(code, 0);
}
