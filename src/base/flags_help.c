/* flags_help.c - the help of a verb, made from its table.
 *
 * Help must teach: it shows what the verb is for, what each flag takes and by default is, and
 * commands that work as they stand. */
#include <string.h>

#include "base/flags.h"

enum { LINE = 96, FLAG_COLUMN = 2, NARROWEST_HELP = 40 };

static const char *placeholder_of(const flag_spec *spec) {
    if (spec->placeholder)
        return spec->placeholder;
    switch (spec->kind) {
    case FLAG_SWITCH:
        return "";
    case FLAG_TEXT:
        return "TEXT";
    case FLAG_INTEGER:
    case FLAG_REAL:
        return "NUMBER";
    case FLAG_BYTES:
        return "SIZE";
    case FLAG_INTEGER_LIST:
    case FLAG_TEXT_LIST:
    case FLAG_CHOICE_LIST:
        return "LIST";
    case FLAG_CHOICE:
        return flag_choices(spec);
    }
    return "";
}

static void append_spaces(text *out, int count) {
    for (int i = 0; i < count; i++)
        text_append(out, " ");
}

/* A word, or as many choices of a long list "a|b|c" as fit into `room`. */
static int word_length(const char *word, int room) {
    int length = (int)strcspn(word, " "), choices = length;
    while (choices > room || (choices < length && choices > 0 && word[choices - 1] != '|'))
        choices--;
    return choices > 0 ? choices : length;
}

/* Words of `string`, wrapped; the first line starts at the cursor, which is at `indent`. */
static void append_wrapped(text *out, const char *string, int indent) {
    int column = indent;
    for (const char *p = string; *p;) {
        int length = word_length(p, LINE - indent);
        if (column > indent && column + 1 + length > LINE) {
            text_append(out, "\n");
            append_spaces(out, indent);
            column = indent;
        }
        if (column > indent) {
            text_append(out, " ");
            column++;
        }
        text_append_bytes(out, p, (size_t)length);
        column += length;
        p += length;
        p += strspn(p, " ");
    }
    text_append(out, "\n");
}

static void append_explanation(text *out, const flag_spec *spec) {
    text_append(out, spec->help);
    bool has_limits = spec->minimum != 0 || spec->maximum != 0;
    bool has_real_limits = spec->real_minimum < spec->real_maximum;
    bool lists_choices =
        flag_choices(spec) && (spec->placeholder || spec->kind == FLAG_CHOICE_LIST);
    const char *separator = " (";
    if (lists_choices) {
        text_format(out, "%s%s", separator, flag_choices(spec));
        separator = "; ";
    }
    if (has_limits) {
        if (spec->maximum == INT64_MAX)
            text_format(out, "%s%lld or more", separator, (long long)spec->minimum);
        else
            text_format(out, "%s%lld to %lld", separator, (long long)spec->minimum,
                        (long long)spec->maximum);
        separator = "; ";
    }
    if (has_real_limits) {
        text_format(out, "%s%g to %g", separator, spec->real_minimum, spec->real_maximum);
        separator = "; ";
    }
    if (spec->fallback) {
        text_format(out, "%sdefault %s", separator, spec->fallback);
        separator = "; ";
    }
    if (strcmp(separator, "; ") == 0)
        text_append(out, ")");
}

static void append_flags(const flags_verb *verb, text *out) {
    int widest = (int)strlen("--help");
    for (int i = 0; i < verb->flag_count; i++) {
        int width =
            3 + (int)(strlen(verb->flags[i].name) + strlen(placeholder_of(&verb->flags[i])));
        if (width > widest && width + NARROWEST_HELP < LINE)
            widest = width;
    }
    int indent = FLAG_COLUMN + widest + 2;
    bool has_ranges = false;
    text_append(out, "\nFLAGS\n");
    for (int i = 0; i < verb->flag_count; i++) {
        const flag_spec *spec = &verb->flags[i];
        const char *value = placeholder_of(spec);
        int width = 2 + (int)strlen(spec->name) + (*value ? 1 + (int)strlen(value) : 0);
        text help = {0};
        text_format(out, "  --%s%s%s", spec->name, *value ? " " : "", value);
        if (width <= widest) {
            append_spaces(out, indent - FLAG_COLUMN - width);
        } else {
            text_append(out, "\n");
            append_spaces(out, indent);
        }
        append_explanation(&help, spec);
        append_wrapped(out, text_string(&help), indent);
        text_release(&help);
        has_ranges = has_ranges || spec->kind == FLAG_INTEGER_LIST;
    }
    text_append(out, "  --help");
    append_spaces(out, indent - FLAG_COLUMN - (int)strlen("--help"));
    text_append(out, "print this and stop\n");
    if (has_ranges)
        text_append(out,
                    "\nA LIST of numbers is written 128,512 and may have ranges: 1:5 counts by "
                    "one,\n1:10:+3 by three, 128:1024:*2 doubles.\n");
}

void flags_append_help(const flags_verb *verb, text *out) {
    text_format(out, "usage: dyno %s", verb->name);
    if (verb->positional)
        text_format(out, verb->least_positionals ? " %s" : " [%s]", verb->positional);
    text_append(out, " [flags]\n\n");
    append_wrapped(out, verb->summary, 0);
    append_flags(verb, out);
    if (verb->example_count)
        text_append(out, "\nEXAMPLES\n");
    for (int i = 0; i < verb->example_count; i++)
        text_format(out, "  dyno %s\n      %s\n", verb->examples[i].command,
                    verb->examples[i].effect);
}
