/* graph_clears.c - replaces memset nodes of a captured graph by kernel nodes.
 *
 * Many of cuBLASLt's products clear a few counters before they begin. In a replayed graph, a memset
 * node of 1 us is idle for 1 us before and 4 us after (H200, driver 580), a kernel node for 0.1 us
 * on either side: at 2.7B, 226 of these were 1 % of a step. */
#include "runtime/cuda/graph_clears.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/cuda/clear_kernel.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/observe.h"

#if CUDART_VERSION < 13000
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#endif

/* A node's neighbours on one side. */
typedef struct neighbours {
    cudaGraphNode_t *nodes;
    cudaGraphEdgeData *edges;
    size_t count;
} neighbours;

typedef cudaError_t list_neighbours(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                    cudaGraphEdgeData *edges, size_t *count);

static void neighbours_release(neighbours *n) {
    free(n->nodes);
    free(n->edges);
}

static cudaError_t find_neighbours(cudaGraphNode_t node, list_neighbours *list, neighbours *out) {
    *out = (neighbours){0};
    cudaError_t error = list(node, NULL, NULL, &out->count);
    if (error != cudaSuccess)
        return error;
    out->nodes = memory_allocate(out->count + 1, sizeof *out->nodes);
    out->edges = memory_allocate(out->count + 1, sizeof *out->edges);
    return out->count ? list(node, out->nodes, out->edges, &out->count) : cudaSuccess;
}

/* An edge carries no data beyond the order of its two nodes. */
static bool are_plain(const neighbours *n) {
    static const cudaGraphEdgeData PLAIN;
    for (size_t i = 0; i < n->count; i++)
        if (memcmp(&n->edges[i], &PLAIN, sizeof PLAIN) != 0)
            return false;
    return true;
}

/* One row of whole words. */
static bool is_clear(cudaGraphNode_t node, cuda_clear *clear, cudaError_t *error) {
    enum cudaGraphNodeType type;
    *error = cudaGraphNodeGetType(node, &type);
    if (*error != cudaSuccess || type != cudaGraphNodeTypeMemset)
        return false;
    struct cudaMemsetParams set;
    *error = cudaGraphMemsetNodeGetParams(node, &set);
    int64_t bytes = (int64_t)set.width * set.elementSize;
    if (*error != cudaSuccess || set.height != 1 || bytes == 0 || bytes % 4 != 0 ||
        (uintptr_t)set.dst % 4 != 0)
        return false;
    unsigned ones = set.elementSize == 1 ? 0x01010101u : set.elementSize == 2 ? 0x00010001u : 1;
    unsigned mask = set.elementSize == 1 ? 0xffu : set.elementSize == 2 ? 0xffffu : ~0u;
    *clear = (cuda_clear){set.dst, (set.value & mask) * ones, bytes / 4};
    return true;
}

static cudaError_t put_in_place(cudaGraph_t graph, cudaGraphNode_t old, const cuda_clear *clear,
                                const neighbours *before, const neighbours *after) {
    cudaGraphNode_t made;
    cuda_observe_captured_like(old);
    cudaError_t error = cuda_clear_add_node(&made, graph, before->nodes, before->count, clear);
    cuda_observe_captured(NULL, -1);
    cudaGraphNode_t *from = memory_allocate(after->count + 1, sizeof *from);
    for (size_t i = 0; i < after->count; i++)
        from[i] = made;
    if (error == cudaSuccess && after->count)
        error = cudaGraphAddDependencies(graph, from, after->nodes, NULL, after->count);
    free(from);
    return error == cudaSuccess ? cudaGraphDestroyNode(old) : error;
}

static cudaError_t replace(cudaGraph_t graph, cudaGraphNode_t node) {
    cuda_clear clear;
    cudaError_t error;
    if (!is_clear(node, &clear, &error))
        return error;
    neighbours before, after = {0};
    error = find_neighbours(node, cudaGraphNodeGetDependencies, &before);
    if (error == cudaSuccess)
        error = find_neighbours(node, cudaGraphNodeGetDependentNodes, &after);
    if (error == cudaSuccess && are_plain(&before) && are_plain(&after))
        error = put_in_place(graph, node, &clear, &before, &after);
    neighbours_release(&before);
    neighbours_release(&after);
    return error;
}

dyno_status cuda_graph_replace_clears(cudaGraph_t graph) {
    size_t count = 0;
    RETURN_IF_FAILED(cuda_status(cudaGraphGetNodes(graph, NULL, &count), "reading a graph"));
    cudaGraphNode_t *nodes = memory_allocate(count + 1, sizeof *nodes);
    cudaError_t error = count ? cudaGraphGetNodes(graph, nodes, &count) : cudaSuccess;
    for (size_t i = 0; i < count && error == cudaSuccess; i++)
        error = replace(graph, nodes[i]);
    free(nodes);
    return cuda_status(error, "putting kernels into a graph");
}
