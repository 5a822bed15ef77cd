#include "base/flags.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/flags_rules.h"
#include "base/memory.h"
#include "base/units.h"

enum { MOST_ITEMS = 10000 };

typedef struct flag_value {
    bool is_set; /* by the user */
    bool is_on;
    int64_t integer; /* integers and bytes */
    double real;
    const char *text;
    int64_t *integers;
    const char **texts;
    int count, capacity;
} flag_value;

struct flags {
    const flags_verb *verb;
    flag_value *values; /* one for each of verb->flags */
    const char **arguments;
    int argument_count;
    const char **positionals;
    int positional_count, positional_capacity;
    bool wants_help;
    arena *strings;
};

/* Numbers */

static dyno_status parse_integer(const flag_spec *spec, const char *string, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(string, &end, 10);
    bool starts_well = isdigit((unsigned char)string[0]) ||
                       (string[0] == '-' && isdigit((unsigned char)string[1]));
    *out = 0;
    if (!starts_well || *end)
        return dyno_fail(DYNO_INVALID, "--%s: '%s' is not a whole number", spec->name, string);
    if (errno == ERANGE)
        return dyno_fail(DYNO_INVALID, "--%s: %s does not fit 64 bits", spec->name, string);
    *out = value;
    return DYNO_OK;
}

dyno_status flag_check_integer(const flag_spec *spec, const char *dashes, int64_t value) {
    bool has_limits = spec->minimum != 0 || spec->maximum != 0;
    if (has_limits && (value < spec->minimum || value > spec->maximum))
        return dyno_fail(DYNO_INVALID, "%s%s: %lld is outside %lld to %lld", dashes, spec->name,
                         (long long)value, (long long)spec->minimum, (long long)spec->maximum);
    return DYNO_OK;
}

dyno_status flag_check_real(const flag_spec *spec, const char *dashes, double value) {
    bool has_limits = spec->real_minimum < 0 || spec->real_minimum > 0 || spec->real_maximum < 0 ||
                      spec->real_maximum > 0;
    if (has_limits && !(value >= spec->real_minimum && value <= spec->real_maximum))
        return dyno_fail(DYNO_INVALID, "%s%s: %g is outside %g to %g", dashes, spec->name, value,
                         spec->real_minimum, spec->real_maximum);
    return DYNO_OK;
}

static dyno_status parse_real(const flag_spec *spec, const char *string, double *out) {
    char *end;
    double value = strtod(string, &end);
    *out = 0;
    if (end == string || *end || isspace((unsigned char)string[0]) || !isfinite(value))
        return dyno_fail(DYNO_INVALID, "--%s: '%s' is not a number", spec->name, string);
    *out = value;
    return flag_check_real(spec, "--", value);
}

/* Lists */

static dyno_status check_room(const flag_spec *spec, const flag_value *value) {
    if (value->count == MOST_ITEMS)
        return dyno_fail(DYNO_INVALID, "--%s: the list has over %d items", spec->name, MOST_ITEMS);
    return DYNO_OK;
}

static dyno_status add_integer(const flag_spec *spec, flag_value *value, int64_t item) {
    RETURN_IF_FAILED(check_room(spec, value));
    RETURN_IF_FAILED(flag_check_integer(spec, "--", item));
    MEMORY_GROW(value->integers, value->count, value->capacity);
    value->integers[value->count++] = item;
    return DYNO_OK;
}

/* "+3", "*2". */
static dyno_status parse_range_step(const flag_spec *spec, const char *range, const char *step,
                                    bool *is_factor, int64_t *amount) {
    *is_factor = step[0] == '*';
    *amount = 0;
    if ((step[0] != '+' && step[0] != '*') || !isdigit((unsigned char)step[1]))
        return dyno_fail(DYNO_INVALID,
                         "--%s: range '%s': the step '%s' is neither +NUMBER nor *NUMBER",
                         spec->name, range, step);
    RETURN_IF_FAILED(parse_integer(spec, step + 1, amount));
    if (*amount < (*is_factor ? 2 : 1))
        return dyno_fail(DYNO_INVALID,
                         "--%s: range '%s' never ends: the step is '%s', the least is %s",
                         spec->name, range, step, *is_factor ? "*2" : "+1");
    return DYNO_OK;
}

/* `parts` is the range split at its colons; `range` is the whole, for messages. */
static dyno_status add_range(const flag_spec *spec, flag_value *value, const char *range,
                             char *const parts[3], int part_count) {
    int64_t first, last, amount = 1;
    bool is_factor = false;
    RETURN_IF_FAILED(parse_integer(spec, parts[0], &first));
    RETURN_IF_FAILED(parse_integer(spec, parts[1], &last));
    if (part_count == 3)
        RETURN_IF_FAILED(parse_range_step(spec, range, parts[2], &is_factor, &amount));
    if (last < first)
        return dyno_fail(DYNO_INVALID, "--%s: range '%s' ends before it starts", spec->name, range);
    if (is_factor && first < 1)
        return dyno_fail(DYNO_INVALID, "--%s: range '%s' multiplies, so it must start at 1 or more",
                         spec->name, range);
    RETURN_IF_FAILED(flag_check_integer(spec, "--", last));
    for (int64_t item = first; item <= last;) {
        RETURN_IF_FAILED(add_integer(spec, value, item));
        /* Past the largest integer is past `last` too. */
        if (!(is_factor ? checked_multiply(item, amount, &item) : checked_add(item, amount, &item)))
            break;
    }
    return DYNO_OK;
}

/* "8..16384" doubles. */
static dyno_status add_doubling(const flag_spec *spec, flag_value *value, char *item, char *dots) {
    char *range = memory_copy_string(item), doubling[] = "*2";
    *dots = '\0';
    char *parts[3] = {item, dots + 2, doubling};
    dyno_status status = add_range(spec, value, range, parts, 3);
    free(range);
    return status;
}

static dyno_status add_integer_item(const flag_spec *spec, flag_value *value, char *item) {
    char *parts[3] = {item, NULL, NULL};
    char *dots = strstr(item, "..");
    if (dots)
        return add_doubling(spec, value, item, dots);
    if (!strchr(item, ':')) {
        int64_t number;
        RETURN_IF_FAILED(parse_integer(spec, item, &number));
        return add_integer(spec, value, number);
    }
    char *range = memory_copy_string(item);
    int count = 1;
    dyno_status status = DYNO_OK;
    for (char *p = item; *p && status == DYNO_OK; p++) {
        if (*p != ':')
            continue;
        if (count == 3) {
            status = dyno_fail(DYNO_INVALID,
                               "--%s: '%s' is not a range; write FIRST:LAST, FIRST:LAST:+STEP or "
                               "FIRST:LAST:*FACTOR",
                               spec->name, range);
        } else {
            *p = '\0';
            parts[count++] = p + 1;
        }
    }
    if (status == DYNO_OK)
        status = add_range(spec, value, range, parts, count);
    free(range);
    return status;
}

/* Choices */

const char *flag_choices(const flag_spec *spec) {
    return spec->list_choices ? spec->list_choices() : spec->choices;
}

/* The choices as an array of copies; *count tells how many. */
static const char **split_choices(arena *strings, const char *choices, int *count) {
    const char **names = NULL;
    int capacity = 0;
    *count = 0;
    for (const char *p = choices; *p;) {
        size_t length = strcspn(p, "|");
        MEMORY_GROW(names, *count, capacity);
        names[(*count)++] = arena_format(strings, "%.*s", (int)length, p);
        p += length + (p[length] == '|');
    }
    return names;
}

static dyno_status check_choice(arena *strings, const flag_spec *spec, const char *given) {
    int count;
    const char **names = split_choices(strings, flag_choices(spec), &count);
    bool is_known = false;
    for (int i = 0; i < count; i++)
        is_known = is_known || strcmp(names[i], given) == 0;
    dyno_status status = DYNO_OK;
    if (!is_known) {
        const char *nearest = text_nearest(given, names, count);
        status = dyno_fail(DYNO_INVALID, "--%s: '%s' is not one of %s%s%s%s", spec->name, given,
                           flag_choices(spec), nearest ? "; did you mean '" : "",
                           nearest ? nearest : "", nearest ? "'?" : "");
    }
    free(names);
    return status;
}

static dyno_status add_text_item(arena *strings, const flag_spec *spec, flag_value *value,
                                 const char *item) {
    RETURN_IF_FAILED(check_room(spec, value));
    if (spec->kind == FLAG_CHOICE_LIST)
        RETURN_IF_FAILED(check_choice(strings, spec, item));
    MEMORY_GROW(value->texts, value->count, value->capacity);
    value->texts[value->count++] = arena_copy_string(strings, item);
    return DYNO_OK;
}

static dyno_status parse_list(arena *strings, const flag_spec *spec, const char *string,
                              flag_value *value) {
    for (const char *p = string;; p++) {
        size_t length = strcspn(p, ",");
        if (length == 0)
            return dyno_fail(DYNO_INVALID, "--%s: '%s' has an empty item", spec->name, string);
        char *item = arena_format(strings, "%.*s", (int)length, p);
        RETURN_IF_FAILED(spec->kind == FLAG_INTEGER_LIST
                             ? add_integer_item(spec, value, item)
                             : add_text_item(strings, spec, value, item));
        p += length;
        if (!*p)
            return DYNO_OK;
    }
}

static dyno_status parse_value(arena *strings, const flag_spec *spec, const char *string,
                               flag_value *value) {
    switch (spec->kind) {
    case FLAG_SWITCH:
        value->is_on = true;
        return DYNO_OK;
    case FLAG_TEXT:
        if (!string[0])
            return dyno_fail(DYNO_INVALID, "--%s: the value is empty", spec->name);
        value->text = arena_copy_string(strings, string);
        return DYNO_OK;
    case FLAG_INTEGER:
        RETURN_IF_FAILED(parse_integer(spec, string, &value->integer));
        return flag_check_integer(spec, "--", value->integer);
    case FLAG_REAL:
        return parse_real(spec, string, &value->real);
    case FLAG_BYTES: {
        dyno_status status = units_parse_bytes(string, &value->integer);
        return status == DYNO_OK ? status : dyno_fail_within(status, "--%s", spec->name);
    }
    case FLAG_INTEGER_LIST:
    case FLAG_TEXT_LIST:
    case FLAG_CHOICE_LIST:
        return parse_list(strings, spec, string, value);
    case FLAG_CHOICE:
        value->text = arena_copy_string(strings, string);
        return check_choice(strings, spec, string);
    }
    return DYNO_OK;
}

/* The command line */

static int find_flag(const flags_verb *verb, const char *name, size_t length) {
    for (int i = 0; i < verb->flag_count; i++)
        if (strlen(verb->flags[i].name) == length && memcmp(verb->flags[i].name, name, length) == 0)
            return i;
    return -1;
}

static dyno_status fail_unknown(const flags_verb *verb, const char *argument) {
    const char **names = memory_allocate((size_t)verb->flag_count + 1, sizeof *names);
    for (int i = 0; i < verb->flag_count; i++)
        names[i] = verb->flags[i].name;
    names[verb->flag_count] = "help";
    const char *word = argument + strspn(argument, "-");
    char *name = memory_copy_string(word);
    name[strcspn(name, "=")] = '\0';
    const char *nearest = text_nearest(name, names, verb->flag_count + 1);
    dyno_status status = nearest ? dyno_fail(DYNO_INVALID, "unknown flag '%s'; did you mean --%s?",
                                             argument, nearest)
                                 : dyno_fail(DYNO_INVALID, "unknown flag '%s'; see dyno %s --help",
                                             argument, verb->name);
    free(name);
    free(names);
    return status;
}

/* Consumes argv[*at], and the value after it if it has one; leaves *at on the last consumed. */
static dyno_status parse_flag(flags *given, int argc, char *const *argv, int *at) {
    const char *argument = argv[*at];
    const char *name = argument + 2, *equals = strchr(name, '=');
    int index = -1;
    if (argument[1] == '-')
        index = find_flag(given->verb, name, equals ? (size_t)(equals - name) : strlen(name));
    if (index < 0)
        return fail_unknown(given->verb, argument);
    const flag_spec *spec = &given->verb->flags[index];
    flag_value *value = &given->values[index];
    if (value->is_set)
        return dyno_fail(DYNO_INVALID, "--%s is given twice", spec->name);
    value->is_set = true;
    const char *string = equals ? equals + 1 : NULL;
    if (spec->kind == FLAG_SWITCH && string)
        return dyno_fail(DYNO_INVALID, "--%s takes no value, '%s' was given", spec->name, string);
    if (spec->kind != FLAG_SWITCH && !string) {
        if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0)
            return dyno_fail(DYNO_INVALID, "--%s needs a value: %s", spec->name, spec->help);
        string = argv[++*at];
    }
    return parse_value(given->strings, spec, string ? string : "", value);
}

bool flags_ask_for_help(int argc, char *const *argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static dyno_status check_positionals(const flags *given) {
    const flags_verb *verb = given->verb;
    if (given->positional_count > verb->most_positionals)
        return dyno_fail(DYNO_INVALID, "unexpected '%s'; flags start with --, see dyno %s --help",
                         given->positionals[verb->most_positionals], verb->name);
    if (given->positional_count < verb->least_positionals)
        return dyno_fail(DYNO_INVALID, "%s is missing; see dyno %s --help", verb->positional,
                         verb->name);
    return DYNO_OK;
}

static dyno_status parse_arguments(flags *given, int argc, char *const *argv) {
    bool is_over = false;
    for (int i = 1; i < argc; i++) {
        if (!is_over && strcmp(argv[i], "--") == 0) {
            is_over = true;
        } else if (!is_over && argv[i][0] == '-' && argv[i][1]) {
            RETURN_IF_FAILED(parse_flag(given, argc, argv, &i));
        } else {
            MEMORY_GROW(given->positionals, given->positional_count, given->positional_capacity);
            given->positionals[given->positional_count++] =
                arena_copy_string(given->strings, argv[i]);
        }
    }
    return check_positionals(given);
}

static dyno_status fill_defaults(flags *given) {
    for (int i = 0; i < given->verb->flag_count; i++) {
        const flag_spec *spec = &given->verb->flags[i];
        if (given->values[i].is_set || !spec->fallback)
            continue;
        dyno_status status = parse_value(given->strings, spec, spec->fallback, &given->values[i]);
        if (status != DYNO_OK)
            return dyno_fail_within(status, "the default of --%s", spec->name);
    }
    return DYNO_OK;
}

dyno_status flags_parse(const flags_verb *verb, int argc, char *const *argv, flags **out) {
    *out = NULL;
    flags *given = memory_allocate(1, sizeof *given);
    given->verb = verb;
    given->strings = arena_create();
    given->values = memory_allocate((size_t)verb->flag_count, sizeof *given->values);
    given->arguments = memory_allocate((size_t)argc, sizeof *given->arguments);
    for (; given->argument_count < argc; given->argument_count++)
        given->arguments[given->argument_count] =
            arena_copy_string(given->strings, argv[given->argument_count]);
    given->wants_help = flags_ask_for_help(argc, argv);
    dyno_status status = DYNO_OK;
    if (!given->wants_help)
        status = parse_arguments(given, argc, argv);
    if (status == DYNO_OK)
        status = fill_defaults(given);
    if (status == DYNO_OK && !given->wants_help)
        status = flags_check_rules(verb, given);
    if (status == DYNO_OK)
        *out = given;
    else
        flags_destroy(given);
    return status;
}

/* A setting never becomes the value of the one before it, nor a request for help. */
static char *setting_as_argument(const flags_verb *verb, const char *setting, arena *strings) {
    if (strchr(setting, '=') || setting[0] == '-')
        return arena_format(strings, "--%s", setting);
    int index = find_flag(verb, setting, strlen(setting));
    if (index < 0)
        return arena_copy_string(strings, setting);
    bool is_switch = verb->flags[index].kind == FLAG_SWITCH;
    return arena_format(strings, "--%s%s", setting, is_switch ? "" : "=");
}

dyno_status flags_parse_settings(const flags_verb *verb, int count, const char *const *settings,
                                 flags **out) {
    arena *strings = arena_create();
    char **argv = memory_allocate((size_t)count + 1, sizeof *argv);
    argv[0] = arena_copy_string(strings, verb->name);
    for (int i = 0; i < count; i++)
        argv[1 + i] = setting_as_argument(verb, settings[i], strings);
    dyno_status status = flags_parse(verb, count + 1, argv, out);
    free(argv);
    arena_destroy(strings);
    return status;
}

void flags_destroy(flags *given) {
    if (!given)
        return;
    for (int i = 0; i < given->verb->flag_count; i++) {
        free(given->values[i].integers);
        free(given->values[i].texts);
    }
    free(given->values);
    free(given->arguments);
    free(given->positionals);
    arena_destroy(given->strings);
    free(given);
}

bool flags_wants_help(const flags *given) { return given->wants_help; }

dyno_status flags_set(flags *given, const char *name, const char *value) {
    int index = find_flag(given->verb, name, strlen(name));
    assert(index >= 0);
    given->values[index].is_set = true;
    given->values[index].count = 0; /* a list had its default */
    return parse_value(given->strings, &given->verb->flags[index], value, &given->values[index]);
}

/* `kinds` is a set of bits. */
static const flag_value *look_up(const flags *given, const char *name, unsigned kinds) {
    int index = find_flag(given->verb, name, strlen(name));
    assert(index >= 0);
    assert(kinds >> given->verb->flags[index].kind & 1u);
    return &given->values[index];
}

bool flags_switch(const flags *given, const char *name) {
    return look_up(given, name, 1u << FLAG_SWITCH)->is_on;
}

int64_t flags_integer(const flags *given, const char *name) {
    return look_up(given, name, 1u << FLAG_INTEGER)->integer;
}

double flags_real(const flags *given, const char *name) {
    return look_up(given, name, 1u << FLAG_REAL)->real;
}

int64_t flags_bytes(const flags *given, const char *name) {
    return look_up(given, name, 1u << FLAG_BYTES)->integer;
}

const char *flags_text(const flags *given, const char *name) {
    return look_up(given, name, 1u << FLAG_TEXT | 1u << FLAG_CHOICE)->text;
}

const int64_t *flags_list(const flags *given, const char *name, int *count) {
    const flag_value *value = look_up(given, name, 1u << FLAG_INTEGER_LIST);
    *count = value->count;
    return value->integers;
}

const char *const *flags_text_list(const flags *given, const char *name, int *count) {
    const flag_value *value = look_up(given, name, 1u << FLAG_TEXT_LIST | 1u << FLAG_CHOICE_LIST);
    *count = value->count;
    return value->texts;
}

int flags_list_length(const flags *given, const char *name) {
    return look_up(given, name,
                   1u << FLAG_INTEGER_LIST | 1u << FLAG_TEXT_LIST | 1u << FLAG_CHOICE_LIST)
        ->count;
}

bool flags_list_has(const flags *given, const char *name, const char *item) {
    int count;
    const char *const *items = flags_text_list(given, name, &count);
    for (int i = 0; i < count; i++)
        if (strcmp(items[i], item) == 0)
            return true;
    return false;
}

bool flags_is_set(const flags *given, const char *name) {
    return look_up(given, name, ~0u)->is_set;
}

const char *const *flags_arguments(const flags *given, int *count) {
    *count = given->argument_count;
    return given->arguments;
}

int flags_positional_count(const flags *given) { return given->positional_count; }

const char *flags_positional(const flags *given, int index) {
    assert(index >= 0 && index < given->positional_count);
    return given->positionals[index];
}
