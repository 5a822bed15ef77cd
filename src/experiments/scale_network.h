/* scale_network.h - the network of `dyno scale`: given by bandwidths, or as `dyno allreduce` has timed it. */
#ifndef EXPERIMENTS_SCALE_NETWORK_H
#define EXPERIMENTS_SCALE_NETWORK_H

#include "base/flags.h"
#include "simulate/network.h"

#define SCALE_NETWORK_FLAGS                                                                        \
    {"inside", "RATE", FLAG_TEXT, "450GB/s",                                                       \
     .help = "what a rank can send to others of its node, in one direction, as 450GB/s"},          \
        {"across", "RATE", FLAG_TEXT, "50GB/s",                                                    \
         .help =                                                                                   \
             "what a rank can send to other nodes by a link of its own, as 50GB/s or 400Gbit/s"},  \
        {"per-node",                                                                               \
         "N",                                                                                      \
         FLAG_INTEGER,                                                                             \
         NULL,                                                                                     \
         .help = "ranks of a node (default: 8; on CPUs all of them are on this machine)",          \
         .minimum = 1,                                                                             \
         .maximum = 65536},                                                                        \
        {"latency",                                                                                \
         "US",                                                                                     \
         FLAG_REAL,                                                                                \
         "5",                                                                                      \
         .help = "microseconds of a hop from rank to rank; a collective has ceil(log2 N) of "      \
                 "them, an all-reduce twice as many",                                              \
         .real_minimum = 0,                                                                        \
         .real_maximum = 1e6},                                                                     \
    {                                                                                              \
        "from", "DIR", FLAG_TEXT, NULL,                                                            \
            .help = "collectives as `dyno allreduce --out DIR` timed them; numbers of ranks that " \
                    "it has not take its best bus bandwidth for --inside"                          \
    }

/* On success the caller releases *out. `usual_per_node` where --per-node is not given. */
NODISCARD dyno_status scale_network_open(const flags *given, int64_t usual_per_node, network *out);

#endif
