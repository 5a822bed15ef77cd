#define _GNU_SOURCE
#include "formats/input_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

enum { READ_PIECE = 1 << 30 }; /* Linux reads at most 2 GiB at once */

dyno_status input_file_open(const char *path, input_file *out) {
    *out = (input_file){.descriptor = -1};
    RETURN_IF_FAILED(file_open_regular(path, &out->descriptor, &out->size));
    out->path = memory_copy_string(path);
    return DYNO_OK;
}

void input_file_close(input_file *file) {
    if (file->descriptor >= 0)
        close(file->descriptor);
    free(file->path);
    *file = (input_file){.descriptor = -1};
}

dyno_status input_file_read(const input_file *file, int64_t offset, void *destination,
                            size_t count) {
    char *to = destination;
    while (count > 0) {
        size_t piece = count < READ_PIECE ? count : READ_PIECE;
        ssize_t got = pread(file->descriptor, to, piece, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dyno_fail(DYNO_IO, "reading '%s' at byte %" PRId64 ": %s", file->path, offset,
                             strerror(errno));
        if (got == 0)
            return dyno_fail(DYNO_IO,
                             "reading '%s': it ends at byte %" PRId64 " and was %" PRId64
                             " bytes when it was opened; do not change it while it is read",
                             file->path, offset, file->size);
        to += got;
        offset += got;
        count -= (size_t)got;
    }
    return DYNO_OK;
}
