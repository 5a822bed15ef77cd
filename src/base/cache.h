/* cache.h - the directory that keeps what is expensive to compute: compiled kernels, tuned choices.
 * */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

#include <stdbool.h>

#include "base/text.h"

/* Appends $XDG_CACHE_HOME/dyno, else $HOME/.cache/dyno; false when neither is set. */
bool cache_directory(text *out);

/* Appends the directory and makes sure that it is writable. Otherwise returns false and, the first
 * time, reports on stderr what cannot be kept ("compiled kernels") and why. */
bool cache_prepare(text *out, const char *what);

#endif
