#include "tensor/attributes.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

const attribute *attribute_find(const attributes *list, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

int64_t attribute_integer(const attributes *list, const char *name) {
    const attribute *found = attribute_find(list, name);
    assert(found && found->kind == ATTRIBUTE_INTEGER);
    return found->integer;
}

double attribute_real(const attributes *list, const char *name) {
    const attribute *found = attribute_find(list, name);
    assert(found && found->kind == ATTRIBUTE_REAL);
    return found->real;
}

const shape *attribute_list(const attributes *list, const char *name) {
    const attribute *found = attribute_find(list, name);
    assert(found && found->kind == ATTRIBUTE_LIST);
    return &found->list;
}

void attributes_print(const attributes *list, text *out) {
    if (list->count == 0)
        return;
    text_append(out, " {");
    for (int i = 0; i < list->count; i++) {
        const attribute *a = &list->items[i];
        text_format(out, "%s%s=", i ? ", " : "", a->name);
        if (a->kind == ATTRIBUTE_INTEGER) {
            text_format(out, "%lld", (long long)a->integer);
        } else if (a->kind == ATTRIBUTE_LIST) {
            text_format(out, "[%s]", shape_format(&a->list).text);
        } else {
            char number[40];
            snprintf(number, sizeof number, "%.17g", a->real);
            /* A real is printed with a dot or an exponent, which tells it from an integer. */
            text_format(out, "%s%s", number, strpbrk(number, ".en") ? "" : ".0");
        }
    }
    text_append(out, "}");
}
