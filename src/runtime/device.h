/* device.h - where plans run: memory that tensors lie in, and a way to run launches there.
 *
 * The CPU is one; a GPU is another, opened from the module libdyno_cuda.so. Executor, pool and
 * storage know devices only through this table. Work on a device is in one order: launches, clears,
 * writes and reads happen as if one after the other, though the host may be ahead of them. */
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H

#include "base/status.h"
#include "ops/kernel.h"
#include "plan/plan.h"
#include "profile/activity.h"

typedef struct device device;
typedef struct program program; /* a plan, made ready for a device */

typedef struct device_functions {
    void (*close)(device *d);

    /* ---- memory ---- */
    int64_t (*available_bytes)(device *d); /* that tensors could be given now */
    /* Address space without memory; then memory for its first `want` bytes, of which `have` (a
     * multiple of device.granularity, or 0) are there already; *got is what there is then. Out of
     * memory: DYNO_OUT_OF_MEMORY, and what was there stays; a device that fails otherwise is not
     * full, and says so. */
    dyno_status (*reserve)(device *d, int64_t bytes, void **base);
    dyno_status (*commit)(device *d, void *base, int64_t have, int64_t want, int64_t *got);
    /* Gives the memory of [offset, offset + bytes) back, as far as whole pages go; *have is lowered
     * when the end of the range went. Nothing that is still to run uses it. */
    void (*decommit)(device *d, void *base, int64_t offset, int64_t bytes, int64_t *have);
    void (*release)(device *d, void *base, int64_t bytes, int64_t have);
    void (*clear)(device *d, void *to, int64_t bytes);
    void (*write)(device *d, void *to, const void *from, int64_t bytes); /* `from` is free after */
    /* Waits. Whether there is anything at `to` is for finish to tell. */
    void (*read)(device *d, void *to, const void *from, int64_t bytes);
    /* Waits for everything; fails with what went wrong since the last time. */
    dyno_status (*finish)(device *d);

    /* ---- running ---- */
    /* Compiles the generated kernels. Borrows the plan. */
    dyno_status (*program_create)(device *d, const plan *p, program **out);
    void (*program_destroy)(program *r);
    /* Does launch `index`; on a GPU it returns when it is enqueued. Fails where the kernel does, or
     * cannot be enqueued. */
    dyno_status (*launch)(program *r, int index, const kernel_args *args);
    /* Static plans: takes all launches down once, to be replayed as one; args[i] is launch i's and
     * stays where it is. After launch mark_after[j] stands mark j + 1 (mark 0 before all). NULL
     * where a device has no such thing. */
    dyno_status (*capture)(program *r, const kernel_args *args, const int *mark_after,
                           int mark_count);
    dyno_status (*replay)(program *r);

    /* ---- time ---- */
    /* The moment at which all work before it is done; slots are any numbers from 0. */
    void (*mark)(device *d, int slot);
    /* After finish: nanoseconds from slot `from` to slot `to`. */
    int64_t (*elapsed_ns)(device *d, int from, int to);
    /* From begin to end, the device records when it ran each launch of the program, in steps that
     * are otherwise run as ever; a step to be replayed is captured in between. Both
     * DYNO_UNSUPPORTED where it cannot; NULL where no device of the kind can. Before the end comes
     * finish. */
    dyno_status (*observe_begin)(program *r);
    dyno_status (*observe_end)(program *r, activity *out);
} device_functions;

/* Implementations begin with this and add their own. */
struct device {
    const device_functions *functions;
    target target;
    char name[16];         /* "cpu", "cuda:0" */
    char description[128]; /* "NVIDIA H200, sm_90, 139.8 GiB" */
    int64_t granularity;   /* of commit */
};

/* "cpu", "cuda", "cuda:N", or "auto": what the environment's DYNO_DEVICE says, else a GPU if there
 * is one that works, else the CPU. Anything else is DYNO_INVALID; a GPU that is not there
 * DYNO_UNSUPPORTED, with the reason (no module, no driver, a driver too old, no such number, a chip
 * too old). On failure *out is NULL. */
NODISCARD dyno_status device_open(const char *name, device **out);
void device_close(device *d);

/* The kind of target that a name of a device asks for, without opening it. "auto" is the CPU here.
 */
NODISCARD dyno_status device_parse(const char *name, target_kind *kind, int *ordinal);

/* The target of the device that would run, for planning: a GPU's own where there is one, else the
 * usual one (target_usual). "auto" is resolved as device_open does. */
NODISCARD dyno_status device_find_target(const char *name, target *out);

/* The CPU is always there and needs no closing. */
device *device_cpu(void);

/* Whether the host may read and write tensors where they lie. */
static inline bool device_is_host(const device *d) { return d == device_cpu(); }

#endif
