/* kernel_memo.h - the fused kernels that were rendered already, so that those of the other layers
 * need not be: rendering one takes longer than lowering it. */
#ifndef COMPILER_LOWER_KERNEL_MEMO_H
#define COMPILER_LOWER_KERNEL_MEMO_H

#include "compiler/codegen/fused_kernel.h"

/* A kernel, with copies of its lists, and what its launches say of it. */
typedef struct known_kernel {
    fused_kernel k;
    int generated;       /* its number among the plan's generated ones */
    const char *op_name; /* "cast+multiply", in the plan's memory */
} known_kernel;

/* Zero is an empty memo. */
typedef struct kernel_memo {
    known_kernel *known;
    int count, capacity;
} kernel_memo;

/* A kernel that is the same in every byte, and so in its source; NULL: there is none. It is valid
 * until the next is added. */
const known_kernel *kernel_memo_find(const kernel_memo *memo, const fused_kernel *k);
const known_kernel *kernel_memo_add(kernel_memo *memo, const fused_kernel *k, int generated,
                                    const char *op_name);
void kernel_memo_release(kernel_memo *memo);

#endif
