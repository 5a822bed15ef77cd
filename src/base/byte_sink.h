/* byte_sink.h - a file that is written piece by piece and appears whole or not at all (base/file.h),
 * compressed on the way where its name ends in ".gz".
 *
 * The counterpart of byte_source.h: for files too large to be made in memory first. */
#ifndef BASE_BYTE_SINK_H
#define BASE_BYTE_SINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct byte_sink byte_sink;

/* With `is_new` a file that exists is DYNO_INVALID, now or when this one is committed. DYNO_UNSUPPORTED
 * where it is to be compressed and there is no zlib. On failure *out is NULL. */
NODISCARD dyno_status byte_sink_create(const char *path, bool is_new, byte_sink **out);
NODISCARD dyno_status byte_sink_append(byte_sink *sink, const void *bytes, size_t count);
/* Takes the sink, whether it succeeds or not. */
NODISCARD dyno_status byte_sink_commit(byte_sink *sink);
/* Takes the sink; NULL is allowed. */
void byte_sink_abandon(byte_sink *sink);

/* Whether byte_sink_create would fail: for asking before hours of work (file_check_output). */
NODISCARD dyno_status byte_sink_check(const char *path, bool is_new);

#endif
