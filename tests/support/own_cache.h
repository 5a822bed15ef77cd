/* own_cache.h - each test has a cache directory of its own: *state is the scratch directory, the
 * cache is dyno/ in it. */
#ifndef TESTS_SUPPORT_OWN_CACHE_H
#define TESTS_SUPPORT_OWN_CACHE_H

#include <stdlib.h>

#include "support/scratch.h"

static inline int own_cache_set_up(void **state) {
    scratch *made = malloc(sizeof *made);
    *made = scratch_create();
    setenv("XDG_CACHE_HOME", made->path, 1);
    *state = made;
    return 0;
}

static inline int own_cache_tear_down(void **state) {
    unsetenv("XDG_CACHE_HOME");
    scratch_remove(*state);
    free(*state);
    return 0;
}

#endif
