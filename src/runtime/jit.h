/* jit.h - generated C, compiled with the system's compiler, loaded, and cached.
 *
 * The cache (base/cache.h) has one shared object for each content hash of source, flags and
 * compiler. Objects are written under a temporary name and renamed, so that concurrent processes do
 * not conflict. One that is damaged, or that another user may have written, is compiled again. */
#ifndef RUNTIME_JIT_H
#define RUNTIME_JIT_H

#include <stdbool.h>

#include "base/status.h"
#include "base/target.h"

typedef struct jit_module jit_module;

typedef struct jit_times {
    int64_t compile_ns; /* 0: it was in the cache */
    int64_t load_ns;
} jit_times;

/* The compiler that would be used ($CC, else cc, gcc or clang on the PATH); NULL: none. */
const char *jit_compiler(void);
/* Whether plans for the CPU can have generated kernels; when not, says so on stderr, once. */
bool jit_is_possible(void);

/* Compiles for a CPU: for all that this one has, or for the level of a named one (ops/levels.h).
 * Fails with DYNO_UNSUPPORTED when there is no compiler, and DYNO_IO, with what the compiler
 * said, when it fails. A cache that cannot be used costs a compilation each time and one line on
 * stderr. `times` may be NULL. */
NODISCARD dyno_status jit_load(const char *source, const target *chip, jit_module **out,
                               jit_times *times);
void jit_destroy(jit_module *module);

/* NULL when there is no such function. */
void *jit_find(const jit_module *module, const char *symbol);

#endif
