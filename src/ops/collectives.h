/* collectives.h - what the ops that communicate have in common.
 *
 * Each has the integer attribute "ranks", and costs on the wire what a ring sends from each rank
 * (op_cost.bytes_sent). With "overlapped" its launch may run beside those that follow it
 * (PLAN_STREAM_COMMUNICATION); with "once" it runs in the last micro-batch of a step only.
 *
 * A launch becomes collectives of distributed/communicator.h. How they are carried out differs: on a
 * CPU by the communicator or its queue, on a GPU on the launch's stream (runtime/cuda/collectives.c). */
#ifndef OPS_COLLECTIVES_H
#define OPS_COLLECTIVES_H

#include "distributed/communicator.h"
#include "graph/op.h"
#include "ops/kernel.h"

typedef dyno_status collective_runner(const kernel_args *args, const collective *what);

/* The collectives of a launch of each op, in order. */
NODISCARD dyno_status all_reduce_launch(const kernel_args *args, collective_runner *run);
NODISCARD dyno_status reduce_scatter_launch(const kernel_args *args, collective_runner *run);
NODISCARD dyno_status all_gather_launch(const kernel_args *args, collective_runner *run);

/* Carries it out, or starts it where the context has a handle for it. Without a communicator there is
 * one rank. */
NODISCARD dyno_status collective_run_on_cpu(const kernel_args *args, const collective *what);

/* For shape rules: the attribute is there and at least 1. */
NODISCARD dyno_status collective_check_ranks(const node *n, int64_t *ranks);
/* Bytes that each rank sends in a ring of n: 2(n-1)/n of an all-reduce's, (n-1)/n of what a
 * reduce-scatter divides and an all-gather puts together. */
double collective_bytes_sent(collective_op which, double bytes, int64_t ranks);

/* Attributes of a node that communicates. */
typedef struct collective_place {
    int64_t ranks;
    bool is_overlapped, is_once;
} collective_place;
enum { COLLECTIVE_ATTRIBUTES = 3 };
int collective_attributes(const collective_place *place, attribute *items);

#endif
