/* markup.h - texts of files in HTML and in TeX: nothing in them has a meaning there. */
#ifndef REPORT_MARKUP_H
#define REPORT_MARKUP_H

#include "base/text.h"

void html_append_text(text *out, const char *string);
void tex_append_text(text *out, const char *string);

#endif
