#include "ops/op_list.h"

#include <string.h>

#define LIST_OP(NAME) &op_##NAME,
static const op *const ops[] = {FOR_EACH_OP(LIST_OP)};

int op_list_count(void) { return (int)(sizeof ops / sizeof *ops); }

const op *op_list_at(int index) { return index < op_list_count() ? ops[index] : NULL; }

const op *op_find(const char *name) {
    for (int i = 0; i < op_list_count(); i++)
        if (strcmp(ops[i]->name, name) == 0)
            return ops[i];
    return NULL;
}
