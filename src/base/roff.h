/* roff.h - text inside of a manual page. */
#ifndef BASE_ROFF_H
#define BASE_ROFF_H

#include "base/text.h"

/* A backslash, a dash, and a dot or an apostrophe at the beginning of a line have a meaning in roff: they are
 * written so that they have none. A list of choices may be broken behind each of them. */
void text_append_roff(text *out, const char *string);

#endif
