#include "base/choice.h"

#include <string.h>

#include "base/text.h"

dyno_status choice_parse(const char *what, const char *const *names, int count, const char *choices,
                         const char *given, int *index) {
    for (int i = 0; i < count; i++)
        if (strcmp(given, names[i]) == 0) {
            *index = i;
            return DYNO_OK;
        }
    text list = {0};
    const char *last = strrchr(choices, '|');
    for (const char *at = choices; *at; at++)
        if (*at == '|')
            text_format(&list, at == last ? " and " : ", ");
        else
            text_format(&list, "%c", *at);
    dyno_status status = dyno_fail(DYNO_INVALID, "there is no %s '%s'; there are %s", what, given,
                                   text_string(&list));
    text_release(&list);
    return status;
}
