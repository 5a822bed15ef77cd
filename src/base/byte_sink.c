#define _GNU_SOURCE
#include "base/byte_sink.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/gzip.h"
#include "base/memory.h"

struct byte_sink {
    char *path;
    file_writer *writer;
    void *packed; /* writes into a duplicate of the writer's descriptor; NULL: bytes as they are */
};

static bool is_packed_name(const char *path) {
    size_t length = strlen(path);
    return length > 3 && strcasecmp(path + length - 3, ".gz") == 0;
}

static dyno_status check_compression(const char *path) {
    if (is_packed_name(path) && gzip_load()->why)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "cannot compress '%s': %s; install it (Debian: zlib1g) or give a name "
                         "without .gz",
                         path, gzip_load()->why);
    return DYNO_OK;
}

dyno_status byte_sink_check(const char *path, bool is_new) {
    RETURN_IF_FAILED(check_compression(path));
    return file_check_output(path, is_new);
}

static dyno_status open_packed(byte_sink *sink) {
    int descriptor;
    RETURN_IF_FAILED(file_writer_descriptor(sink->writer, &descriptor));
    int copy = dup(descriptor);
    sink->packed = copy < 0 ? NULL : gzip_load()->gzdopen(copy, "wb");
    if (sink->packed)
        return DYNO_OK;
    if (copy >= 0)
        close(copy);
    return dyno_fail(DYNO_IO, "cannot compress '%s': no memory or file handles", sink->path);
}

dyno_status byte_sink_create(const char *path, bool is_new, byte_sink **out) {
    *out = NULL;
    RETURN_IF_FAILED(check_compression(path));
    file_writer *writer;
    RETURN_IF_FAILED(file_writer_create_as(path, is_new, &writer));
    byte_sink *sink = memory_allocate(1, sizeof *sink);
    *sink = (byte_sink){memory_copy_string(path), writer, NULL};
    dyno_status status = is_packed_name(path) ? open_packed(sink) : DYNO_OK;
    if (status != DYNO_OK) {
        byte_sink_abandon(sink);
        return status;
    }
    *out = sink;
    return DYNO_OK;
}

static dyno_status fail_packed(const byte_sink *sink) {
    int number = 0;
    const char *message = gzip_load()->gzerror(sink->packed, &number);
    return dyno_fail(DYNO_IO, "compressing '%s': %s", sink->path,
                     errno                 ? strerror(errno)
                     : message && *message ? message
                                           : "zlib failed");
}

dyno_status byte_sink_append(byte_sink *sink, const void *bytes, size_t count) {
    if (!sink->packed)
        return file_writer_append(sink->writer, bytes, count);
    for (const char *at = bytes; count > 0;) {
        unsigned piece = count < INT_MAX ? (unsigned)count : INT_MAX;
        errno = 0;
        if (gzip_load()->gzwrite(sink->packed, at, piece) != (int)piece)
            return fail_packed(sink);
        at += piece;
        count -= piece;
    }
    return DYNO_OK;
}

/* The last bytes are written when zlib closes its file. */
static dyno_status close_packed(byte_sink *sink) {
    errno = 0;
    int failed = sink->packed ? gzip_load()->gzclose(sink->packed) : 0;
    sink->packed = NULL;
    return failed ? dyno_fail(DYNO_IO, "compressing '%s': %s", sink->path,
                              errno ? strerror(errno) : "zlib failed")
                  : DYNO_OK;
}

dyno_status byte_sink_commit(byte_sink *sink) {
    dyno_status status = close_packed(sink);
    if (status == DYNO_OK) {
        status = file_writer_commit(sink->writer);
        sink->writer = NULL;
    }
    byte_sink_abandon(sink);
    return status;
}

void byte_sink_abandon(byte_sink *sink) {
    if (!sink)
        return;
    if (sink->packed)
        (void)gzip_load()->gzclose(sink->packed);
    file_writer_abandon(sink->writer);
    free(sink->path);
    free(sink);
}
