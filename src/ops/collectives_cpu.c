#include "ops/collectives.h"

#include <string.h>

dyno_status collective_run_on_cpu(const kernel_args *args, const collective *what) {
    communicator *c = args->context ? args->context->communicator : NULL;
    int64_t ranks = attribute_integer(args->attributes, "ranks");
    if (!c && ranks == 1) {
        if (what->to != what->from)
            memcpy(what->to, what->from, (size_t)(what->count * dtype_bytes(what->type)));
        return DYNO_OK;
    }
    if (!c || communicator_count(c) != ranks)
        return dyno_fail(DYNO_INVALID, "%s of %lld ranks: there are %d",
                         collective_op_name(what->op), (long long)ranks,
                         c ? communicator_count(c) : 1);
    return args->context->handle ? communicator_start(c, what, args->context->handle)
                                 : communicator_run(c, what);
}

dyno_status collective_check_ranks(const node *n, int64_t *ranks) {
    RETURN_IF_FAILED(node_require_attribute(n, "ranks", ATTRIBUTE_INTEGER));
    *ranks = attribute_integer(&n->attributes, "ranks");
    if (*ranks < 1)
        return dyno_fail(DYNO_INVALID, "ranks is %lld, it must be at least 1", (long long)*ranks);
    return DYNO_OK;
}

double collective_bytes_sent(collective_op which, double bytes, int64_t ranks) {
    double part = bytes * (double)(ranks - 1) / (double)ranks;
    return which == COLLECTIVE_ALL_REDUCE ? 2 * part : part;
}

int collective_attributes(const collective_place *place, attribute *items) {
    int count = 0;
    items[count++] = ATTR_INTEGER("ranks", place->ranks);
    if (place->is_overlapped)
        items[count++] = ATTR_INTEGER("overlapped", 1);
    if (place->is_once)
        items[count++] = ATTR_INTEGER("once", 1);
    return count;
}
