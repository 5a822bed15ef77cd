/* config_json.h - Hugging Face Llama's config.json, read into a model_config and written from one.
 *
 * A config.json that asks for another architecture is refused by field, never approximated. */
#ifndef FORMATS_CONFIG_JSON_H
#define FORMATS_CONFIG_JSON_H

#include "base/json.h"
#include "model/config.h"

/* *out is written only on success and has then passed
 * model_config_check. Missing or absurd: DYNO_CORRUPT; another architecture or variant:
 * DYNO_UNSUPPORTED. `what` names the source in messages; the name becomes "llama". */
NODISCARD dyno_status model_config_parse(const char *bytes, size_t size, const char *what,
                                         model_config *out);
/* The name becomes that of the directory a config.json is in; of a file with another name, the name
 * of the file. */
NODISCARD dyno_status model_config_read(const char *path, model_config *out);
/* The same, and the file's text, which the caller frees; NULL on failure. */
NODISCARD dyno_status model_config_read_text(const char *path, model_config *out, char **bytes);

/* The text of a config.json that was read as `from`, with the sizes of `to` in place of those that
 * differ and every other byte as it is. The caller frees it. */
char *model_config_change_text(const char *json, const model_config *from, const model_config *to);

/* A config.json that transformers loads, of version 4 and of version 5. The caller owns it. */
json_t *model_config_to_json(const model_config *config);

#endif
