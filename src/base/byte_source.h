/* byte_source.h - a regular file as a stream of bytes, unpacked on the way where it is gzip.
 *
 * For files of any size: only a buffer of them is in memory. What is gzip is known by its first bytes
 * and not by its name. zlib is looked for at run time (docs/decisions/0030). */
#ifndef BASE_BYTE_SOURCE_H
#define BASE_BYTE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct byte_source byte_source;

/* On failure *out is NULL. */
NODISCARD dyno_status byte_source_open(const char *path, byte_source **out);
void byte_source_close(byte_source *source);

/* Reads up to `count` bytes, which is at most INT_MAX; *got is 0 only at the end. A gzip file that is
 * damaged, cut off or followed by other bytes is DYNO_CORRUPT. */
NODISCARD dyno_status byte_source_read(byte_source *source, char *to, size_t count, size_t *got);
/* Back to the first byte. */
NODISCARD dyno_status byte_source_rewind(byte_source *source);

/* How far the reading is, in bytes of the file: for progress. */
int64_t byte_source_position(const byte_source *source);
int64_t byte_source_size(const byte_source *source);

#endif
