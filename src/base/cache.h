/* cache.h - the directory that keeps what is expensive to compute: compiled kernels, tuned choices.
 *
 * It is $XDG_CACHE_HOME/dyno, else $HOME/.cache/dyno; a name that is not absolute is ignored, as the
 * XDG specification demands. What lies there is executed or believed, so another user must not have
 * written it: the directory, the one it lies in and every file must belong to this user or to root
 * and be writable by nobody else. From the directory on no link is followed, and a file is checked
 * on the descriptor that it is read from.
 *
 * A cache that cannot be used is no error: stderr says why, once, and there is none. */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

/* Reads a file of up to `limit` bytes. *data is NUL-terminated beyond *size and belongs to the
 * caller (free). False when it is not there, or not to be trusted. */
bool cache_read(const char *name, int64_t limit, char **data, size_t *size);

/* Appends in one write, so that processes may append concurrently. `what` ("tuned choices") is what
 * is lost when that fails; stderr then says so, once. */
bool cache_append(const char *name, const char *what, const void *bytes, size_t count);

/* Files that are named by the hash of what they were made from, `key`, and end in a line with that
 * and the hash of their content: one that is damaged or bears another's name counts as not there.
 * They appear whole or never. */
bool cache_read_sealed(const hash_string *key, const char *suffix, char **data, size_t *size);
bool cache_write_sealed(const hash_string *key, const char *suffix, const char *what,
                        const void *bytes, size_t count);

#endif
