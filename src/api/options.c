#include "api/options.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "experiments/shared_flags.h"

static dyno_status read_size(const char *what, const void *given, size_t *size) {
    memcpy(size, given, sizeof *size);
    if (*size < sizeof *size)
        return dyno_fail(DYNO_INVALID, "%s: size is %zu; set it to the size of the struct", what,
                         *size);
    return DYNO_OK;
}

dyno_status options_take(const char *what, const void *given, void *known, size_t size) {
    size_t there;
    RETURN_IF_FAILED(read_size(what, given, &there));
    for (size_t i = size; i < there; i++)
        if (((const char *)given)[i])
            return dyno_fail(
                DYNO_UNSUPPORTED,
                "%s: a field behind the first %zu bytes is set, which dyno %s does not "
                "know; a newer library may",
                what, size, dyno_version());
    memcpy(known, given, there < size ? there : size);
    return DYNO_OK;
}

dyno_status options_give(const char *what, const void *known, size_t size, void *out) {
    size_t there;
    RETURN_IF_FAILED(read_size(what, out, &there));
    memset(out, 0, there);
    memcpy(out, known, there < size ? there : size);
    memcpy(out, &there, sizeof there);
    return DYNO_OK;
}

dyno_status options_take_render(const dyno_render_options *given, table_format usual,
                                view_options *out) {
    dyno_render_options known = {0};
    if (given)
        RETURN_IF_FAILED(options_take("dyno_render_options", given, &known, sizeof known));
    if (known.columns < 0 || known.columns > INT_MAX)
        return dyno_fail(DYNO_INVALID,
                         "dyno_render_options: columns is %lld, it must be 0 for all, or a width",
                         (long long)known.columns);
    *out = (view_options){usual, known.is_bold, known.has_plots, (int)known.columns};
    return known.format ? table_format_parse(known.format, &out->format) : DYNO_OK;
}

static const flag_spec *find_limits(const char *name) {
    static const flag_spec LIMITS[] = {BATCH_FLAG,    ACCUMULATE_FLAG, RANKS_FLAG,
                                       SEQUENCE_FLAG, THREADS_FLAG,    OPTIMIZER_FLAGS};
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++)
        if (strcmp(LIMITS[i].name, name) == 0)
            return &LIMITS[i];
    assert(!"a flag of this name");
    return NULL;
}

dyno_status options_check_integer(const char *name, int64_t number) {
    return flag_check_integer(find_limits(name), "", number);
}

dyno_status options_check_real(const char *name, double number) {
    return flag_check_real(find_limits(name), "", number);
}

char *options_take_text(text *from) {
    char *data = from->data ? from->data : memory_copy_string("");
    *from = (text){0};
    return data;
}

void dyno_text_free(char *given) { free(given); }

dyno_status dyno_set_threads(int count) {
    RETURN_IF_FAILED(options_check_integer("threads", count));
    RETURN_IF_FAILED(threads_check(count));
    threads_set_count(count);
    return status_conclude(DYNO_OK);
}
