/* device.h - where plans run: memory for tensors, and a way to run launches.
 *
 * The CPU is one device; a GPU is another, opened from the module libdyno_cuda.so. Executor, pool
 * and storage know devices only through this table. Work on a device is ordered: launches, clears,
 * writes and reads behave as if they ran one after the other, though the host may run ahead. */
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H

#include "base/status.h"
#include "distributed/communicator.h"
#include "ops/kernel.h"
#include "plan/plan.h"
#include "profile/launch_log.h"

typedef struct device device;
typedef struct program program; /* a plan prepared for a device */

/* For device_functions.nccl_join. */
typedef struct nccl_id {
    char bytes[128];
} nccl_id;
typedef struct nccl_join {
    nccl_id id;
    int rank, count;
    double timeout_s;
    /* Asked while the host waits: fails when a rank has failed. */
    dyno_status (*check)(void *context);
    void *context;
} nccl_join;

/* A launch of a plan with its arguments. One that runs for several micro-batches occurs several times.
 * The context of the arguments lacks device and stream, which the device fills in. */
typedef struct device_launch {
    int launch;
    const kernel_args *args;
} device_launch;

typedef struct device_functions {
    void (*close)(device *d);

    /* ---- memory ---- */
    int64_t (*available_bytes)(device *d); /* available to tensors now */
    /* Reserves address space without memory; commit then backs its first `want` bytes, of which
     * `have` (a multiple of device.granularity, or 0) are backed already; *got is what is backed at
     * return. Out of memory: DYNO_OUT_OF_MEMORY, and what was backed stays. A device that fails in
     * another way reports that, not a lack of memory. */
    dyno_status (*reserve)(device *d, int64_t bytes, void **base);
    dyno_status (*commit)(device *d, void *base, int64_t have, int64_t want, int64_t *got);
    /* Releases the memory of [offset, offset + bytes), in whole pages; *have is lowered when the
     * end of the range was released. No enqueued work may use it. */
    void (*decommit)(device *d, void *base, int64_t offset, int64_t bytes, int64_t *have);
    void (*release)(device *d, void *base, int64_t bytes, int64_t have);
    void (*clear)(device *d, void *to, int64_t bytes);
    void (*write)(device *d, void *to, const void *from, int64_t bytes); /* `from` is free after */
    /* Synchronizes. Whether the work before it succeeded is for finish to report. */
    void (*read)(device *d, void *to, const void *from, int64_t bytes);
    /* Synchronizes; fails with the first failure since the last call. */
    dyno_status (*finish)(device *d);

    /* ---- running ---- */
    /* Compiles the generated kernels. Borrows the plan. */
    dyno_status (*program_create)(device *d, const plan *p, program **out);
    void (*program_destroy)(program *r);
    /* Runs launch `index`; on a GPU it returns when the launch is enqueued. Fails where the kernel
     * does, or cannot be enqueued. */
    dyno_status (*launch)(program *r, int index, const kernel_args *args);
    /* Static plans: captures all launches of a step once, to be replayed as one graph; arguments must
     * stay valid. Event 0 is recorded before all launches, event j + 1 after steps[event_after[j]].
     * NULL where a device cannot capture. */
    dyno_status (*capture)(program *r, const device_launch *steps, int count,
                           const int *event_after, int event_count);
    dyno_status (*replay)(program *r);

    /* ---- time ---- */
    /* Records an event when all work before it is complete; slots are any numbers from 0. */
    void (*record_event)(device *d, int slot);
    /* After finish: nanoseconds between the events of two slots. */
    int64_t (*elapsed_ns)(device *d, int from, int to);
    /* Between begin and end, the device records when it ran each launch of the program, in steps
     * that run as usual; a step that is replayed is captured anew in between. Times are by the
     * host's clock (base/clock.h), as far as the device's can be converted to it. Both return
     * DYNO_UNSUPPORTED where it cannot; NULL where no device of the kind can. finish comes before
     * the end. */
    dyno_status (*observe_begin)(program *r);
    dyno_status (*observe_end)(program *r, launch_log *out);

    /* ---- several ranks ---- */
    /* Of a GPU; NULL elsewhere. Rank 0 makes an id, which all others are told; then all ranks join,
     * each with its own GPU. DYNO_UNSUPPORTED where NCCL cannot be loaded. */
    dyno_status (*nccl_id)(device *d, nccl_id *out);
    dyno_status (*nccl_join)(device *d, const nccl_join *how, communicator **out);
} device_functions;

/* Implementations embed it as their first member. */
struct device {
    const device_functions *functions;
    target target;
    char name[16];         /* "cpu", "cuda:0" */
    char description[128]; /* "NVIDIA H200, sm_90, 139.8 GiB" */
    int64_t granularity;   /* of commit */
};

/* "cpu", "cuda", "cuda:N", or "auto": the environment's DYNO_DEVICE, else a GPU if one works, else
 * the CPU. Anything else is DYNO_INVALID; a GPU that cannot be used is DYNO_UNSUPPORTED, with the
 * reason (no module, no driver, a driver too old, no such number, a chip too old). On failure *out
 * is NULL. */
NODISCARD dyno_status device_open(const char *name, device **out);
/* The same with the CPU restricted to a named target (target_find); NULL: with all that it has. A
 * target that is no CPU, or a device that is none, is DYNO_INVALID. */
NODISCARD dyno_status device_open_as(const char *name, const char *target_name, device **out);
void device_close(device *d);

/* The kind of target that a device name asks for, without opening it. "auto" is the CPU here. */
NODISCARD dyno_status device_parse(const char *name, target_kind *kind, int *ordinal);

/* The target of the device that would run, for planning: a GPU's own where there is one, else the
 * usual one (target_usual). "auto" is resolved as device_open does. */
NODISCARD dyno_status device_find_target(const char *name, target *out);

/* The CPU is always there and needs no closing. */
device *device_cpu(void);

/* The CPU with no more than the instruction sets of the target, which is a CPU; DYNO_UNSUPPORTED
 * where this machine has less than that. On failure *out is NULL. */
NODISCARD dyno_status device_create_cpu(const target *chip, device **out);

/* communicator_create for every kind: those of NCCL are of a GPU, the others need no device and take
 * NULL. */
NODISCARD dyno_status device_create_communicator(device *d, struct world *w,
                                                 const communicator_options *options,
                                                 communicator **out);

/* Whether the host may read and write tensors where they lie. */
bool device_is_host(const device *d);

#endif
