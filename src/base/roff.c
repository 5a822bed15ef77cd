#include "base/roff.h"

void text_append_roff(text *out, const char *string) {
    if (*string == '.' || *string == '\'')
        text_append(out, "\\&");
    for (; *string; string++)
        if (*string == '\\')
            text_append(out, "\\e");
        else if (*string == '-')
            text_append(out, "\\-");
        else if (*string == '|')
            text_append(out, "|\\:");
        else
            text_append_bytes(out, string, 1);
}
