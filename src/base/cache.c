#include "base/cache.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

bool cache_directory(text *out) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0])
        text_format(out, "%s/dyno", cache);
    else if (home && home[0])
        text_format(out, "%s/.cache/dyno", home);
    return out->length > 0;
}

bool cache_prepare(text *out, const char *what) {
    static atomic_flag has_complained = ATOMIC_FLAG_INIT;
    bool has_home = cache_directory(out);
    if (has_home && file_make_output_directory(text_string(out)) == DYNO_OK)
        return true;
    if (!atomic_flag_test_and_set(&has_complained))
        fprintf(stderr,
                "dyno: %s cannot be kept for the next run (%s). Set XDG_CACHE_HOME to a directory "
                "that can be written.\n",
                what, has_home ? dyno_error_message() : "neither XDG_CACHE_HOME nor HOME is set");
    return false;
}
