/* plan.h - the narrow waist between compiler and executors: an ordered list of launches.
 *
 *   launch: kernel, operands (buffer + offset + layout), workspace, stream, scope, phase, cost
 *   buffer: bytes, role, what it holds, its first and its last launch
 *
 * The compiler writes plans and knows no device; executors run plans and know no graph. All
 * reports of time, bytes and FLOPs are read from here. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/arena.h"
#include "base/status.h"
#include "base/target.h"
#include "tensor/attributes.h"
#include "tensor/role.h"
#include "tensor/tensor.h"

struct kernel; /* ops/kernel.h; a plan passes it on and never looks inside */

/* How transient buffers get their memory. */
typedef enum plan_memory {
    PLAN_MEMORY_EAGER, /* allocated at the first use, released after the last */
    PLAN_MEMORY_STATIC /* at fixed offsets in one arena, which is allocated before the first step */
} plan_memory;

typedef struct plan_buffer {
    int64_t bytes;
    role role;
    dtype type; /* of the value it was made for */
    shape shape;
    const char *name; /* of leaves, gradients and outputs; else NULL */
    int scope;        /* of the launch it is born at */
    int born, last_used;
    /* Inputs, parameters and optimizer state are there before the step and after it: born is -1
     * and last_used the number of launches. */
    bool is_persistent;
    int64_t offset; /* in the arena; only of transient buffers of a static plan */
} plan_buffer;

typedef struct plan_operand {
    int buffer;
    int64_t offset;       /* bytes from the buffer's start */
    int64_t repeat_bytes; /* added to it for each micro-batch before the one being computed */
    tensor layout;        /* data is NULL */
} plan_operand;

/* A generated kernel: a function of plan.source, which the executor's device compiles.
 * On the CPU (C):
 *   void SYMBOL(void *const *operands, int64_t begin, int64_t end)
 * computes units [begin, end) of `units`; operands are pointers to inputs, then to outputs.
 * On a GPU (CUDA C): a __global__ function of as many pointers, inputs and then outputs, run by
 * `units` blocks of `threads` threads with `shared_bytes` of dynamic shared memory each. */
typedef struct plan_generated {
    const char *symbol;
    int64_t units;
    int threads, shared_bytes; /* of a GPU's */
} plan_generated;

enum { PLAN_STREAM_COMMUNICATION = 2 };

typedef struct plan_launch {
    const struct kernel *kernel; /* NULL for a generated kernel */
    int generated;               /* into plan.generated, or -1 */
    const char *kernel_name, *op_name, *class_name;
    const char *variant; /* of the kernel; NULL: its own choice, or it has only one */
    int input_count, output_count;
    plan_operand *inputs, *outputs;
    attributes attributes;
    /* For each output, the inputs that the kernel may write it over: bit j for input j, none when
     * 0. It is a promise that the kernel reads no element of that input after it has written the
     * output's element at the same place. The memory plan uses it where that is legal. */
    uint64_t *overwrites;
    int workspace; /* buffer, or -1 */
    /* 0, or PLAN_STREAM_COMMUNICATION for a collective that may run beside the launches that follow
     * it: those which touch bytes that it writes, or write what it reads, wait for it; what it uses is
     * alive until the first of them or the end of the step. Or 1 where it may run concurrently with the launches of stream 0 that follow. A launch on
     * stream 1 begins when all launches before it are complete. Launches behind the next one on
     * stream 1, and the end of the step, wait for it: until then what it uses is alive. Running
     * all launches in plan order is correct as well. */
    int stream;
    int scope;
    phase phase;
    bool runs_once; /* of the launches that are repeated: in the last micro-batch only */
    double flops, bytes_read, bytes_written;
    double bytes_sent;     /* to other ranks, by each of them */
    double backward_flops; /* of `flops`: gradients that a launch of the forward computes as well */
} plan_launch;

/* A named value that the caller may access: a leaf or an output. */
typedef struct plan_name {
    const char *name;
    plan_operand operand;
} plan_name;

/* The values of a model parameter: indices into plan.names, -1 where the plan has none or does not
 * expose it. */
typedef struct plan_parameter {
    const char *name; /* as the model calls it */
    int value, low_copy, gradient, first_moment, second_moment;
    bool is_split; /* the value is the 16 bits that the low copy lacks, not the whole weight */
    /* A parameter that lies in a list of which each rank has a part, and of which value and low copy
     * are this rank's: `offset` elements into the list, whose parts have `part` each. 0: it is there
     * as a whole. */
    int64_t part, offset;
    /* Where the gradient lies while it is alive, exposed or not; buffer is -1 where the step computes
     * none of this parameter alone. */
    plan_operand gradient_at;
} plan_parameter;

typedef struct plan {
    arena *memory; /* owns all that is below, strings included */
    const char *name;
    target target; /* the chip it was made for */
    plan_memory memory_mode;
    int64_t arena_bytes; /* of a static plan */
    plan_launch *launches;
    int launch_count, launch_capacity;
    /* The first so many launches, forward and backward, run `micro_batches` times, the others once
     * after that. All of a repetition's transient memory may be reused by the next; what the others
     * read is what the last one left. 1 and 0 where nothing is repeated. */
    int micro_batches, repeated_launches;
    plan_buffer *buffers;
    int buffer_count, buffer_capacity;
    plan_name *names;
    int name_count, name_capacity;
    plan_parameter *parameters; /* in the model's order */
    int parameter_count;
    plan_generated *generated; /* one for each distinct kernel; launches share them */
    int generated_count, generated_capacity;
    const char *source; /* C or CUDA C, all generated kernels; NULL when there are none */
    const char **scopes;
    int scope_count;

    /* Filled by plan_finish: births[birth_start[i] .. birth_start[i+1]) are the buffers whose
     * lifetime begins at launch i, in order; deaths those that end with it. */
    int *births, *birth_start, *deaths, *death_start;
} plan;

plan *plan_create(const char *name);
void plan_destroy(plan *p);

int plan_add_buffer(plan *p, const plan_buffer *buffer);
/* Zeroed operands; the caller fills them. The pointer holds until the next launch is added. */
plan_launch *plan_add_launch(plan *p, int input_count, int output_count);
void plan_add_name(plan *p, const char *name, const plan_operand *operand);
/* NULL when there is no leaf or output of that name. */
const plan_operand *plan_find_name(const plan *p, const char *name);

/* Sorts births and deaths by launch. Called when the last launch is in, and again by a pass over
 * the finished plan that changes buffers. */
void plan_finish(plan *p);

/* Whether the launch does nothing but change the type of numbers. Casts inside of generated kernels
 * that compute something as well are not told apart. */
bool plan_launch_is_cast(const plan_launch *l);

/* A launch that computes the loss and its gradients at once does work of two phases. Its FLOPs are
 * counted in both, by what they are for, and its time is divided in the same proportion. */
double plan_launch_flops(const plan_launch *l, phase which);
/* The part of a launch's time that belongs to a phase, from 0 to 1: the share of its FLOPs. */
double plan_launch_share(const plan_launch *l, phase which);

/* How often the launch runs in a step. */
int plan_launch_times(const plan *p, int launch);

/* Sums over a phase of a whole step: its FLOPs, and the launches and bytes of the launches that carry its name.
 * PHASE_COUNT sums over all. */
typedef struct plan_cost {
    int launches;
    double flops, bytes_read, bytes_written, bytes_sent;
    int split_launches; /* of two phases, with so many FLOPs in both together */
    double split_flops;
} plan_cost;
plan_cost plan_total_cost(const plan *p, phase which);

#endif
