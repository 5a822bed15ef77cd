/* kernel_list.h - the hand-written CUDA kernels: X(name) for the function dyno_<name>, a cuda_run,
 * which launches what plans call `name`. One line each, by op. */
#ifndef RUNTIME_CUDA_KERNEL_LIST_H
#define RUNTIME_CUDA_KERNEL_LIST_H

#define FOR_EACH_CUDA_KERNEL(X) X(matmul_cublas)

#endif
