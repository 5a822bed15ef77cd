#include "runtime/tuning_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/cache.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"

typedef struct choice {
    char *key, *value;
} choice;

struct tuning_cache {
    char *name; /* of the file; NULL: nothing can be written */
    bool ends_within_line;
    choice *choices;
    int count, capacity;
};

static choice *find(const tuning_cache *cache, const char *key) {
    for (int i = 0; i < cache->count; i++)
        if (strcmp(cache->choices[i].key, key) == 0)
            return &cache->choices[i];
    return NULL;
}

static void keep(tuning_cache *cache, const char *key, const char *chosen) {
    choice *known = find(cache, key);
    if (known) {
        free(known->value);
        known->value = memory_copy_string(chosen);
        return;
    }
    MEMORY_GROW(cache->choices, cache->count, cache->capacity);
    cache->choices[cache->count++] = (choice){memory_copy_string(key), memory_copy_string(chosen)};
}

/* Parses one line in place; false when it is damaged. */
static bool read_line(tuning_cache *cache, char *line) {
    char *rest = strchr(line, ' ');
    if (!rest)
        return false;
    *rest++ = '\0';
    if (strcmp(line, hash_text(rest, strlen(rest)).text) != 0)
        return false;
    char *chosen = strchr(rest, ' ');
    if (!chosen)
        return false;
    *chosen++ = '\0';
    keep(cache, rest, chosen);
    return true;
}

tuning_cache *tuning_cache_create(const char *file) {
    enum { MOST_BYTES = 64 << 20 };
    tuning_cache *cache = memory_allocate(1, sizeof *cache);
    cache->name = memory_copy_string(file);
    char *data;
    size_t size;
    if (!cache_read(file, MOST_BYTES, &data, &size))
        return cache;
    cache->ends_within_line = size > 0 && data[size - 1] != '\n';
    for (char *line = data; line < data + size;) {
        char *end = memchr(line, '\n', (size_t)(data + size - line));
        if (!end)
            end = data + size; /* where there is a NUL */
        *end = '\0';
        read_line(cache, line);
        line = end + 1;
    }
    free(data);
    return cache;
}

void tuning_cache_destroy(tuning_cache *cache) {
    if (!cache)
        return;
    for (int i = 0; i < cache->count; i++) {
        free(cache->choices[i].key);
        free(cache->choices[i].value);
    }
    free(cache->choices);
    free(cache->name);
    free(cache);
}

const char *tuning_cache_find(const tuning_cache *cache, const char *key) {
    const choice *known = find(cache, key);
    return known ? known->value : NULL;
}

bool tuning_cache_add(tuning_cache *cache, const char *key, const char *chosen) {
    keep(cache, key, chosen);
    if (!cache->name)
        return false;
    text rest = {0}, line = {0};
    text_format(&rest, "%s %s", key, chosen);
    text_format(&line, "%s%s %s\n", cache->ends_within_line ? "\n" : "",
                hash_text(rest.data, rest.length).text, rest.data);
    bool is_kept = cache_append(cache->name, "tuned choices", line.data, line.length);
    cache->ends_within_line = false;
    text_release(&rest);
    text_release(&line);
    if (!is_kept) {
        free(cache->name);
        cache->name = NULL;
    }
    return is_kept;
}
