/* safetensors.h - the safetensors file format, validated when read and written atomically.
 *
 *   8 bytes: N, little-endian | N bytes: JSON header | tensors, back to back, to the end
 *
 * A file is opened only if its header describes the rest of the file exactly: known types,
 * sizes that multiply out, no overlap, no hole, nothing after the end. Every entry of an open file
 * may therefore be trusted. */
#ifndef FORMATS_SAFETENSORS_H
#define FORMATS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

/* What the format allows. */
#define SAFETENSORS_MAX_HEADER_BYTES ((int64_t)100000000)

typedef struct safetensors_entry {
    const char *name; /* belongs to the header */
    dtype type;
    shape shape;    /* dimensions may be 0 */
    int64_t offset; /* of the first byte, from the beginning of the file */
    int64_t bytes;
} safetensors_entry;

/* The contents of a header. Zero-initialised or filled by safetensors_parse_header. */
typedef struct safetensors_header {
    int count;
    safetensors_entry *entries; /* in the order of the data */
    int *by_name;               /* indices into entries, sorted by name */
    json_t *root;               /* holds the names */
} safetensors_header;

/* `bytes` are the first `size` of a file of `file_size` bytes, at least up to the end of the
 * header. `what` names the file in messages. On failure *out is empty. */
NODISCARD dyno_status safetensors_parse_header(const void *bytes, size_t size, int64_t file_size,
                                               const char *what, safetensors_header *out);
void safetensors_header_release(safetensors_header *header);

typedef struct safetensors_file safetensors_file;

/* On success *out belongs to the caller; on failure it is NULL. */
NODISCARD dyno_status safetensors_open(const char *path, safetensors_file **out);
void safetensors_close(safetensors_file *file);

/* Entries in the order of the data; they live as long as the file is open. */
int safetensors_count(const safetensors_file *file);
const safetensors_entry *safetensors_at(const safetensors_file *file, int index);
/* NULL when there is none. */
const safetensors_entry *safetensors_find(const safetensors_file *file, const char *name);
/* A string of __metadata__, NULL when there is none. */
const char *safetensors_metadata(const safetensors_file *file, const char *key);

/* The tensor's bytes as they are. Safe to call from several threads. */
NODISCARD dyno_status safetensors_read(const safetensors_file *file, const safetensors_entry *entry,
                                       void *destination);
/* Converted from any float type; others fail with DYNO_UNSUPPORTED. */
NODISCARD dyno_status safetensors_read_f32(const safetensors_file *file,
                                           const safetensors_entry *entry, float *destination);
NODISCARD dyno_status safetensors_read_f64(const safetensors_file *file,
                                           const safetensors_entry *entry, double *destination);

/* A tensor to be written. Declaring wider types first keeps all of them aligned. */
typedef struct safetensors_tensor {
    const char *name;
    dtype type;
    shape shape;
} safetensors_tensor;

typedef struct safetensors_writer safetensors_writer;

/* Writes the header for `count` tensors; `metadata` is an object of strings or NULL. The file
 * appears under its name when it is committed, whole, or never. */
NODISCARD dyno_status safetensors_writer_create(const char *path, const safetensors_tensor *tensors,
                                                int count, const json_t *metadata,
                                                safetensors_writer **out);
/* The same; with `is_new` a file that exists is DYNO_INVALID (base/file.h). */
NODISCARD dyno_status safetensors_writer_create_as(const char *path,
                                                   const safetensors_tensor *tensors, int count,
                                                   const json_t *metadata, bool is_new,
                                                   safetensors_writer **out);
/* Other tensors and metadata than were declared, where a file ends earlier than it was meant to.
 * The data given so far stays and is the first of theirs; it is copied once. On failure the writer
 * is as it was. */
NODISCARD dyno_status safetensors_writer_redeclare(safetensors_writer *writer,
                                                   const safetensors_tensor *tensors, int count,
                                                   const json_t *metadata);
/* The next bytes of the data, in the order declared, in pieces of any size. */
NODISCARD dyno_status safetensors_writer_append(safetensors_writer *writer, const void *bytes,
                                                size_t count);
/* Brings what was appended to the disk, so that commit has only the rename left to do. */
NODISCARD dyno_status safetensors_writer_flush(safetensors_writer *writer);
/* Takes the writer, whether it succeeds or not, and leaves the file for file_writer_commit_all.
 * Fails when bytes are missing. */
NODISCARD dyno_status safetensors_writer_release(safetensors_writer *writer, file_writer **out);
/* Takes the writer, whether it succeeds or not. Fails when bytes are missing. */
NODISCARD dyno_status safetensors_writer_commit(safetensors_writer *writer);
/* Takes the writer; NULL is allowed. */
void safetensors_writer_abandon(safetensors_writer *writer);

#endif
