/* input_file.h - a regular file read at offsets.
 *
 * pread and not mmap: a file that shrinks while it is mapped kills the process with SIGBUS,
 * here it is an error with a message. Safe to read from several threads. */
#ifndef FORMATS_INPUT_FILE_H
#define FORMATS_INPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct input_file {
    int descriptor;
    int64_t size;
    char *path;
} input_file;

/* On failure there is nothing to close. */
NODISCARD dyno_status input_file_open(const char *path, input_file *out);
void input_file_close(input_file *file);
/* All of `count` bytes or a failure. */
NODISCARD dyno_status input_file_read(const input_file *file, int64_t offset, void *destination,
                                      size_t count);

#endif
