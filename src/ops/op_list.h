/* op_list.h - every op there is. Adding one: its folder, and its line here. */
#ifndef OPS_OP_LIST_H
#define OPS_OP_LIST_H

#include "graph/op.h"

#define FOR_EACH_OP(X)                                                                             \
    X(add)                                                                                         \
    X(subtract)                                                                                    \
    X(multiply)                                                                                    \
    X(divide)                                                                                      \
    X(divide_gradient)                                                                             \
    X(scale)                                                                                       \
    X(add_scalar)                                                                                  \
    X(exp)                                                                                         \
    X(log)                                                                                         \
    X(rsqrt)                                                                                       \
    X(rsqrt_gradient)                                                                              \
    X(sigmoid)                                                                                     \
    X(sigmoid_gradient)                                                                            \
    X(equal)                                                                                       \
    X(greater_equal)                                                                               \
    X(select)                                                                                      \
    X(cast)                                                                                        \
    X(sum)                                                                                         \
    X(mean)                                                                                        \
    X(max)                                                                                         \
    X(reshape)                                                                                     \
    X(transpose)                                                                                   \
    X(broadcast)                                                                                   \
    X(detach)                                                                                      \
    X(split)                                                                                       \
    X(concat)                                                                                      \
    X(fill)                                                                                        \
    X(iota)                                                                                        \
    X(matmul)                                                                                      \
    X(attention)                                                                                   \
    X(attention_gradient)                                                                          \
    X(gather)                                                                                      \
    X(scatter_add)                                                                                 \
    X(rope_table)                                                                                  \
    X(rope)                                                                                        \
    X(cross_entropy)                                                                               \
    X(cross_entropy_gradient)                                                                      \
    X(loss_head)                                                                                   \
    X(loss_head_forward)                                                                           \
    X(adamw)                                                                                       \
    X(adamw_many)                                                                                  \
    X(global_norm)                                                                                 \
    X(clip_coefficient)                                                                            \
    X(unscale_coefficient)                                                                         \
    X(squares)                                                                                     \
    X(root_of_squares)                                                                             \
    X(micro_batch)                                                                                 \
    X(accumulate)                                                                                  \
    X(slice)                                                                                       \
    X(all_reduce)                                                                                  \
    X(reduce_scatter)                                                                              \
    X(all_gather)

#define DECLARE_OP(NAME) extern const op op_##NAME;
FOR_EACH_OP(DECLARE_OP)
#undef DECLARE_OP

int op_list_count(void);
const op *op_list_at(int index);

#endif
