/* flags_rules.h - flags that mean nothing beside others are refused, and never ignored. */
#ifndef BASE_FLAGS_RULES_H
#define BASE_FLAGS_RULES_H

#include "base/flags.h"

/* DYNO_INVALID where `given`, which has its defaults, breaks a rule of its verb. */
NODISCARD dyno_status flags_check_rules(const flags_verb *verb, const flags *given);

#endif
