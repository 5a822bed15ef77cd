/* tuning_cache.h - choices that were found by timing, kept in a text file.
 *
 *   <hash of the rest> <key> <value>
 *
 * one line each, appended in one write, so that processes may append concurrently; the last line of
 * a key counts, and a line whose hash is wrong is ignored. */
#ifndef RUNTIME_TUNING_CACHE_H
#define RUNTIME_TUNING_CACHE_H

#include <stdbool.h>

typedef struct tuning_cache tuning_cache;

/* Reads `file` of the cache directory, if it exists. Where nothing can be written, choices last as
 * long as the process. */
tuning_cache *tuning_cache_create(const char *file);
void tuning_cache_destroy(tuning_cache *cache);

/* Keys and values have no spaces. NULL: not there. The answer holds until the next call. */
const char *tuning_cache_find(const tuning_cache *cache, const char *key);
/* False when it is kept for this process only; the first time stderr says why. */
bool tuning_cache_add(tuning_cache *cache, const char *key, const char *value);

#endif
