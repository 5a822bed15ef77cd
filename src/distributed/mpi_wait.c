#define _GNU_SOURCE
#include "distributed/mpi_wait.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "distributed/segment.h"

static dyno_status describe_late(world *w, int peer) {
    if (peer < 0)
        return dyno_fail(DYNO_RANK_FAILED,
                         "not all ranks answered within %g s; --timeout sets how long they are "
                         "waited for",
                         world_timeout_s(w));
    return dyno_fail(DYNO_RANK_FAILED,
                     "rank %d on host '%s' did not answer rank %d on host '%s' within %g s; "
                     "--timeout sets how long it is waited for",
                     peer, world_host(w, peer), world_rank(w), world_host(w, world_rank(w)),
                     world_timeout_s(w));
}

/* Whatever this host waits for next would come too late as well: it fails at once. */
static dyno_status fail_late(world *w, int peer) {
    dyno_status status = describe_late(w, peer);
    if (world_segment(w))
        segment_fail(world_segment(w), status, dyno_error_message());
    return status;
}

dyno_status mpi_wait(world *w, mpi_transfer **transfer, int peer) {
    enum { TESTS_BEFORE_SLEEP = 2000, SLEEP_US = 50 };
    const mpi_module *mpi;
    int64_t begin = clock_now_ns();
    bool is_complete = false;
    RETURN_IF_FAILED(mpi_module_load(&mpi));
    for (int64_t tests = 0; *transfer; tests++) {
        RETURN_IF_FAILED(mpi->test(transfer, &is_complete));
        if (is_complete)
            break;
        if (world_segment(w))
            RETURN_IF_FAILED(segment_check(world_segment(w)));
        if ((double)(clock_now_ns() - begin) * 1e-9 > world_timeout_s(w))
            return fail_late(w, peer);
        if (tests < TESTS_BEFORE_SLEEP)
            sched_yield(); /* whoever is waited for may need the core */
        else
            usleep(SLEEP_US);
    }
    return DYNO_OK;
}
