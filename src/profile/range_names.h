/* range_names.h - what the name of a range says about it: whether the program gave it, or a library
 * did, and whether it counts steps. */
#ifndef PROFILE_RANGE_NAMES_H
#define PROFILE_RANGE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum range_kind {
    RANGE_OF_PROGRAM, /* names a phase */
    RANGE_STEP,       /* "ProfilerStep#3", "step 3": one of many that are alike */
    RANGE_OP,         /* an operation of PyTorch, as its emit_nvtx writes them */
    RANGE_OPTIMIZER,  /* PyTorch's own, around each optimizer's step */
    RANGE_OF_LIBRARY  /* part of a scope, never a phase */
} range_kind;

typedef struct range_meaning {
    range_kind kind;
    int64_t number;    /* of a step, or the sequence number of an op; -1: none */
    int shown_length;  /* of the name without its number and arguments: "step", "aten::mm" */
    bool is_profilers; /* a step that PyTorch's profiler marks, not the program */
} range_meaning;

range_meaning range_judge(const char *name);

/* Whether an NVTX domain is one of NVIDIA's libraries, which mark what they do for themselves. */
bool range_domain_is_of_library(const char *domain);

/* Whether an operation of PyTorch runs the backward of another one. */
bool range_is_backward_op(const char *op);

#endif
