#include "base/flags_rules.h"

#include <string.h>

static const flag_spec *find_spec(const flags_verb *verb, const char *name, size_t length) {
    for (int i = 0; i < verb->flag_count; i++)
        if (strlen(verb->flags[i].name) == length && memcmp(verb->flags[i].name, name, length) == 0)
            return &verb->flags[i];
    return NULL;
}

/* Whether `word` is one of "a|b|c"; the list ends where '&' or the text does. */
static bool is_among(const char *word, const char *list) {
    for (size_t length; *list && *list != '&'; list += length + (list[length] == '|')) {
        length = strcspn(list, "|&");
        if (strlen(word) == length && memcmp(word, list, length) == 0)
            return true;
    }
    return false;
}

/* Of a list, all items: where one is not among them, the flag that is judged has an effect on it. */
static bool has_value(const flags *given, const flag_spec *spec, const char *values) {
    if (spec->kind == FLAG_TEXT || spec->kind == FLAG_CHOICE) {
        const char *value = flags_text(given, spec->name);
        return value && is_among(value, values);
    }
    int count = 0;
    const char *const *items = flags_text_list(given, spec->name, &count);
    for (int i = 0; i < count; i++)
        if (!is_among(items[i], values))
            return false;
    return count > 0;
}

/* One of the conditions that '&' joins. A flag that this table lacks was not given. */
static bool holds(const flags_verb *verb, const flags *given, const char *condition) {
    bool is_absence = *condition == '!';
    const char *name = condition + is_absence;
    size_t length = strcspn(name, "=&");
    const flag_spec *spec = find_spec(verb, name, length);
    if (name[length] == '=')
        return spec && has_value(given, spec, name + length + 1);
    return (spec && flags_is_set(given, spec->name)) != is_absence;
}

static bool all_hold(const flags_verb *verb, const flags *given, const char *when) {
    for (const char *at = when; at; at = strchr(at, '&')) {
        at += *at == '&';
        if (!holds(verb, given, at))
            return false;
    }
    return true;
}

static bool is_judged(const flags_rule *rule, const char *name) {
    bool is_exception = rule->flags[0] == '^';
    return is_among(name, rule->flags + is_exception) != is_exception;
}

dyno_status flags_check_rules(const flags_verb *verb, const flags *given) {
    for (int i = 0; i < verb->rule_count; i++) {
        const flags_rule *rule = &verb->rules[i];
        if (!all_hold(verb, given, rule->when))
            continue;
        for (int j = 0; j < verb->flag_count; j++) {
            const char *name = verb->flags[j].name;
            if (is_judged(rule, name) && flags_is_set(given, name))
                return dyno_fail(DYNO_INVALID, "--%s %s", name, rule->reason);
        }
    }
    return DYNO_OK;
}
