/* results_json.h - a run as the JSON of run.json, and back. */
#ifndef MEASURE_RESULTS_JSON_H
#define MEASURE_RESULTS_JSON_H

#include <jansson.h>

#include "base/text.h"
#include "measure/results.h"

/* The run as the JSON that results_write writes (json_decref). */
json_t *results_to_json(const results *run);
/* Every field is checked. `what` names the source in messages. On failure *out is NULL. */
NODISCARD dyno_status results_from_json(const json_t *root, const char *what, results **out);

/* Appends the text of run.json. */
void results_append_json(const results *run, text *out);

#endif
