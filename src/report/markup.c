#include "report/markup.h"

#include <string.h>

#include "base/printable.h"
#include "report/table.h"

void html_append_text(text *out, const char *string) {
    text clean = {0};
    text_append_printable(&clean, string, "\n");
    for (const char *p = text_string(&clean); *p; p++) {
        const char *entity = *p == '&'    ? "&amp;"
                             : *p == '<'  ? "&lt;"
                             : *p == '>'  ? "&gt;"
                             : *p == '"'  ? "&quot;"
                             : *p == '\'' ? "&#39;"
                                          : NULL;
        if (entity)
            text_append(out, entity);
        else
            text_append_bytes(out, p, 1);
    }
    text_release(&clean);
}

void tex_append_text(text *out, const char *string) {
    static const struct {
        char c;
        const char *tex;
    } special[] = {{'\\', "\\textbackslash{}"},  {'~', "\\textasciitilde{}"},
                   {'^', "\\textasciicircum{}"}, {'<', "\\textless{}"},
                   {'>', "\\textgreater{}"},     {'|', "\\textbar{}"},
                   {'"', "\\textquotedbl{}"}};
    text clean = {0};
    table_append_printable(&clean, string);
    for (const char *p = text_string(&clean); *p; p++) {
        const char *tex = NULL;
        for (size_t i = 0; i < sizeof special / sizeof *special; i++)
            if (special[i].c == *p)
                tex = special[i].tex;
        if (tex)
            text_append(out, tex);
        else {
            text_append(out, strchr("{}$&#_%", *p) ? "\\" : "");
            text_append_bytes(out, p, 1);
            text_append(out, p[0] == '-' && p[1] == '-' ? "{}" : ""); /* no dash of two hyphens */
        }
    }
    text_release(&clean);
}
