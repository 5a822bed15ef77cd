/* byte_source.c - read, or the functions of zlib, which are given a duplicate of the descriptor that
 * they close. */
#define _GNU_SOURCE
#include "base/byte_source.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/gzip.h"
#include "base/memory.h"

enum { UNPACK_BUFFER_BYTES = 256 << 10, ZLIB_ERRNO = -1 };

struct byte_source {
    char *path;
    int descriptor;
    int64_t size;
    void *packed; /* NULL: the bytes are as they stand */
};

static dyno_status open_packed(byte_source *source) {
    if (gzip_load()->why)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s' is compressed and %s; install it (Debian: zlib1g) or unpack the "
                         "file with gunzip",
                         source->path, gzip_load()->why);
    int copy = dup(source->descriptor);
    source->packed = copy < 0 ? NULL : gzip_load()->gzdopen(copy, "rb");
    if (!source->packed) {
        if (copy >= 0)
            close(copy);
        return dyno_fail(DYNO_IO, "cannot unpack '%s': no memory or file handles", source->path);
    }
    gzip_load()->gzbuffer(source->packed, UNPACK_BUFFER_BYTES);
    return DYNO_OK;
}

dyno_status byte_source_open(const char *path, byte_source **out) {
    int descriptor;
    int64_t size;
    *out = NULL;
    RETURN_IF_FAILED(file_open_regular(path, &descriptor, &size));
    byte_source *source = memory_allocate(1, sizeof *source);
    *source = (byte_source){memory_copy_string(path), descriptor, size, NULL};
    unsigned char magic[2] = {0};
    bool is_packed = pread(descriptor, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    dyno_status status = is_packed ? open_packed(source) : DYNO_OK;
    if (status != DYNO_OK) {
        byte_source_close(source);
        return status;
    }
    *out = source;
    return DYNO_OK;
}

void byte_source_close(byte_source *source) {
    if (!source)
        return;
    if (source->packed)
        gzip_load()->gzclose(source->packed);
    close(source->descriptor);
    free(source->path);
    free(source);
}

static dyno_status read_packed(byte_source *source, char *to, size_t count, size_t *got) {
    int read = gzip_load()->gzread(source->packed, to, (unsigned)count), number = 0;
    const char *message = gzip_load()->gzerror(source->packed, &number);
    if (read < 0 && number == ZLIB_ERRNO)
        return dyno_fail(DYNO_IO, "reading '%s': %s", source->path, strerror(errno));
    /* A file that is cut off gives what there is first, with the error set already. */
    if (read < 0 || (read == 0 && number != 0))
        return dyno_fail(DYNO_CORRUPT, "'%s' is a damaged gzip file: %s", source->path,
                         message && *message ? message : "it ends too early");
    *got = (size_t)read;
    return DYNO_OK;
}

dyno_status byte_source_read(byte_source *source, char *to, size_t count, size_t *got) {
    *got = 0;
    count = count > INT_MAX ? INT_MAX : count;
    if (source->packed)
        return read_packed(source, to, count, got);
    ssize_t read = file_read(source->descriptor, to, count);
    if (read < 0)
        return dyno_fail(DYNO_IO, "reading '%s': %s", source->path, strerror(errno));
    *got = (size_t)read;
    return DYNO_OK;
}

dyno_status byte_source_rewind(byte_source *source) {
    bool is_back = source->packed ? gzip_load()->gzrewind(source->packed) == 0
                                  : lseek(source->descriptor, 0, SEEK_SET) == 0;
    return is_back ? DYNO_OK
                   : dyno_fail(DYNO_IO, "reading '%s' again: %s", source->path, strerror(errno));
}

/* The duplicate shares its position with our descriptor. */
int64_t byte_source_position(const byte_source *source) {
    off_t at = lseek(source->descriptor, 0, SEEK_CUR);
    return at < 0 ? 0 : at;
}

int64_t byte_source_size(const byte_source *source) { return source->size; }
