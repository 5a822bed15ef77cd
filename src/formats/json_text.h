/* json_text.h - changes one value in the text of a JSON object and leaves every other byte as it is.
 *
 * The text must be valid JSON (base/json.h); only keys of the outermost object are looked at. */
#ifndef FORMATS_JSON_TEXT_H
#define FORMATS_JSON_TEXT_H

/* The text of the value from the returned pointer to *end; NULL when there is no such key. */
const char *json_text_find(const char *json, const char *key, const char **end);

/* Takes `json` (free) and returns the text in which `key` has the value `with`, in place of the one
 * it had, or else as the last of the object. */
char *json_text_set(char *json, const char *key, const char *with);

#endif
