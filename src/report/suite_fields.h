/* suite_fields.h - what suites and their records have in common as files: each field is checked as it is taken. */
#ifndef REPORT_SUITE_FIELDS_H
#define REPORT_SUITE_FIELDS_H

#include "base/json.h"
#include "report/suite.h"

enum { SUITE_MOST_PARTS = 10000 };

/* Without parts. */
suite *suite_create(void);

/* DYNO_CORRUPT: "WHERE: "FIELD" must be WANTED". */
dyno_status suite_bad_field(const char *where, const char *field, const char *wanted);
/* That the file is of this format, and of a version that is known. */
NODISCARD dyno_status suite_check_format(const char *source, const json_t *root,
                                         const char *wanted);
/* Without the field *out is `fallback`; NULL: it must be there. */
NODISCARD dyno_status suite_take_text(suite *s, const char *where, const json_t *object,
                                      const char *field, const char *fallback, const char **out);
/* The part's "arguments". */
NODISCARD dyno_status suite_take_arguments(suite *s, const char *where, const json_t *entry,
                                           suite_part *part);
/* Copied. */
void suite_part_add_argument(suite *s, suite_part *part, const char *argument);
/* Whether so many bytes name a directory and nothing outside of where it is. */
bool suite_is_plain(const char *name, size_t length);

#endif
