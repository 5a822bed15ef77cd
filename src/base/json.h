/* json.h - jansson with our messages: parsing untrusted files, writing files atomically. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/status.h"
#include "base/text.h"

/* From now on jansson's memory comes from base/memory.h: where there is none the process ends,
 * instead of writing values that lack something. A setting of the whole process, so only for a
 * program of our own. */
void json_use_memory(void);

/* Parses `size` bytes; duplicate keys are an error. `what` names the source in messages.
 * *out belongs to the caller (json_decref). */
NODISCARD dyno_status json_parse(const char *bytes, size_t size, const char *what, json_t **out);

NODISCARD dyno_status json_read_file(const char *path, json_t **out);

/* Indented, keys in insertion order; the file is replaced atomically. */
NODISCARD dyno_status json_write_file(const char *path, const json_t *value);

/* Appends the string in quotes, with escapes. What is not UTF-8 in it becomes '?'. */
void json_append_string(text *out, const char *string);

#endif
