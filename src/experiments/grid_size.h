/* grid_size.h - how many cells the lists of a grid make, and how many are too many. */
#ifndef EXPERIMENTS_GRID_SIZE_H
#define EXPERIMENTS_GRID_SIZE_H

#include <stdint.h>

#include "base/flags.h"

enum { GRID_MOST_CELLS = 100000 };

/* Fails, naming the lists and their product, when the flags of these names (NULL behind the last)
 * make more cells than that. Each flag is a list; one without values counts once. Before anything of
 * that size is allocated. */
NODISCARD dyno_status grid_check_size(const flags *given, const char *const *names);

/* The same for cells that were counted otherwise. */
NODISCARD dyno_status grid_check_cells(int64_t cells);

#endif
