#include "plan/scope.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

scope_text scope_fold_layers(const char *scope) {
    scope_text out = {{0}};
    if (!scope[0]) {
        snprintf(out.text, sizeof out.text, "(top)");
        return out;
    }
    int used = 0;
    bool starts_part = true;
    while (*scope && used < SCOPE_TEXT_BYTES - 1) {
        if (starts_part && isdigit((unsigned char)*scope)) {
            while (isdigit((unsigned char)*scope))
                scope++;
            out.text[used++] = '*';
            starts_part = false;
            continue;
        }
        starts_part = *scope == '.';
        out.text[used++] = *scope++;
    }
    return out;
}

int scope_block(const char *scope) {
    static const char list[] = "layers.";
    const size_t length = sizeof list - 1;
    for (const char *at = scope; (at = strstr(at, list)); at += length)
        if ((at == scope || at[-1] == '.') && isdigit((unsigned char)at[length]))
            return (int)strtol(at + length, NULL, 10);
    return -1;
}
