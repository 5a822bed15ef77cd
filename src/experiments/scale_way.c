#include "experiments/scale_way.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR "tp"
#define BOTH "fsdp+tp"

static dyno_status parse_group(const char *name, const char *digits, int64_t *group) {
    char *end;
    long long number = strtoll(digits, &end, 10);
    if (end == digits || *end || number < 2 || number > 65536)
        return dyno_fail(DYNO_INVALID,
                         "--parallel: '%s': a group of tp has 2 to 65536 ranks; write fsdp+tp:8",
                         name);
    *group = number;
    return DYNO_OK;
}

dyno_status scale_way_parse(const char *name, scale_way *out) {
    *out = (scale_way){0};
    bool is_both = strncmp(name, BOTH, strlen(BOTH)) == 0;
    const char *rest = name + strlen(BOTH);
    out->is_tensor_alone = strcmp(name, TENSOR) == 0;
    out->is_tensor = out->is_tensor_alone || is_both;
    if (is_both && *rest && *rest != ':')
        return dyno_fail(DYNO_INVALID, "--parallel: '%s' is not a way; write fsdp+tp or fsdp+tp:8",
                         name);
    if (is_both && *rest)
        RETURN_IF_FAILED(parse_group(name, rest + 1, &out->group));
    const char *planned = out->is_tensor ? "fsdp" : name;
    dyno_status status = parallel_parse(planned, &out->parallel);
    if (status != DYNO_OK)
        return dyno_fail(status, "%s; on paper there are also tp and fsdp+tp:Y",
                         dyno_error_message());
    snprintf(out->name, sizeof out->name, "%s",
             out->is_tensor ? name : parallel_format(&out->parallel).text);
    return DYNO_OK;
}

dyno_status scale_way_divide(const scale_way *way, int64_t ranks, int64_t per_node,
                             const model_config *config, scale_division *out) {
    *out = (scale_division){1, ranks};
    if (!way->is_tensor)
        return DYNO_OK;
    int64_t group = way->is_tensor_alone ? ranks : way->group ? way->group : per_node;
    if (group > config->heads)
        return dyno_fail(DYNO_INVALID,
                         "tp of %lld ranks: the model has %lld heads, and each rank needs one",
                         (long long)group, (long long)config->heads);
    if (ranks % group != 0)
        return dyno_fail(DYNO_INVALID, "%lld ranks are not whole groups of %lld with tp",
                         (long long)ranks, (long long)group);
    *out = (scale_division){group, ranks / group};
    return DYNO_OK;
}
