/* graph_clears.h - kernel nodes in place of the memset nodes of a captured graph. */
#ifndef RUNTIME_CUDA_GRAPH_CLEARS_H
#define RUNTIME_CUDA_GRAPH_CLEARS_H

#include "runtime/cuda/cuda_device.h"

/* Replaces each memset node that a kernel can express. The graph is not instantiated yet. */
NODISCARD dyno_status cuda_graph_replace_clears(cudaGraph_t graph);

#endif
