/* options.h - structs of dyno.h, which programs older or newer than this library fill, and the
 * limits of the values in them. */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include <stdint.h>

#include "base/text.h"
#include "report/view.h"

/* Copies the program's struct, which begins with its size, over `known`, which holds the defaults.
 * Fields that only one of the two has are left as they are, or must be 0. `what` is the struct's
 * name in messages. */
NODISCARD dyno_status options_take(const char *what, const void *given, void *known, size_t size);
/* The other way round: fills what the program's struct has room for. */
NODISCARD dyno_status options_give(const char *what, const void *known, size_t size, void *out);

/* dyno_render_options, which may be NULL; `usual` is the format where they name none. */
NODISCARD dyno_status options_take_render(const dyno_render_options *given, table_format usual,
                                          view_options *out);

/* Fails unless the value is one that the command line's flag of this name takes. */
NODISCARD dyno_status options_check_integer(const char *name, int64_t number);
NODISCARD dyno_status options_check_real(const char *name, double number);

/* The text as the caller's own; `from` is empty then. */
char *options_take_text(text *from);

#endif
