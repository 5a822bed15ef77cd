/* kernel_list.h - the kernels of TARGET_CUDA that the module has, by the names that plans know
 * them under; each is a function "dyno_" and the name (cuda_call.h). */
#ifndef RUNTIME_CUDA_KERNEL_LIST_H
#define RUNTIME_CUDA_KERNEL_LIST_H

#define FOR_EACH_CUDA_KERNEL(X)                                                                    \
    X(matmul_cublas)                                                                               \
    X(copy_cuda)                                                                                   \
    X(transpose_cuda)                                                                              \
    X(broadcast_cuda)                                                                              \
    X(sum_cuda)                                                                                    \
    X(mean_cuda)                                                                                   \
    X(max_cuda)                                                                                    \
    X(fill_cuda)                                                                                   \
    X(iota_cuda)                                                                                   \
    X(gather_cuda)                                                                                 \
    X(scatter_add_cuda)                                                                            \
    X(rope_table_cuda)                                                                             \
    X(rope_cuda)                                                                                   \
    X(cross_entropy_cuda)                                                                          \
    X(cross_entropy_gradient_cuda)                                                                 \
    X(loss_head_cuda)                                                                              \
    X(loss_head_forward_cuda)                                                                      \
    X(adamw_cuda)                                                                                  \
    X(adamw_many_cuda)                                                                             \
    X(global_norm_cuda)                                                                            \
    X(squares_cuda)                                                                                \
    X(root_of_squares_cuda)                                                                        \
    X(accumulate_cuda)                                                                             \
    X(all_reduce_cuda)                                                                             \
    X(reduce_scatter_cuda)                                                                         \
    X(all_gather_cuda)                                                                             \
    X(attention_split_kv)                                                                          \
    X(attention_hopper)                                                                            \
    X(attention_mma)                                                                               \
    X(attention_tf32)                                                                              \
    X(attention_gradient_split_kv)                                                                 \
    X(attention_gradient_hopper_single_pass)                                                       \
    X(attention_gradient_hopper)                                                                   \
    X(attention_gradient_hopper_wide)                                                              \
    X(attention_gradient_mma)                                                                      \
    X(attention_gradient_tf32)

#endif
