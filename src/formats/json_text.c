#include "formats/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static const char *skip_space(const char *at) { return at + strspn(at, " \t\r\n"); }

/* From an opening quote to behind the closing one. */
static const char *skip_string(const char *at) {
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1])
            at++;
    return *at ? at + 1 : at;
}

static const char *skip_value(const char *at) {
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    } while (*at && (depth > 0 || !strchr(",}] \t\r\n", *at)));
    return at;
}

const char *json_text_find(const char *json, const char *key, const char **end) {
    const char *at = skip_space(json);
    if (*at != '{')
        return NULL;
    for (at = skip_space(at + 1); *at == '"'; at = skip_space(at)) {
        const char *name = at + 1;
        at = skip_string(at);
        size_t length = (size_t)(at - name) - 1;
        const char *value = skip_space(skip_space(at) + 1); /* behind the colon */
        at = skip_value(value);
        if (length == strlen(key) && strncmp(name, key, length) == 0) {
            *end = at;
            return value;
        }
        at = skip_space(at);
        at += *at == ',';
    }
    return NULL;
}

/* Behind the last value: the closing brace and what precedes it is left as it is. */
static const char *find_last(const char *json, bool *is_empty) {
    const char *at = strrchr(json, '}');
    while (at > json && strchr(" \t\r\n", at[-1]))
        at--;
    *is_empty = at > json && at[-1] == '{';
    return at;
}

char *json_text_set(char *json, const char *key, const char *with) {
    text changed = {0};
    const char *end, *value = json_text_find(json, key, &end);
    if (value) {
        text_append_bytes(&changed, json, (size_t)(value - json));
        text_append(&changed, with);
        text_append(&changed, end);
    } else {
        bool is_empty;
        const char *last = find_last(json, &is_empty);
        text_append_bytes(&changed, json, (size_t)(last - json));
        text_format(&changed, "%s\n  \"%s\": %s%s", is_empty ? "" : ",", key, with, last);
    }
    free(json);
    return changed.data;
}
