/* hopper_host.cuh - what the host does before a kernel of attention for sm_90a. */
#ifndef OPS_ATTENTION_HOPPER_HOST_CUH
#define OPS_ATTENTION_HOPPER_HOST_CUH

#include <cudaTypedefs.h>

#include "ops/attention/attention_cuda.cuh"

/* How many multiprocessors of compute capability 9.0 the current device has; 0 when it is another
 * chip. */
int hopper_multiprocessors(void);

/* Whether these kernels take operands of that head size and type, with those strides. */
int hopper_takes(const attention_call *call);

/* Describes [batch, heads, rows, head_dim] to the copy engine, for tiles of `tile_rows` rows and
 * slabs of 64 columns. 0 when the driver does not take it. */
int hopper_describe_rows(CUtensorMap *map, const attention_rows *rows, const attention_call *call,
                         int heads, int count, int tile_rows);

/* Heads whose rows of both operands of `bytes` each are read by all blocks at about the same time
 * and should stay in the L2 cache together. */
int hopper_heads_at_once(int64_t bytes_per_head, int heads);

#endif
