/* arena_map.h - which bytes of an arena are taken during which launches.
 *
 * Answers where the lowest gap is that is free through a whole lifetime, in a time that grows with
 * the logarithm of the number of launches as long as what is taken lies close together. */
#ifndef PLAN_ARENA_MAP_H
#define PLAN_ARENA_MAP_H

#include <stdint.h>

typedef struct arena_map arena_map;

/* For launches 0 to `last_launch`. */
arena_map *arena_map_create(int last_launch);
void arena_map_destroy(arena_map *map);
/* Nothing is taken any more. */
void arena_map_clear(arena_map *map);

/* The lowest offset at which so many bytes are free from launch `born` to `last_used`. */
int64_t arena_map_lowest_fit(const arena_map *map, int born, int last_used, int64_t bytes);
/* Takes bytes [begin, end) for these launches. */
void arena_map_take(arena_map *map, int born, int last_used, int64_t begin, int64_t end);

#endif
