/* flags.h - a verb declares its flags in a table; parsing, checking and --help follow from it.
 *
 * A command line gives them as arguments, a program as settings: one table checks both.
 *
 *     static const flag_spec FLAGS[] = {
 *         {"context", "LIST", FLAG_INTEGER_LIST, "128", .help = "context lengths in tokens",
 *          .minimum = 1, .maximum = 1 << 20},
 *         {"format", NULL, FLAG_CHOICE, "table", .help = "how to print",
 *          .choices = "table|md|csv|json"},
 *     };
 *     static const flags_verb VERB = {.name = "bench", ..., FLAGS_TABLE(FLAGS)};
 *
 * Values are given as --name VALUE or --name=VALUE, each flag at most once. Lists are "128,512"
 * with ranges in between: "1:5" counts by one, "1:10:+3" by three, "128:1024:*2" doubles, and so does
 * "128..1024". "--" ends the flags. Every message names the flag, the value, the limit and, for a name that is
 * not known, the nearest one. */
#ifndef BASE_FLAGS_H
#define BASE_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

typedef enum flag_kind {
    FLAG_SWITCH, /* no value */
    FLAG_TEXT,
    FLAG_INTEGER,
    FLAG_REAL,
    FLAG_BYTES,        /* 32GiB */
    FLAG_INTEGER_LIST, /* with ranges; at most 10,000 items */
    FLAG_TEXT_LIST,
    FLAG_CHOICE,
    FLAG_CHOICE_LIST
} flag_kind;

typedef struct flag_spec {
    const char *name;        /* without the dashes */
    const char *placeholder; /* NULL: the choices, or a word for the kind */
    flag_kind kind;
    const char *fallback;              /* as a user would write it; NULL: none */
    const char *help;                  /* one sentence, no full stop */
    int64_t minimum, maximum;          /* integers and each of a list; both 0: no limit */
    double real_minimum, real_maximum; /* reals; both 0: no limit */
    const char *choices;               /* "table|md|csv" */
    const char *(*list_choices)(void); /* gives them, where they are not known before the run */
    /* What a shell offers where others are good, too: "auto|cpu|cuda", or names by their index, NULL behind
     * the last. A placeholder with FILE or DIR in it says that the value is a path. */
    const char *suggestions;
    const char *(*suggestion_at)(int index);
} flag_spec;

const char *flag_choices(const flag_spec *spec); /* NULL: it has none */

/* Fails unless the value is inside the limits; also for values that nobody typed, of which messages
 * show the name with other `dashes` than "--". A NaN is outside. */
NODISCARD dyno_status flag_check_integer(const flag_spec *spec, const char *dashes, int64_t value);
NODISCARD dyno_status flag_check_real(const flag_spec *spec, const char *dashes, double value);

typedef struct flags_example {
    const char *command; /* after "dyno " */
    const char *effect;
} flags_example;

/* A flag that would be ignored is refused instead. One that the user gave and that is among `flags`,
 * "top|depth" or, "^from|by", all but these, is refused where `when` holds:
 *
 *     from          --from was given
 *     !from         it was not
 *     by=kernel|op  the value of --by is one of these; of a list, every item is
 *     format=csv&!out   both
 */
typedef struct flags_rule {
    const char *flags, *when;
    const char *reason; /* and the way out: what follows "--depth " in the message */
} flags_rule;

typedef struct flags_verb {
    const char *name;
    const char *positional; /* "DIR"; NULL: none */
    int least_positionals, most_positionals;
    /* What a shell offers for a positional, as the suggestions of a flag, and "FILE" or "DIR" where it may be
     * a path and its name does not say so. */
    const char *positional_suggestions;
    const char *(*positional_at)(int index);
    const char *positional_path;
    const char *summary; /* a paragraph: what it does, what comes out */
    const flag_spec *flags;
    int flag_count;
    const flags_example *examples;
    int example_count;
    const flags_rule *rules;
    int rule_count;
} flags_verb;

#define FLAGS_TABLE(table) .flags = (table), .flag_count = (int)(sizeof(table) / sizeof *(table))
#define FLAGS_EXAMPLES(table)                                                                      \
    .examples = (table), .example_count = (int)(sizeof(table) / sizeof *(table))
#define FLAGS_RULES(table) .rules = (table), .rule_count = (int)(sizeof(table) / sizeof *(table))

typedef struct flags flags;

/* Parses what follows argv[0], which is the verb's own name. `verb` must outlive the flags. On
 * success *out belongs to the caller; on failure (DYNO_INVALID) it is NULL. When --help is
 * anywhere among the flags nothing else is looked at. */
NODISCARD dyno_status flags_parse(const flags_verb *verb, int argc, char *const *argv, flags **out);

/* The same from settings: "context=128,512", "breakdown" for a switch, a positional as it stands.
 * They are parsed as the arguments that a user would type for them. */
NODISCARD dyno_status flags_parse_settings(const flags_verb *verb, int count,
                                           const char *const *settings, flags **out);
void flags_destroy(flags *given);

bool flags_wants_help(const flags *given);
/* Whether --help is among the arguments, of whatever verb. */
bool flags_ask_for_help(int argc, char *const *argv);

/* Usage, summary, flags with defaults and limits, examples; for a terminal of so many columns, or 0 for
 * a file, where each example is one line. */
void flags_append_help(const flags_verb *verb, int columns, text *out);

/* The same as a manual page in roff; `version` is dyno's. */
void flags_append_man(const flags_verb *verb, const char *version, text *out);
/* For a shell's completion: a line for each flag, --help included, and, where there are positionals, one with an
 * empty name for them. Fields, separated by tabs: the name; values worth offering, separated by '|'; 1 if it
 * takes a value, else 0; the first words of its help; "list" if values may be joined by commas, "file" or
 * "directory" if it is a path, else nothing. */
void flags_append_list(const flags_verb *verb, text *out);

/* Sets a flag as if the user had given it, for what another flag stands for. */
NODISCARD dyno_status flags_set(flags *given, const char *name, const char *value);

/* The value given, or the default. Asking for a flag that the verb did not declare, or as
 * another kind, is a bug and asserts. Without value and default: 0, NULL, an empty list. */
bool flags_switch(const flags *given, const char *name);
int64_t flags_integer(const flags *given, const char *name);
double flags_real(const flags *given, const char *name);
int64_t flags_bytes(const flags *given, const char *name);
const char *flags_text(const flags *given, const char *name); /* texts and choices */
const int64_t *flags_list(const flags *given, const char *name, int *count);
const char *const *flags_text_list(const flags *given, const char *name, int *count);
int flags_list_length(const flags *given, const char *name); /* of a list of any kind */
bool flags_list_has(const flags *given, const char *name, const char *item);

/* Whether the user gave it. */
bool flags_is_set(const flags *given, const char *name);

/* What was parsed, the verb's name first; settings as a user would type them. */
const char *const *flags_arguments(const flags *given, int *count);

int flags_positional_count(const flags *given);
const char *flags_positional(const flags *given, int index);

#endif
