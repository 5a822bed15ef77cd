/* file.h - reading whole files with a limit, and writing so that nothing is ever half-written.
 *
 * A file_writer writes to a temporary name beside the target; file_writer_commit flushes,
 * syncs and renames it, file_writer_abandon removes it. A disk that fills therefore leaves the
 * old file, or none. Temporaries of processes that were killed are removed by the next writer of
 * the same target. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* Opens a regular file for reading; *size is its length in bytes. Anything else (a pipe, a device, a
 * socket, a directory) is refused without waiting: reading a pipe that nobody writes to would never
 * end. On failure *descriptor is -1. */
NODISCARD dyno_status file_open_regular(const char *path, int *descriptor, int64_t *size);
/* Reads `count` bytes, fewer only where the file ends; -1 with errno set. */
ssize_t file_read(int descriptor, char *to, size_t count);
/* Writes all of them; false with errno set. */
bool file_write(int descriptor, const char *from, size_t count);

/* Reads a regular file whole. *data is NUL-terminated beyond *size and belongs to the caller
 * (free). Files over `limit` bytes are refused before anything is allocated. */
NODISCARD dyno_status file_read_all(const char *path, int64_t limit, char **data, size_t *size);

/* The first line of a small text file, such as those of /sys, without its newline and cut to `bytes`;
 * false where there is none. */
bool file_read_line(const char *path, char *out, size_t bytes);

/* Whether there is anything of that name, a link that leads nowhere included. */
bool file_exists(const char *path);
/* Whether both names lead to one file, by links too, or would if they were written: writing one
 * would replace the other. */
bool file_is_same(const char *a, const char *b);

typedef struct file_writer file_writer;

/* Replaces what is there. */
NODISCARD dyno_status file_writer_create(const char *path, file_writer **out);
/* Proves that file_writer_create_as would succeed, so that hours of work are not lost to a typing error:
 * the directory is there, a file can be made in it (one is made and removed) and, with `is_new`, none
 * is there that would be replaced. Every verb asks this of its output files before it runs anything. */
NODISCARD dyno_status file_check_output(const char *path, bool is_new);
/* With `is_new` a file that exists, now or when this one is committed, is DYNO_INVALID; devices and
 * pipes are written to all the same. */
NODISCARD dyno_status file_writer_create_as(const char *path, bool is_new, file_writer **out);
NODISCARD dyno_status file_writer_append(file_writer *writer, const void *bytes, size_t count);
/* Appends bytes that were appended to another writer; DYNO_UNSUPPORTED where that one writes to a
 * device or pipe. */
NODISCARD dyno_status file_writer_append_from(file_writer *writer, file_writer *from,
                                              int64_t offset, int64_t count);
/* For who writes into it by other means, such as a compressor: everything appended so far is in the
 * file, and it is the writer that closes it. */
NODISCARD dyno_status file_writer_descriptor(file_writer *writer, int *out);
/* Brings everything appended so far to the disk, so that only the rename is left for commit:
 * for two files that must appear together. */
NODISCARD dyno_status file_writer_flush(file_writer *writer);
/* Takes the writer, whether it succeeds or not. */
NODISCARD dyno_status file_writer_commit(file_writer *writer);
/* The same for files that belong together: none is renamed before all are on the disk. */
NODISCARD dyno_status file_writer_commit_all(file_writer *const *writers, int count);
/* Takes the writer; NULL is allowed. */
void file_writer_abandon(file_writer *writer);

/* The whole of it in one call. */
NODISCARD dyno_status file_write_all(const char *path, const void *bytes, size_t count);

/* Makes the directory and its parents, and proves that a file can be created in it, so that
 * hours of measuring are not lost to a typing error. */
NODISCARD dyno_status file_make_output_directory(const char *path);

/* The first directory of `path` that file_make_output_directory would have to make; NULL: all are there, or
 * the path goes back behind it ("new/../old") and which ones would be made is not clear.
 * The caller frees it, or gives it to file_remove_directories, which removes `path` and those above it down
 * to `made`, where they are empty: for an output that there is none of. NULL is allowed. */
char *file_find_missing(const char *path);
void file_remove_directories(const char *path, char *made);

/* A directory that was made for what is not yet in it: file_remove_unfinished removes it, until
 * file_remove_made_directory says that it is kept or removes it. */
void file_add_made_directory(const char *path);
void file_remove_made_directory(const char *path, bool is_kept);

/* For a process that ends at once, from any thread: removes the temporaries of every writer and the
 * directories made for them. Other threads that write files then wait forever. */
void file_remove_unfinished(void);

#endif
