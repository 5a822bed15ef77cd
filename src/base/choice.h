/* choice.h - enumerations by name, as flags and files give them. */
#ifndef BASE_CHOICE_H
#define BASE_CHOICE_H

#include "base/status.h"

/* The index of `given` among `names`. Otherwise DYNO_INVALID: "there is no `what` 'given'; there
 * are a, b and c", the words of `choices`, "a|b|c". */
NODISCARD dyno_status choice_parse(const char *what, const char *const *names, int count,
                                   const char *choices, const char *given, int *index);

/* For an enum: PREFIX_name and PREFIX_parse, its words being in its order. */
#define CHOICE_FUNCTIONS(TYPE, PREFIX, WHAT, CHOICES, ...)                                         \
    static const char *const PREFIX##_names[] = {__VA_ARGS__};                                     \
    const char *PREFIX##_name(TYPE chosen) { return PREFIX##_names[chosen]; }                      \
    dyno_status PREFIX##_parse(const char *name, TYPE *chosen) {                                   \
        int index, count = (int)(sizeof PREFIX##_names / sizeof *PREFIX##_names);                  \
        RETURN_IF_FAILED(choice_parse(WHAT, PREFIX##_names, count, CHOICES, name, &index));        \
        *chosen = (TYPE)index;                                                                     \
        return DYNO_OK;                                                                            \
    }

#endif
