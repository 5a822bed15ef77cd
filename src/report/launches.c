#include "report/launches.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/name_table.h"
#include "base/text.h"
#include "measure/keys.h"

/* Streams beyond the last lane share it. Times beyond the limit would not be exact in a script. */
enum { MOST_LANES = 32, NO_COLUMN = -1, NAME_MARKS = 16 };
static const int64_t LATEST_NS = INT64_C(1) << 52;

typedef struct launch {
    int64_t step, stream, begin, duration, row;
} launch;

typedef struct lane {
    int64_t stream, count, end, kind;
    text bytes;
} lane;

typedef struct packer {
    const results_breakdown *records;
    int step, stream, begin, duration, alive; /* columns */
    lane lanes[MOST_LANES];
    int lane_count;
    name_table kinds;
    text *keys; /* of `kinds`, which borrows them */
    int kind_count, kind_capacity;
    json_t *names, *steps;
    size_t name_bytes;
} packer;

static int column_of(const results_breakdown *b, const char *name) {
    for (int i = 0; i < b->column_count; i++)
        if (strcmp(b->columns[i].name, name) == 0)
            return i;
    return NO_COLUMN;
}

/* 0 for what is no number, or none that a record can have. */
static int64_t value_of(const results_row *row, int column) {
    double value = results_number(&row->values[column]);
    return value > 0 && value < (double)LATEST_NS ? (int64_t)value : 0;
}

static int compare_launches(const void *a, const void *b) {
    const launch *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static launch *sorted_launches(const packer *p) {
    const results_breakdown *b = p->records;
    launch *all = memory_allocate((size_t)b->row_count, sizeof *all);
    for (int64_t i = 0; i < b->row_count; i++) {
        const results_row *row = &b->rows[i];
        all[i] = (launch){value_of(row, p->step), value_of(row, p->stream), value_of(row, p->begin),
                          value_of(row, p->duration), i};
    }
    qsort(all, (size_t)b->row_count, sizeof *all, compare_launches);
    return all;
}

static lane *lane_of(packer *p, int64_t stream) {
    for (int i = 0; i < p->lane_count; i++)
        if (p->lanes[i].stream == stream)
            return &p->lanes[i];
    if (p->lane_count == MOST_LANES)
        return &p->lanes[MOST_LANES - 1];
    p->lanes[p->lane_count] = (lane){.stream = stream, .kind = -1};
    return &p->lanes[p->lane_count++];
}

/* The number of the row's names, which are added where they are new. */
static int kind_of(packer *p, const results_row *row) {
    const char *names[] = {"", "", ""};
    text key = {0};
    for (int i = 0; i < 3; i++) {
        if (i < p->records->key_count)
            names[i] = row->keys[i];
        text_append(&key, names[i]);
        text_append(&key, "\n");
    }
    if (p->alive != NO_COLUMN)
        text_format(&key, "%lld", (long long)value_of(row, p->alive));
    int known = name_table_find(&p->kinds, key.data);
    if (known >= 0) {
        text_release(&key);
        return known;
    }
    MEMORY_GROW(p->keys, p->kind_count, p->kind_capacity);
    p->keys[p->kind_count] = key;
    p->name_bytes += key.length + NAME_MARKS;
    name_table_set(&p->kinds, key.data, p->kind_count);
    json_t *entry = json_pack("[s, s, s]", names[0], names[1], names[2]);
    if (p->alive != NO_COLUMN)
        json_array_append_new(entry, json_integer(value_of(row, p->alive)));
    json_array_append_new(p->names, entry);
    return p->kind_count++;
}

static void append_varint(text *out, uint64_t value) {
    for (; value >= 128; value >>= 7)
        text_append_bytes(out, (const char[]){(char)(value | 128)}, 1);
    text_append_bytes(out, (const char[]){(char)value}, 1);
}

static void append_zigzag(text *out, int64_t value) {
    append_varint(out, value < 0 ? ~((uint64_t)value << 1) : (uint64_t)value << 1);
}

static void add_launch(packer *p, const launch *l, int64_t begin) {
    lane *to = lane_of(p, l->stream);
    int kind = kind_of(p, &p->records->rows[l->row]);
    append_zigzag(&to->bytes, kind - to->kind - 1);
    append_zigzag(&to->bytes, begin - to->end);
    append_varint(&to->bytes, (uint64_t)l->duration);
    to->kind = kind;
    to->end = begin + l->duration;
    to->count++;
}

static size_t bytes_so_far(const packer *p) {
    size_t bytes = 0;
    for (int i = 0; i < p->lane_count; i++)
        bytes += p->lanes[i].bytes.length;
    return bytes / 3 * 4 + p->name_bytes;
}

/* How many launches were added: until the room is full, or times are beyond reason. */
static int64_t add_launches(packer *p, const launch *all, size_t most_bytes) {
    int64_t offset = 0, count = p->records->row_count, i = 0;
    while (i < count) {
        int64_t step = all[i].step, end = offset;
        json_array_append_new(p->steps, json_pack("[I, I]", (json_int_t)step, (json_int_t)offset));
        for (; i < count && all[i].step == step; i++) {
            int64_t begin = offset + all[i].begin, its_end = begin + all[i].duration;
            if (its_end > LATEST_NS || bytes_so_far(p) > most_bytes)
                return i;
            add_launch(p, &all[i], begin);
            end = its_end > end ? its_end : end;
        }
        offset = end;
    }
    return i;
}

static json_t *to_base64(const text *bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = (const unsigned char *)text_string(bytes);
    size_t length = 0;
    char *out = memory_allocate(bytes->length / 3 * 4 + 5, 1);
    for (size_t i = 0; i < bytes->length; i += 3) {
        size_t left = bytes->length - i;
        uint32_t group = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                         (left > 2 ? in[i + 2] : 0);
        for (int j = 0; j < 4; j++)
            out[length++] = (size_t)j <= left ? digits[group >> (18 - 6 * j) & 63] : '=';
    }
    json_t *made = json_stringn(out, length);
    free(out);
    return made;
}

static json_t *finish(packer *p, int64_t kept) {
    json_t *lanes = json_array();
    for (int i = 0; i < p->lane_count; i++) {
        lane *l = &p->lanes[i];
        json_array_append_new(lanes,
                              json_pack("{s:I, s:I, s:o}", "stream", (json_int_t)l->stream, "count",
                                        (json_int_t)l->count, "data", to_base64(&l->bytes)));
        text_release(&l->bytes);
    }
    for (int i = 0; i < p->kind_count; i++)
        text_release(&p->keys[i]);
    free(p->keys);
    name_table_release(&p->kinds);
    return json_pack("{s:o, s:o, s:o, s:I, s:I}", "names", p->names, "lanes", lanes, "steps",
                     p->steps, "kept", (json_int_t)kept, "all", (json_int_t)p->records->row_count);
}

json_t *launches_to_json(const results_breakdown *records, size_t most_bytes) {
    packer p = {.records = records,
                .step = column_of(records, COLUMN_STEP),
                .stream = column_of(records, COLUMN_STREAM),
                .begin = column_of(records, COLUMN_BEGIN),
                .duration = column_of(records, COLUMN_DURATION),
                .alive = column_of(records, COLUMN_ALIVE)};
    if (p.step < 0 || p.stream < 0 || p.begin < 0 || p.duration < 0 || !records->row_count)
        return NULL;
    p.names = json_array();
    p.steps = json_array();
    launch *all = sorted_launches(&p);
    int64_t kept = add_launches(&p, all, most_bytes);
    free(all);
    return finish(&p, kept);
}
