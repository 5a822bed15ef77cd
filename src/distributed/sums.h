/* sums.h - sums over ranks, in the order of ranks. */
#ifndef DISTRIBUTED_SUMS_H
#define DISTRIBUTED_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* f32, bf16, f16. */
bool sums_have_type(dtype type);

/* to[k][i] = ((from[0][i] + from[1][i]) + from[2][i]) + ... for every k, added up in f32 and rounded
 * once. Each `to` may be one of `from`, but not another part of its memory. `from_count` is at least 1. */
void sums_write(dtype type, const void *const *from, int from_count, void *const *to, int to_count,
                int64_t count);
/* A copy for other processes to read, written past the caches: a store to a line that another core has
 * in its cache waits until that core has given it up, and costs tens of times as much. */
void sums_copy_through(void *to, const void *from, int64_t bytes);
/* The same in two halves, for sums that go on elsewhere: adds `from` to total in the order given. Where
 * `is_first`, what total held does not count: it begins with from[0]. */
void sums_accumulate(dtype type, float *total, bool is_first, const void *const *from,
                     int from_count, int64_t count);
/* to[i] = total[i], rounded. */
void sums_round(dtype type, const float *total, void *to, int64_t count);

#endif
