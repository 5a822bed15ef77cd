/* network.h - how long a collective takes, from its bytes and the number of ranks.
 *
 * Where nothing was measured, a ring carries the bytes and a tree their latency:
 *
 *   time = hops x latency + factor x bytes / bandwidth
 *
 *   hops     ceil(log2 N), twice that for an all-reduce
 *   factor   2(N-1)/N for an all-reduce, (N-1)/N for a reduce-scatter and an all-gather
 *   bandwidth   what a rank can send: `inside` while all ranks are on one node. Over several nodes as many
 *            rings as a node has ranks run at once, each leaving the node by the link of another rank: the
 *            smaller of `inside` and ranks of a node x `across`
 *
 * Where collectives of as many ranks were timed (`dyno allreduce`), these times are interpolated. */
#ifndef SIMULATE_NETWORK_H
#define SIMULATE_NETWORK_H

#include "distributed/communicator.h"
#include "plan/plan.h"

typedef struct network_point {
    double bytes, ns; /* of the larger operand, as nccl-tests counts them */
} network_point;

/* Measured: one collective of so many ranks, sizes ascending. */
typedef struct network_curve {
    collective_op op;
    int64_t ranks;
    bool
        is_private; /* of ranks of a host: operands are copied through the memory that they share */
    network_point *points;
    int count, capacity;
} network_curve;

typedef struct network {
    double inside, across; /* bytes a second that each rank can send: inside a node, to another */
    int64_t per_node;      /* ranks of a node; 0: less than one of each group */
    double latency_ns;     /* of a hop */
    network_curve *curves;
    int curve_count, curve_capacity;
} network;

/* Frees the curves. */
void network_release(network *n);

/* Adds a measured time to the curve that has op, ranks and is_private of `which`, whose other members are
 * not looked at; one of the same size is replaced where it is shorter. */
void network_add_point(network *n, const network_curve *which, double bytes, double ns);

double network_bandwidth(const network *n, int64_t ranks);
/* The network as ranks see it of which each is in another group of so many: fewer of them are on a node, and
 * have its links for themselves. Shares the curves; not to be released. */
network network_between_groups(const network *n, int64_t group);
/* `bytes` are those of the larger operand, which is not copied where there is a choice. 0 for one rank. */
double network_collective_ns(const network *n, collective_op op, double bytes, int64_t ranks);

/* Whether the launch is a collective, and which; its number of ranks is an attribute of it. */
bool network_launch_is_collective(const plan_launch *l, collective_op *op);
/* The collectives of one launch, one after the other, each of `share` of its bytes: operands that lie one
 * behind the other are one collective. */
double network_launch_ns(const network *n, const plan *p, int launch, double share);

#endif
