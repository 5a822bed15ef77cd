#include "base/embedded.h"

#include <stddef.h>
#include <string.h>

const char *embedded_find(const char *name) {
    for (const embedded_file *file = EMBEDDED_FILES; file->name; file++)
        if (strcmp(file->name, name) == 0)
            return file->text;
    return NULL;
}
