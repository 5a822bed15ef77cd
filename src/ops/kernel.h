/* kernel.h - one way to compute one op on one kind of target.
 *
 * An op lists its kernels fastest first; the compiler takes the first that does not reject the
 * operands or the target. Kernels never allocate: what scratch they need they ask for, and the plan
 * holds it. */
#ifndef OPS_KERNEL_H
#define OPS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/target.h"
#include "base/text.h"
#include "tensor/attributes.h"
#include "tensor/tensor.h"

struct device; /* runtime/device.h */

/* Where a kernel runs. Collectives will find their communicator here. */
typedef struct launch_context {
    struct device *device;
    void *stream; /* a GPU's cudaStream_t; NULL on a CPU */
} launch_context;

typedef struct kernel_args {
    int input_count, output_count;
    const tensor *inputs;
    const tensor *outputs; /* dense, row-major, unless the kernel writes strided */
    const attributes *attributes;
    void *workspace;
    const target *target; /* the chip that the plan is for */
    /* While planning: the offsets of all operands in their buffers, or-ed together. Buffers are
     * aligned for any kernel, so these are the bits that can spoil alignment. */
    uint64_t offset_bits;
    const launch_context *context; /* NULL while planning */
} kernel_args;

/* Rows of Q and of K that attention's kernels take at a time; 0 x 0: as the kernel thinks best. In
 * a launch they are the attributes KERNEL_TILE_QUERIES and KERNEL_TILE_KEYS. */
typedef struct kernel_tile {
    int queries, keys;
} kernel_tile;
#define KERNEL_TILE_QUERIES "tile_queries"
#define KERNEL_TILE_KEYS "tile_keys"
enum { KERNEL_MOST_TILES = 16 };

typedef struct kernel {
    const char *name; /* "matmul_onednn" */
    target_kind target;
    /* NULL accepts; else the reason why not. Sees layouts and the target: data is NULL. May be
     * NULL. */
    const char *(*reject)(const kernel_args *args);
    /* Scratch for these operands; NULL: none. Sees layouts only. */
    size_t (*workspace_bytes)(const kernel_args *args);
    /* NULL for TARGET_CUDA: the CUDA module has the function, under the kernel's name. */
    dyno_status (*run)(const kernel_args *args);
    /* The tiles that may be asked for with these operands, at most KERNEL_MOST_TILES of them, first
     * the one it takes when none is. NULL: none may be; or, of TARGET_CUDA, the CUDA module knows.
     * Sees layouts only. */
    int (*tiles)(const kernel_args *args, kernel_tile *out);
    /* Outputs may have any strides, 1 in the last dimension. */
    bool writes_strided;
    /* 1 + the output that may lie where input 0 does, element by element; 0 when none may. */
    int overwrites_input;
    bool is_tiled; /* whether tiles may be asked for */
} kernel;

/* The tile that a launch with these attributes asks for. */
kernel_tile kernel_tile_asked(const attributes *list);

/* The one it asks for, or the first of those that the kernel lists. */
kernel_tile kernel_tile_taken(const kernel_args *args,
                              int (*tiles)(const kernel_args *args, kernel_tile *out));

/* "64x128" */
typedef struct kernel_tile_text {
    char text[32];
} kernel_tile_text;
kernel_tile_text kernel_tile_format(kernel_tile tile);
/* Nothing else but "QxK", both from 1 to 65536. */
bool kernel_tile_parse(const char *from, kernel_tile *out);

static inline bool kernel_tile_is_open(kernel_tile tile) { return tile.queries == 0; }
static inline bool kernel_tile_equal(kernel_tile a, kernel_tile b) {
    return a.queries == b.queries && a.keys == b.keys;
}

/* Who knows the tiles of kernels on a device, and which of them timing found best. */
typedef struct tile_source {
    /* As kernel.tiles; 0: none may be asked for. */
    int (*list)(const struct tile_source *source, const kernel *k, const kernel_args *args,
                kernel_tile *out);
    /* 0 x 0: nothing is known. */
    kernel_tile (*find)(const struct tile_source *source, const kernel *k, const kernel_args *args);
} tile_source;

/* The first of a NULL-terminated list that takes the operands on args->target; NULL when none does.
 * `reasons`, if not NULL, is told why those before it do not. */
const kernel *kernel_pick(const kernel *const *list, const kernel_args *args, text *reasons);

/* Every kernel of the target's kind, for tests and listings: NULL, or why it is not chosen. */
const char *kernel_reject(const kernel *k, const kernel_args *args);

/* For reject: the reason when an input is not f32, else NULL. */
const char *kernel_reject_unless_f32(const kernel_args *args);

#endif
