/* flags_help.c - the help of a verb, made from its table.
 *
 * Help must teach: it shows what the verb is for, what each flag takes and by default is, and
 * commands that work as they stand. */
#include <string.h>

#include "base/flags.h"
#include "base/wrap.h"

enum { LINE = 96, FLAG_COLUMN = 2, NARROWEST_HELP = 40, NARROWEST_LINE = 40 };

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

static void append_flags(const flags_verb *verb, int line, text *out) {
    int widest = (int)strlen("--help");
    for (int i = 0; i < verb->flag_count; i++) {
        int width =
            3 + (int)(strlen(verb->flags[i].name) + strlen(placeholder_of(&verb->flags[i])));
        if (width > widest && width + NARROWEST_HELP < line)
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
        text_append_wrapped(out, text_string(&help), indent, indent, line);
        text_release(&help);
        has_ranges = has_ranges || spec->kind == FLAG_INTEGER_LIST;
    }
    text_append(out, "  --help");
    append_spaces(out, indent - FLAG_COLUMN - (int)strlen("--help"));
    text_append(out, "print this and stop\n");
    text_append(out, has_ranges ? "\n" : "");
    if (has_ranges)
        text_append_wrapped(out,
                            "A LIST of numbers is written 128,512 and may have ranges: 1:5 counts "
                            "by one, 1:10:+3 by three, 128:1024:*2 doubles.",
                            0, 0, line);
}

/* On a terminal over several lines of a shell; else as one, which can be searched for. */
static void append_command(const char *command, int columns, text *out) {
    int room = columns - 2;
    text_append(out, "  ");
    while (columns > 0 && command[wrap_line(command, room)]) {
        size_t bytes = wrap_line(command, room - 2); /* for the backslash */
        text_append_bytes(out, command, bytes);
        text_append(out, " \\\n    ");
        command += bytes + strspn(command + bytes, " ");
        room = columns - 4;
    }
    text_format(out, "%s\n", command);
}

static void append_example(const flags_example *example, int columns, text *out) {
    text command = {0};
    text_format(&command, "dyno %s", example->command);
    append_command(text_string(&command), columns, out);
    text_append(out, "      ");
    text_append_wrapped(out, example->effect, 6, 6, columns);
    text_release(&command);
}

void flags_append_help(const flags_verb *verb, int columns, text *out) {
    columns = columns > 0 && columns < NARROWEST_LINE ? NARROWEST_LINE : columns;
    int line = columns > 0 && columns < LINE ? columns : LINE;
    text_format(out, "usage: dyno %s", verb->name);
    if (verb->positional)
        text_format(out, verb->least_positionals ? " %s" : " [%s]", verb->positional);
    text_append(out, " [flags]\n\n");
    text_append_wrapped(out, verb->summary, 0, 0, line);
    append_flags(verb, line, out);
    if (verb->example_count)
        text_append(out, "\nEXAMPLES\n");
    for (int i = 0; i < verb->example_count; i++)
        append_example(&verb->examples[i], columns, out);
}
