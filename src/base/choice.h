/* choice.h - one of several words, as flags and files name it. */
#ifndef BASE_CHOICE_H
#define BASE_CHOICE_H

#include "base/status.h"

/* The index of `given` among `names`. Otherwise DYNO_INVALID: "there is no `what` 'given'; there
 * are a, b and c", the words of `choices`, "a|b|c". */
NODISCARD dyno_status choice_parse(const char *what, const char *const *names, int count,
                                   const char *choices, const char *given, int *index);

#endif
