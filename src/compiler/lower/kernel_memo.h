/* kernel_memo.h - the fused kernels that were rendered already, so that those of the other layers
 * need not be: rendering one takes longer than lowering it. */
#ifndef COMPILER_LOWER_KERNEL_MEMO_H
#define COMPILER_LOWER_KERNEL_MEMO_H

#include "compiler/codegen/fused_kernel.h"

/* A kernel, with copies of its lists, and its number among the plan's generated ones. */
typedef struct known_kernel {
    fused_kernel k;
    int generated;
} known_kernel;

/* Zero is an empty memo. */
typedef struct kernel_memo {
    known_kernel *known;
    int count, capacity;
} kernel_memo;

/* The number of a kernel that is the same in every byte, and so in its source; -1: there is none.
 */
int kernel_memo_find(const kernel_memo *memo, const fused_kernel *k);
void kernel_memo_add(kernel_memo *memo, const fused_kernel *k, int generated);
void kernel_memo_release(kernel_memo *memo);

#endif
