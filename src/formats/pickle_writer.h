/* pickle_writer.h - writes what Python's pickle.load reads: dicts, lists, texts, integers, booleans.
 *
 * Protocol 2 and no opcode that names anything of a program (GLOBAL, REDUCE): loading such a file runs
 * no code. Values are written in the order in which they are appended; a dict alternates keys, which
 * are texts, and values. */
#ifndef FORMATS_PICKLE_WRITER_H
#define FORMATS_PICKLE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

typedef struct pickle_writer pickle_writer;

/* Appends to `out`, which is borrowed. */
pickle_writer *pickle_writer_create(text *out);
/* Ends the pickle, whose one value must be complete, and frees the writer. */
void pickle_writer_finish(pickle_writer *w);

void pickle_begin_dict(pickle_writer *w);
void pickle_begin_list(pickle_writer *w);
/* Of the innermost dict or list. */
void pickle_end(pickle_writer *w);

/* A text that occurs often is stored once. It must be UTF-8. */
void pickle_add_text(pickle_writer *w, const char *string);
void pickle_add_integer(pickle_writer *w, int64_t number);
void pickle_add_boolean(pickle_writer *w, bool is_true);

/* A key and its value. */
void pickle_set_text(pickle_writer *w, const char *key, const char *string);
void pickle_set_integer(pickle_writer *w, const char *key, int64_t number);
void pickle_set_boolean(pickle_writer *w, const char *key, bool is_true);

/* Remembers the value that was completed last, to be written again in a few bytes; both places then
 * share one object. */
int pickle_remember(pickle_writer *w);
void pickle_add_again(pickle_writer *w, int remembered);

#endif
