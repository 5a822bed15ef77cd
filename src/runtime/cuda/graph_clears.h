/* graph_clears.h - memory set by kernels in a captured graph. */
#ifndef RUNTIME_CUDA_GRAPH_CLEARS_H
#define RUNTIME_CUDA_GRAPH_CLEARS_H

#include "runtime/cuda/cuda_device.h"

/* Puts a kernel in the place of each node that sets memory and could be one. The graph is not yet
 * executable. */
NODISCARD dyno_status cuda_graph_replace_clears(cudaGraph_t graph);

#endif
