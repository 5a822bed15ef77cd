#include "tensor/attributes.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

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
