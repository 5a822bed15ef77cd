/* man_overview.h - dyno(1): the page above those of the verbs. */
#ifndef CLI_MAN_OVERVIEW_H
#define CLI_MAN_OVERVIEW_H

#include "base/text.h"

void man_append_overview(text *out);

#endif
