/* flags_man.c - a verb's table as a manual page, and as lines for a shell's completion. */
#include <ctype.h>
#include <string.h>

#include "base/flags.h"
#include "base/roff.h"

static void append_flag(const flag_spec *spec, text *out) {
    const char *choices = flag_choices(spec);
    text_append(out, ".TP\n.B \\-\\-");
    text_append_roff(out, spec->name);
    if (spec->kind != FLAG_SWITCH) {
        text_append(out, " \\fI");
        text_append_roff(out, spec->placeholder ? spec->placeholder : choices ? choices : "VALUE");
        text_append(out, "\\fR");
    }
    text_append(out, "\n");
    text_append_roff(out, spec->help);
    if (choices && spec->placeholder) {
        text_append(out, " (");
        text_append_roff(out, choices);
        text_append(out, ")");
    }
    if (spec->fallback) {
        text_append(out, "; default ");
        text_append_roff(out, spec->fallback);
    }
    text_append(out, "\n");
}

/* What whatis(1) shows: the beginning of the summary, without a capital. */
static void append_brief(const flags_verb *verb, text *out) {
    text brief = {0};
    size_t end = strcspn(verb->summary, ".,:;(");
    while (verb->summary[end] == '.' && verb->summary[end + 1] > ' ') /* of "run.json" */
        end += 1 + strcspn(verb->summary + end + 1, ".,:;(");
    text_append_bytes(&brief, verb->summary, end);
    while (brief.length && brief.data[brief.length - 1] == ' ')
        brief.data[--brief.length] = '\0';
    if (brief.length)
        brief.data[0] = (char)tolower((unsigned char)brief.data[0]);
    text_append_roff(out, text_string(&brief));
    text_release(&brief);
}

void flags_append_man(const flags_verb *verb, const char *version, text *out) {
    text_format(out,
                ".TH DYNO-%s 1 \"\" \"dyno %s\" \"dyno\"\n.ad l\n.nh\n.SH NAME\ndyno\\-%s \\- ",
                verb->name, version, verb->name);
    append_brief(verb, out);
    text_append(out, "\n.SH SYNOPSIS\n.B dyno ");
    text_append_roff(out, verb->name);
    if (verb->positional) {
        text_append(out, verb->least_positionals ? " " : " [");
        text_append_roff(out, verb->positional);
        text_append(out, verb->least_positionals ? "" : "]");
    }
    text_append(out, " [flags]\n.SH DESCRIPTION\n");
    text_append_roff(out, verb->summary);
    text_append(out, "\n.SH FLAGS\n");
    for (int i = 0; i < verb->flag_count; i++)
        append_flag(&verb->flags[i], out);
    text_append(out, ".TP\n.B \\-\\-help\nprint a summary of these and stop\n.SH EXAMPLES\n");
    for (int i = 0; i < verb->example_count; i++) {
        text_append(out, ".TP\n.B dyno ");
        text_append_roff(out, verb->examples[i].command);
        text_append(out, "\n");
        text_append_roff(out, verb->examples[i].effect);
        text_append(out, "\n");
    }
    text_append(out, ".SH SEE ALSO\n.BR dyno (1)\n");
}

/* "a|b|c", which is known, or made of names by their index. */
static void append_suggestions(text *out, const char *known, const char *(*at)(int index)) {
    text_append(out, known ? known : "");
    for (int i = 0; at && at(i); i++)
        text_format(out, "%s%s", i || known ? "|" : "", at(i));
}

static const char *path_kind(const char *placeholder) {
    return !placeholder                  ? ""
           : strstr(placeholder, "FILE") ? "file"
           : strstr(placeholder, "DIR")  ? "directory"
                                         : "";
}

static const char *value_kind(const flag_spec *spec) {
    bool is_list = spec->kind == FLAG_CHOICE_LIST || spec->kind == FLAG_TEXT_LIST ||
                   spec->kind == FLAG_INTEGER_LIST;
    return is_list ? "list" : path_kind(spec->placeholder);
}

static void append_positional(const flags_verb *verb, text *out) {
    if (verb->most_positionals == 0)
        return;
    text_append(out, "\t");
    append_suggestions(out, verb->positional_suggestions, verb->positional_at);
    text_format(out, "\t1\t%s\t%s\n", verb->positional,
                path_kind(verb->positional_path ? verb->positional_path : verb->positional));
}

void flags_append_list(const flags_verb *verb, text *out) {
    for (int i = 0; i < verb->flag_count; i++) {
        const flag_spec *spec = &verb->flags[i];
        const char *choices = flag_choices(spec);
        text_format(out, "%s\t", spec->name);
        append_suggestions(out, choices ? choices : spec->suggestions, spec->suggestion_at);
        text_format(out, "\t%d\t%.*s\t%s\n", spec->kind != FLAG_SWITCH,
                    (int)strcspn(spec->help, ";:,(\t"), spec->help, value_kind(spec));
    }
    append_positional(verb, out);
    text_append(out, "help\t\t0\tprint this and stop\t\n");
}
