/* name_table.c - open addressing with linear probing, at most half full. */
#include "base/name_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Eight characters at a time: names of parameters are long. The high bits are folded down, because
 * only low ones choose the entry. */
static size_t hash_of(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u, word;
    for (size_t left = strlen(name); left > 0;) {
        size_t taken = left < sizeof word ? left : sizeof word;
        word = 0;
        memcpy(&word, name, taken);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
        name += taken;
        left -= taken;
    }
    return (size_t)hash;
}

/* The entry of that name, or the empty one where it belongs. The capacity is a power of two. */
static name_entry *entry_of(const name_table *table, const char *name) {
    size_t mask = table->capacity - 1, i = hash_of(name) & mask;
    while (table->entries[i].name && strcmp(table->entries[i].name, name) != 0)
        i = (i + 1) & mask;
    return &table->entries[i];
}

static void grow(name_table *table) {
    name_table larger = {.count = table->count,
                         .capacity = table->capacity ? table->capacity * 2 : 64};
    larger.entries = memory_allocate(larger.capacity, sizeof *larger.entries);
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].name)
            *entry_of(&larger, table->entries[i].name) = table->entries[i];
    free(table->entries);
    *table = larger;
}

int name_table_find(const name_table *table, const char *name) {
    const name_entry *found = table->capacity ? entry_of(table, name) : NULL;
    return found && found->name ? found->number : -1;
}

void name_table_set(name_table *table, const char *name, int number) {
    if (2 * (table->count + 1) > table->capacity)
        grow(table);
    name_entry *entry = entry_of(table, name);
    if (!entry->name) {
        entry->name = name;
        table->count++;
    }
    entry->number = number;
}

void name_table_release(name_table *table) {
    free(table->entries);
    *table = (name_table){0};
}
