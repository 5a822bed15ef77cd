/* byte_source.c - read, and inflate where the file is gzip.
 *
 * A gzip file is one member or several behind one another, which are one stream. What is behind them and
 * is none is an error, as it would be behind the same bytes in plain. */
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

enum { UNPACK_BUFFER_BYTES = 256 << 10, GZIP_FIRST_BYTE = 0x1f };

typedef struct unpacker {
    gzip_stream stream;
    bool is_in_member; /* else between two of them, or at the begin or end */
    unsigned char bytes[UNPACK_BUFFER_BYTES];
} unpacker;

struct byte_source {
    char *path;
    int descriptor;
    int64_t size;
    unpacker *packed; /* NULL: the bytes are as they stand */
};

static dyno_status open_packed(byte_source *source) {
    if (gzip_load()->why)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s' is compressed and %s; install it (Debian: zlib1g) or unpack the "
                         "file with gunzip",
                         source->path, gzip_load()->why);
    unpacker *made = memory_allocate(1, sizeof *made);
    if (gzip_load()->inflateInit2_(&made->stream, GZIP_LARGEST_WINDOW, "1", sizeof made->stream) !=
        GZIP_OK) {
        free(made);
        return dyno_fail(DYNO_IO,
                         "cannot unpack '%s': zlib has no memory or another interface than that of "
                         "version 1; unpack the file with gunzip",
                         source->path);
    }
    source->packed = made;
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
        gzip_load()->inflateEnd(&source->packed->stream);
    free(source->packed);
    close(source->descriptor);
    free(source->path);
    free(source);
}

static dyno_status fail_reading(const byte_source *source) {
    return dyno_fail(DYNO_IO, "reading '%s': %s", source->path, strerror(errno));
}

static dyno_status fail_unpacking(const byte_source *source, const char *why) {
    return dyno_fail(DYNO_CORRUPT, "'%s' is a damaged gzip file: %s", source->path,
                     why ? why : "its bytes cannot be unpacked");
}

static dyno_status fill_buffer(byte_source *source) {
    unpacker *p = source->packed;
    ssize_t read = file_read(source->descriptor, (char *)p->bytes, sizeof p->bytes);
    if (read < 0)
        return fail_reading(source);
    p->stream.next_in = p->bytes;
    p->stream.available_in = (unsigned)read;
    return DYNO_OK;
}

/* At the first byte of what should be a member. */
static dyno_status begin_member(byte_source *source) {
    unpacker *p = source->packed;
    if (p->stream.next_in[0] != GZIP_FIRST_BYTE)
        return fail_unpacking(source, "there are bytes behind its end that are not gzip");
    gzip_load()->inflateReset(&p->stream);
    p->is_in_member = true;
    return DYNO_OK;
}

static dyno_status read_packed(byte_source *source, char *to, size_t count, size_t *got) {
    unpacker *p = source->packed;
    p->stream.next_out = (unsigned char *)to;
    p->stream.available_out = (unsigned)count;
    while (p->stream.available_out) {
        if (!p->stream.available_in)
            RETURN_IF_FAILED(fill_buffer(source));
        if (!p->stream.available_in && p->is_in_member)
            return fail_unpacking(source, "it ends too early");
        if (!p->stream.available_in)
            break;
        if (!p->is_in_member)
            RETURN_IF_FAILED(begin_member(source));
        int code = gzip_load()->inflate(&p->stream, GZIP_NO_FLUSH);
        if (code != GZIP_OK && code != GZIP_MEMBER_END)
            return fail_unpacking(source, p->stream.message);
        p->is_in_member = code != GZIP_MEMBER_END;
    }
    *got = count - p->stream.available_out;
    return DYNO_OK;
}

dyno_status byte_source_read(byte_source *source, char *to, size_t count, size_t *got) {
    *got = 0;
    count = count > INT_MAX ? INT_MAX : count;
    if (source->packed)
        return read_packed(source, to, count, got);
    ssize_t read = file_read(source->descriptor, to, count);
    if (read < 0)
        return fail_reading(source);
    *got = (size_t)read;
    return DYNO_OK;
}

dyno_status byte_source_rewind(byte_source *source) {
    if (lseek(source->descriptor, 0, SEEK_SET) != 0)
        return dyno_fail(DYNO_IO, "reading '%s' again: %s", source->path, strerror(errno));
    if (source->packed) {
        source->packed->is_in_member = false;
        source->packed->stream.available_in = 0;
    }
    return DYNO_OK;
}

int64_t byte_source_position(const byte_source *source) {
    off_t at = lseek(source->descriptor, 0, SEEK_CUR);
    return at < 0 ? 0 : at;
}

int64_t byte_source_size(const byte_source *source) { return source->size; }
