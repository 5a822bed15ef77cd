/* pickle_writer.c - a stack of open containers, and a memo of texts.
 *
 * Items go between a MARK and an APPENDS or SETITEMS, a thousand at a time as Python does: readers in
 * JavaScript hand a batch to one call, whose arguments are limited. */
#include "formats/pickle_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/name_table.h"

enum { PROTOCOL = 2, BATCH = 1000, DEEPEST = 16 };

typedef struct container {
    bool is_dict;
    int64_t values; /* so far; in a dict, keys are among them */
} container;

struct pickle_writer {
    text *out;
    container open[DEEPEST];
    int depth;
    int memo_count;
    name_table texts; /* -> memo */
    arena *strings;   /* of the table */
};

static void append_byte(pickle_writer *w, int byte) {
    char c = (char)byte;
    text_append_bytes(w->out, &c, 1);
}

static void append_little_endian(pickle_writer *w, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++)
        append_byte(w, (int)(number >> 8 * i & 0xff));
}

static int64_t values_in_batch(const container *c) { return c->is_dict ? 2 * BATCH : BATCH; }

static void end_batch(pickle_writer *w, const container *c) {
    append_byte(w, c->is_dict ? 'u' : 'e');
}

/* Before each value: a batch ends and the next begins. */
static void begin_value(pickle_writer *w) {
    if (!w->depth)
        return;
    container *c = &w->open[w->depth - 1];
    if (c->values % values_in_batch(c) == 0) {
        if (c->values)
            end_batch(w, c);
        append_byte(w, '(');
    }
    c->values++;
}

pickle_writer *pickle_writer_create(text *out) {
    pickle_writer *w = memory_allocate(1, sizeof *w);
    w->out = out;
    w->strings = arena_create();
    append_byte(w, 0x80);
    append_byte(w, PROTOCOL);
    return w;
}

void pickle_writer_finish(pickle_writer *w) {
    assert(w->depth == 0);
    append_byte(w, '.');
    name_table_release(&w->texts);
    arena_destroy(w->strings);
    free(w);
}

static void begin(pickle_writer *w, bool is_dict) {
    assert(w->depth < DEEPEST);
    begin_value(w);
    append_byte(w, is_dict ? '}' : ']');
    w->open[w->depth++] = (container){.is_dict = is_dict};
}

void pickle_begin_dict(pickle_writer *w) { begin(w, true); }
void pickle_begin_list(pickle_writer *w) { begin(w, false); }

void pickle_end(pickle_writer *w) {
    assert(w->depth > 0);
    const container *c = &w->open[--w->depth];
    assert(!c->is_dict || c->values % 2 == 0);
    if (c->values)
        end_batch(w, c);
}

int pickle_remember(pickle_writer *w) {
    int memo = w->memo_count++;
    append_byte(w, memo < 256 ? 'q' : 'r');
    append_little_endian(w, (uint64_t)memo, memo < 256 ? 1 : 4);
    return memo;
}

void pickle_add_again(pickle_writer *w, int remembered) {
    begin_value(w);
    append_byte(w, remembered < 256 ? 'h' : 'j');
    append_little_endian(w, (uint64_t)remembered, remembered < 256 ? 1 : 4);
}

void pickle_add_text(pickle_writer *w, const char *string) {
    int memo = name_table_find(&w->texts, string);
    if (memo >= 0) {
        pickle_add_again(w, memo);
        return;
    }
    size_t length = strlen(string);
    begin_value(w);
    append_byte(w, 'X');
    append_little_endian(w, length, 4);
    text_append_bytes(w->out, string, length);
    name_table_set(&w->texts, arena_copy_string(w->strings, string), pickle_remember(w));
}

/* In as few bytes as hold it. */
void pickle_add_integer(pickle_writer *w, int64_t number) {
    begin_value(w);
    if (number >= 0 && number <= UINT8_MAX) {
        append_byte(w, 'K');
        append_little_endian(w, (uint64_t)number, 1);
    } else if (number >= 0 && number <= UINT16_MAX) {
        append_byte(w, 'M');
        append_little_endian(w, (uint64_t)number, 2);
    } else if (number >= INT32_MIN && number <= INT32_MAX) {
        append_byte(w, 'J');
        append_little_endian(w, (uint64_t)number, 4);
    } else {
        append_byte(w, 0x8a);
        append_byte(w, sizeof number);
        append_little_endian(w, (uint64_t)number, sizeof number);
    }
}

void pickle_add_boolean(pickle_writer *w, bool is_true) {
    begin_value(w);
    append_byte(w, is_true ? 0x88 : 0x89);
}

void pickle_set_text(pickle_writer *w, const char *key, const char *string) {
    pickle_add_text(w, key);
    pickle_add_text(w, string);
}

void pickle_set_integer(pickle_writer *w, const char *key, int64_t number) {
    pickle_add_text(w, key);
    pickle_add_integer(w, number);
}

void pickle_set_boolean(pickle_writer *w, const char *key, bool is_true) {
    pickle_add_text(w, key);
    pickle_add_boolean(w, is_true);
}
