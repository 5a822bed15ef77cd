/* device_communicator.c - communicators of every kind, those of GPUs included. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "distributed/segment.h"
#include "distributed/world.h"
#include "runtime/cuda/module.h"
#include "runtime/device.h"

static dyno_status check_world(void *context) {
    const segment *shared = world_segment(context);
    return shared ? segment_check(shared) : DYNO_OK;
}

/* NCCL refuses two ranks of one host on one GPU. With a host name of its own each, they go through
 * the network of the host: right, and slow. */
static void tell_ranks_apart(const struct world *w) {
    const cuda_module *module;
    int gpus = 0;
    if (cuda_module_load(&module) != DYNO_OK || module->count(&gpus) != DYNO_OK ||
        gpus >= world_host_count(w))
        return;
    char name[WORLD_HOST_BYTES + 16];
    snprintf(name, sizeof name, "%s-rank-%d", world_host(w, world_rank(w)), world_rank(w));
    setenv("NCCL_HOSTID", name, 0);
}

static dyno_status join(device *d, struct world *w, int ranks, communicator **out) {
    nccl_join how = {.rank = world_rank(w),
                     .count = ranks,
                     .timeout_s = world_timeout_s(w),
                     .check = check_world,
                     .context = w};
    tell_ranks_apart(w);
    dyno_status status = how.rank == 0 ? d->functions->nccl_id(d, &how.id) : DYNO_OK;
    RETURN_IF_FAILED(world_agree(w, status));
    nccl_id *all = memory_allocate((size_t)world_count(w), sizeof *all);
    status = world_exchange(w, &how.id, all, sizeof how.id);
    how.id = all[0];
    free(all);
    RETURN_IF_FAILED(status);
    status = how.rank < ranks ? d->functions->nccl_join(d, &how, out) : DYNO_OK;
    return world_agree(w, status);
}

dyno_status device_create_communicator(device *d, struct world *w,
                                       const communicator_options *options, communicator **out) {
    if (options->kind != COMMUNICATOR_NCCL)
        return communicator_create(w, options, out);
    *out = NULL;
    int ranks = options->ranks ? options->ranks : world_count(w);
    if (ranks < 1 || ranks > world_count(w))
        return dyno_fail(DYNO_INVALID, "a communicator of %d ranks: this job has %d", ranks,
                         world_count(w));
    if (!d || !d->functions->nccl_join)
        return dyno_fail(DYNO_UNSUPPORTED, "NCCL is for GPUs, and the device is %s",
                         d ? d->name : "the CPU");
    dyno_status status = join(d, w, ranks, out);
    if (status == DYNO_OK && *out)
        communicator_complete(*out, w, options);
    if (status != DYNO_OK && *out) {
        communicator_destroy(*out);
        *out = NULL;
    }
    return status;
}
