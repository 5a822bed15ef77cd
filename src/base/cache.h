/* cache.h - where what was expensive to make is kept: compiled kernels, tuned choices. */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

#include <stdbool.h>

#include "base/text.h"

/* Appends $XDG_CACHE_HOME/dyno, else $HOME/.cache/dyno; false when there is no home to have one
 * in. */
bool cache_directory(text *out);

/* Appends the directory and makes sure that files can be made in it. Otherwise answers false and,
 * the first time, says on stderr what cannot be kept ("compiled kernels") and why. */
bool cache_prepare(text *out, const char *what);

#endif
