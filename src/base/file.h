/* file.h - reading whole files with a limit, and writing so that nothing is ever half-written.
 *
 * A file_writer writes to a temporary name beside the target; file_writer_commit flushes,
 * syncs and renames it, file_writer_abandon removes it. A disk that fills therefore leaves the
 * old file, or none. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Opens a regular file for reading; *size is its length in bytes. Anything else (a pipe, a device, a
 * socket, a directory) is refused without waiting: reading a pipe that nobody writes to would never
 * end. On failure *descriptor is -1. */
NODISCARD dyno_status file_open_regular(const char *path, int *descriptor, int64_t *size);

/* Reads a regular file whole. *data is NUL-terminated beyond *size and belongs to the caller
 * (free). Files over `limit` bytes are refused before anything is allocated. */
NODISCARD dyno_status file_read_all(const char *path, int64_t limit, char **data, size_t *size);

/* Appends to a regular file, which is created if it is not there, in one write. */
NODISCARD dyno_status file_append(const char *path, const void *bytes, size_t count);

typedef struct file_writer file_writer;

NODISCARD dyno_status file_writer_create(const char *path, file_writer **out);
NODISCARD dyno_status file_writer_append(file_writer *writer, const void *bytes, size_t count);
/* Brings everything appended so far to the disk, so that only the rename is left for commit:
 * for two files that must appear together. */
NODISCARD dyno_status file_writer_flush(file_writer *writer);
/* Takes the writer, whether it succeeds or not. */
NODISCARD dyno_status file_writer_commit(file_writer *writer);
/* Takes the writer; NULL is allowed. */
void file_writer_abandon(file_writer *writer);

/* The whole of it in one call. */
NODISCARD dyno_status file_write_all(const char *path, const void *bytes, size_t count);

/* Makes the directory and its parents, and proves that a file can be created in it, so that
 * hours of measuring are not lost to a typing error. */
NODISCARD dyno_status file_make_output_directory(const char *path);

#endif
