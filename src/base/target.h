/* target.h - the chip a plan is made for.
 *
 * The compiler knows a target and no device: kernels decline by it, workspaces and costs follow
 * from it, and a plan for a named chip can be made where there is none. A device has the target
 * that describes it. */
#ifndef BASE_TARGET_H
#define BASE_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/isa.h"
#include "base/status.h"

typedef enum target_kind { TARGET_CPU, TARGET_CUDA, TARGET_KIND_COUNT } target_kind;

const char *target_kind_name(target_kind kind); /* "cpu" */

typedef struct target {
    char
        name[32]; /* what --target takes: "h200", "avx2"; "cpu" and "cuda" where it is a device's */
    char description[128];
    target_kind kind;
    unsigned instruction_sets;            /* of a CPU: bit i is isa i */
    int capability;                       /* of a GPU, ten times: 90 */
    int cores;                            /* of a GPU its multiprocessors */
    int64_t l1_bytes, l2_bytes, l3_bytes; /* L1 and L2 of a core, L3 of all; a GPU has no L3 */
    int64_t memory_bytes;                 /* 0: not known */
} target;

/* The CPU this process runs on, on all its cores. */
const target *target_this_cpu(void);

/* What is planned for where a kind is named and no chip: this CPU, or an H200. */
const target *target_usual(target_kind kind);

/* Those that can be planned for without the hardware, this machine's CPU first. */
int target_count(void);
const target *target_at(int index);
/* One of them by name; DYNO_INVALID names all. */
NODISCARD dyno_status target_find(const char *name, const target **out);

/* "sm_90", or the most of a CPU's instruction sets: "AVX-512 BF16". */
typedef struct target_text {
    char text[32];
} target_text;
target_text target_capability(const target *t);

/* Whether it is the CPU at hand with all that it can, not a named one. */
static inline bool target_is_this_cpu(const target *t) { return strcmp(t->name, "cpu") == 0; }

/* For reject: NULL, or that the target has no such instruction set. */
const char *target_reject(const target *t, isa which);

/* DYNO_UNSUPPORTED, with the reason, when this machine lacks an instruction set of the CPU `t`. */
NODISCARD dyno_status target_check_is_runnable(const target *t);

static inline bool target_is_cuda(const target *t) { return t->kind == TARGET_CUDA; }
static inline bool target_has(const target *t, isa which) {
    return t->instruction_sets >> which & 1;
}

#endif
