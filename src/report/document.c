#include "report/document.h"

#include <stdlib.h>

#include "base/memory.h"

report_document *document_create(const results *run) {
    report_document *document = memory_allocate(1, sizeof *document);
    document->run = run;
    document->memory = arena_create();
    return document;
}

void document_destroy(report_document *document) {
    if (!document)
        return;
    for (int64_t i = 0; i < document->count; i++)
        if (document->blocks[i].kind == BLOCK_TABLE)
            table_destroy(document->blocks[i].table);
    free(document->blocks);
    arena_destroy(document->memory);
    free(document);
}

static void add_block(report_document *document, document_block block) {
    MEMORY_GROW(document->blocks, document->count, document->capacity);
    document->blocks[document->count++] = block;
}

void document_add_table(report_document *document, report_table *table) {
    add_block(document, (document_block){.kind = BLOCK_TABLE, .table = table});
}

double *document_add_curve(report_document *document, const char *title, const char *unit,
                           int64_t count, int64_t warmup) {
    document_curve curve = {
        arena_copy_string(document->memory, title), arena_copy_string(document->memory, unit),
        arena_allocate(document->memory, (size_t)count, sizeof(double)), count, warmup};
    add_block(document, (document_block){.kind = BLOCK_CURVE, .curve = curve});
    return curve.values;
}

plot_bar *document_add_bars(report_document *document, const char *unit, int64_t count) {
    document_bars bars = {arena_copy_string(document->memory, unit),
                          arena_allocate(document->memory, (size_t)count, sizeof(plot_bar)), count};
    add_block(document, (document_block){.kind = BLOCK_BARS, .bars = bars});
    return bars.bars;
}

document_areas *document_add_areas(report_document *document, const char *title, const char *unit,
                                   int area_count, int64_t count) {
    document_areas areas = {
        .title = arena_copy_string(document->memory, title),
        .unit = arena_copy_string(document->memory, unit),
        .areas = arena_allocate(document->memory, (size_t)area_count, sizeof *areas.areas),
        .area_count = area_count,
        .count = count,
        .marks = arena_allocate(document->memory, (size_t)count + 1, 1)};
    for (int i = 0; i < area_count; i++)
        areas.areas[i].values =
            arena_allocate(document->memory, (size_t)count, sizeof *areas.areas[i].values);
    add_block(document, (document_block){.kind = BLOCK_AREAS, .areas = areas});
    return &document->blocks[document->count - 1].areas;
}

void document_add_note(report_document *document, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *note = arena_format_list(document->memory, format, arguments);
    va_end(arguments);
    add_block(document, (document_block){.kind = BLOCK_NOTE, .note = note});
}
