/* scale_way.h - the ways to be parallel that `dyno scale` compares: those of the compiler, and two on paper.
 *
 * With tensor parallelism (tp) the ranks of a group compute the same sequences: each has a part of the heads and
 * of the feed-forward layer of every block, and the residual stream is summed twice in a block's forward and
 * twice in its backward. dyno has no pass for it. Its numbers are those of the plan of one rank, divided, and the
 * formulas of docs/scale.md. */
#ifndef EXPERIMENTS_SCALE_WAY_H
#define EXPERIMENTS_SCALE_WAY_H

#include "compiler/passes/parallel.h"
#include "model/config.h"

#define SCALE_WAYS_USUAL "ddp-flat,ddp-bucket,zero1,fsdp,tp,fsdp+tp"

typedef struct scale_way {
    char name[48];             /* as asked for */
    parallel_options parallel; /* of the plan, whose number of ranks is that of groups */
    bool is_tensor;            /* tp is part of it: on paper */
    bool is_tensor_alone;      /* and all of it */
    int64_t group;             /* ranks of a group, of fsdp+tp:Y; 0: as many as a node has */
} scale_way;

/* What parallel_parse takes, "tp", "fsdp+tp" and "fsdp+tp:Y". */
NODISCARD dyno_status scale_way_parse(const char *name, scale_way *out);

/* Ranks = groups x group. DYNO_INVALID, with the reason, where so many ranks cannot be divided so. */
typedef struct scale_division {
    int64_t group, groups;
} scale_division;
NODISCARD dyno_status scale_way_divide(const scale_way *way, int64_t ranks, int64_t per_node,
                                       const model_config *config, scale_division *out);

#endif
