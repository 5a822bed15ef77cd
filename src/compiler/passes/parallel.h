/* parallel.h - ways in which several ranks take a step together. Each is a pass over the graph of one
 * rank, which inserts the collectives; all give the same bits. */
#ifndef COMPILER_PASSES_PARALLEL_H
#define COMPILER_PASSES_PARALLEL_H

#include "graph/graph.h"

typedef enum parallel_mode {
    PARALLEL_DDP_NAIVE,   /* an all-reduce for each parameter, behind the backward */
    PARALLEL_DDP_FLAT,    /* one for all */
    PARALLEL_DDP_OVERLAP, /* one for each, as soon as its gradient is there, beside the backward */
    PARALLEL_DDP_BUCKET,  /* one for so many bytes of gradients, beside the backward */
    PARALLEL_ZERO1,       /* each rank updates its part of every weight (shard.h) */
    PARALLEL_FSDP,        /* and has no more than that part of weights and gradients */
    PARALLEL_MODE_COUNT
} parallel_mode;

#define PARALLEL_CHOICES "ddp-naive|ddp-flat|ddp-overlap|ddp-bucket:MB|zero1|fsdp"

#define PARALLEL_USUAL "ddp-bucket:25"
enum { PARALLEL_BUCKET_MB = 25 };

typedef struct parallel_options {
    parallel_mode mode;
    int64_t bucket_bytes; /* PARALLEL_DDP_BUCKET */
    int64_t ranks, rank;
    /* The type in which gradients are sent: bf16, f16, else f32. Sums over ranks are taken in f32 and
     * rounded once; sums over micro-batches, and the loss, are always f32. */
    dtype reduce_type;
} parallel_options;

/* "ddp-bucket:25", the number in millions of bytes; a bucket without one has PARALLEL_BUCKET_MB. Sets
 * mode and bucket_bytes. */
NODISCARD dyno_status parallel_parse(const char *name, parallel_options *out);
#define REDUCE_CHOICES "fp32|bf16|fp16"
NODISCARD dyno_status parallel_parse_reduce(const char *name, parallel_options *out);
typedef struct parallel_text {
    char text[48];
} parallel_text;
parallel_text parallel_format(const parallel_options *options);

/* Whether gradients are sent in a low type. */
bool parallel_reduces_low(const parallel_options *options);
/* Whether ranks have different parts of the weights or of what updates them. */
bool parallel_is_sharded(const parallel_options *options);

/* Inserts the all-reduces of a data parallel mode. The gradients are sums (accumulate.h) and become those over
 * all ranks; so does the output "loss". With several micro-batches only the last one's are sent. */
NODISCARD dyno_status parallel_insert(graph *g, const parallel_options *options);

#endif
