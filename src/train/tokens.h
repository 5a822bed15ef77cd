/* tokens.h - a text as token ids: a raw file of little-endian 16- or 32-bit numbers, as numpy's
 * tofile writes it. */
#ifndef TRAIN_TOKENS_H
#define TRAIN_TOKENS_H

#include <stdint.h>

#include "base/status.h"

typedef struct tokens tokens;

/* `token_bytes` is 2 or 4. On success *out belongs to the caller; on failure it is NULL. */
NODISCARD dyno_status tokens_open(const char *path, int token_bytes, tokens **out);
void tokens_close(tokens *source);
int64_t tokens_count(const tokens *source);

/* `count` ids from `start` on. Past the end: DYNO_INVALID with what is needed and what there
 * is. An id of `vocab` or above: DYNO_CORRUPT with its position. On failure `destination`
 * holds anything. Safe to call from several threads. */
NODISCARD dyno_status tokens_read(const tokens *source, int64_t start, int64_t count, int64_t vocab,
                                  int32_t *destination);

#endif
