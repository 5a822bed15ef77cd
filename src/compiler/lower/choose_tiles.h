/* choose_tiles.h - the tiles of attention's kernels, where they are not the kernels' own. */
#ifndef COMPILER_LOWER_CHOOSE_TILES_H
#define COMPILER_LOWER_CHOOSE_TILES_H

#include "ops/kernel.h"
#include "plan/plan.h"

typedef struct tile_options {
    kernel_tile forward, backward; /* what the user wants; 0 x 0: as the source knows best */
    const tile_source *source;     /* NULL: nothing is known of the device */
} tile_options;

/* For a lowered plan, before its memory is planned: a tile can change a kernel's workspace. A tile
 * that is wanted and that the kernel chosen does not have is DYNO_UNSUPPORTED; the message names
 * those it has. One that only the source knows of and the kernel does not have is left out. */
NODISCARD dyno_status choose_tiles(plan *p, const tile_options *options);

/* The first launch of attention (or of its gradient), its operands' layouts as arguments; NULL: the
 * plan has none. */
typedef struct tiled_launch {
    const kernel *kernel;
    kernel_args args;
    tensor inputs[8], outputs[4];
    kernel_tile tile; /* asked for; 0 x 0: the kernel's own */
} tiled_launch;
bool find_tiled_launch(const plan *p, bool is_gradient, tiled_launch *out);

#endif
