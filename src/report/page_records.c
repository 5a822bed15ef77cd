/* page_records.c - how much of each record is in the page.
 *
 * A record is there in full, then with the breakdowns that viewers use, then with fewer launches, then
 * without breakdowns, and then not at all. Whatever is largest is made smaller until all fit. */
#include "report/page_records.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "measure/keys.h"
#include "measure/results_json.h"
#include "report/launches.h"

typedef enum record_extent { ALL, VIEWED, FEWER_LAUNCHES, SAMPLES, NOTHING } record_extent;

typedef struct page_record {
    const results *of; /* NULL: there is none */
    json_t *run;
    record_extent extent;
    text shown;
} page_record;

/* Without "<": no text in it can end the script element or begin another. */
static void append_json(const json_t *value, text *out) {
    char *dump = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY);
    for (const char *p = dump ? dump : "null"; *p;) {
        size_t plain = strcspn(p, "<");
        text_append_bytes(out, p, plain);
        p += plain;
        if (*p) {
            text_append(out, "\\u003c");
            p++;
        }
    }
    free(dump);
}

static int64_t count_cells_with(const results *run, const char *breakdown) {
    int64_t count = 0;
    for (int64_t i = 0; i < run->cell_count; i++)
        count += cell_find_breakdown(run->cells[i], breakdown) != NULL;
    return count;
}

/* Launches are another object than the rows of a breakdown: "launches" instead of "records". */
static void set_launches(page_record *record, size_t room) {
    const results *of = record->of;
    int64_t count = count_cells_with(of, BREAKDOWN_RECORDS);
    const json_t *cells = json_object_get(record->run, "cells");
    for (int64_t i = 0; count && i < of->cell_count; i++) {
        const results_breakdown *rows = cell_find_breakdown(of->cells[i], BREAKDOWN_RECORDS);
        json_t *packed = rows ? launches_to_json(rows, room / (size_t)count) : NULL;
        json_t *cell = json_array_get(cells, (size_t)i);
        json_object_del(json_object_get(cell, "breakdowns"), BREAKDOWN_RECORDS);
        if (packed)
            json_object_set_new(cell, "launches", packed);
    }
}

static void drop_breakdowns(json_t *run, bool keeps_viewed) {
    static const char *const viewed[] = {BREAKDOWN_TIMELINE, BREAKDOWN_ALLOCATIONS,
                                         BREAKDOWN_BY_SCOPE, BREAKDOWN_SCOPES};
    size_t i;
    json_t *cell;
    json_array_foreach(json_object_get(run, "cells"), i, cell) {
        json_t *all = json_object_get(cell, "breakdowns"), *kept = json_object();
        for (size_t j = 0; keeps_viewed && j < sizeof viewed / sizeof *viewed; j++)
            if (json_object_get(all, viewed[j]))
                json_object_set(kept, viewed[j], json_object_get(all, viewed[j]));
        json_object_set_new(cell, "breakdowns", kept);
        if (!keeps_viewed)
            json_object_del(cell, "launches");
    }
}

static void show(page_record *record) {
    text_release(&record->shown);
    record->shown = (text){0};
    append_json(record->run, &record->shown);
}

static page_record make(const results *of, size_t room) {
    page_record record = {.of = of, .extent = of ? ALL : NOTHING};
    if (of) {
        record.run = results_to_json(of);
        set_launches(&record, room / 2);
    }
    show(&record);
    return record;
}

static void shrink(page_record *record, size_t room) {
    record->extent++;
    if (record->extent == VIEWED || record->extent == SAMPLES) {
        drop_breakdowns(record->run, record->extent == VIEWED);
    } else if (record->extent == FEWER_LAUNCHES) {
        set_launches(record, room / 8);
    } else {
        json_decref(record->run);
        record->run = NULL;
    }
    show(record);
}

/* NULL when nothing can be made smaller. */
static page_record *largest(page_record *records, int count) {
    page_record *found = NULL;
    for (int i = 0; i < count; i++)
        if (records[i].extent != NOTHING &&
            (!found || records[i].shown.length > found->shown.length))
            found = &records[i];
    return found;
}

static size_t bytes_of(const page_record *records, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += records[i].shown.length;
    return bytes;
}

void page_append_records(const study *s, size_t room, text *out) {
    page_record *records = memory_allocate((size_t)s->count + 1, sizeof *records), *large;
    bool is_whole = true;
    for (int i = 0; i < s->count; i++)
        records[i] = make(s->sections[i].run, room);
    while (bytes_of(records, s->count) > room && (large = largest(records, s->count)))
        shrink(large, room);
    text_append(out, "<script type=\"application/json\" id=\"records\">[");
    for (int i = 0; i < s->count; i++) {
        text_append(out, i ? ",\n" : "");
        text_append(out, text_string(&records[i].shown));
        is_whole = is_whole && (!records[i].of || records[i].extent == ALL);
        json_decref(records[i].run);
        text_release(&records[i].shown);
    }
    text_append(out, "]</script>\n");
    if (!is_whole)
        text_append(out,
                    "<p class=\"note\">To keep this page small, some records in it lack tables; "
                    "run.json has all.</p>");
    free(records);
}
