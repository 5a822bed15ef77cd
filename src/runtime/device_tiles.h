/* device_tiles.h - the tiles that a device's kernels have, and those that timing found best there,
 * kept in the cache directory (tuning_cache.h), a file for each kind of device.
 *
 * A choice is known by kernel, type, head size, mask and lengths, these rounded up to powers of
 * two. Where the file holds nothing, or nothing that can be read, nothing is known. */
#ifndef RUNTIME_DEVICE_TILES_H
#define RUNTIME_DEVICE_TILES_H

#include "runtime/device.h"

typedef struct device_tiles device_tiles;

/* Borrows the device. */
device_tiles *device_tiles_create(device *d);
void device_tiles_destroy(device_tiles *tiles);

/* For planning. Holds as long as `tiles` does. */
const tile_source *device_tiles_source(const device_tiles *tiles);

/* False when it is kept for this process only: nothing can be written. */
bool device_tiles_keep(device_tiles *tiles, const kernel *k, const kernel_args *args,
                       kernel_tile best);

#endif
