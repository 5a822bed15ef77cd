/* attention_parts.c - one small automaton for each stream. */
#define _GNU_SOURCE
#include "profile/attention_parts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "profile/kernel_classes.h"
#include "tensor/role.h"

/* Between a product and its softmax, and behind that, at most so many other kernels. */
enum { MOST_BETWEEN = 12, MOST_STREAMS = 4096, MOST_PHASE_BYTES = 64 };

typedef enum place { AT_NOTHING, BEHIND_PRODUCT, BEHIND_SOFTMAX } place;

typedef struct stream_state {
    int64_t process;
    int device, stream;
    place at;
    int between; /* launches since the product, or since the softmax */
    int64_t correlation;
    char phase[MOST_PHASE_BYTES];
    attention_sum scores, softmax; /* of the attention that may be under way */
} stream_state;

struct attention_parts {
    stream_state *streams;
    int stream_count, stream_capacity;
    int last; /* the stream of the last launch */
    int64_t found, passed_over;
    attention_sum sums[ATTENTION_PART_COUNT];
};

const char *attention_part_name(attention_part part) {
    static const char *const NAMES[] = {"scores", "softmax", "values", "casts", "fused"};
    return NAMES[part];
}

/* ---- by scope ---- */

/* Nothing but changes of type: "cast", or "cast+cast" of a generated kernel. */
static bool is_cast(const char *op) {
    static const char CAST[] = "cast+";
    while (strncmp(op, CAST, sizeof CAST - 1) == 0)
        op += sizeof CAST - 1;
    return strcmp(op, "cast") == 0;
}

attention_part attention_part_of_scope(const char *scope, const char *class_name, const char *op) {
    static const struct {
        const char *name;
        attention_part of_products;
    } NAMES[] = {{"scores", ATTENTION_SCORES},
                 {"scale", ATTENTION_SOFTMAX},
                 {"mask", ATTENTION_SOFTMAX},
                 {"softmax", ATTENTION_SOFTMAX},
                 {"values", ATTENTION_VALUES}};
    if (strcmp(class_name, CLASS_ATTENTION) == 0)
        return ATTENTION_FUSED;
    const char *last = strrchr(scope, '.');
    if (!last || !strstr(scope, "attn."))
        return ATTENTION_PART_COUNT;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(last + 1, NAMES[i].name) == 0) {
            if (strcmp(class_name, CLASS_MATMUL) == 0)
                return NAMES[i].of_products;
            return is_cast(op) ? ATTENTION_CASTS : ATTENTION_SOFTMAX;
        }
    return ATTENTION_PART_COUNT;
}

/* ---- by order ---- */

attention_parts *attention_parts_create(void) {
    return memory_allocate(1, sizeof(attention_parts));
}

void attention_parts_destroy(attention_parts *parts) {
    if (parts)
        free(parts->streams);
    free(parts);
}

static bool is_of_stream(const stream_state *s, const launch_record *r) {
    return s->process == r->process && s->device == r->device && s->stream == r->stream;
}

/* Streams of several processes may have the same numbers. NULL: there are too many. */
static stream_state *find_stream(attention_parts *parts, const launch_record *r) {
    if (parts->stream_count && is_of_stream(&parts->streams[parts->last], r))
        return &parts->streams[parts->last];
    int at = 0;
    while (at < parts->stream_count && !is_of_stream(&parts->streams[at], r))
        at++;
    if (at == MOST_STREAMS)
        return NULL;
    if (at == parts->stream_count) {
        MEMORY_GROW(parts->streams, parts->stream_count, parts->stream_capacity);
        parts->streams[parts->stream_count++] =
            (stream_state){.process = r->process, .device = r->device, .stream = r->stream};
    }
    parts->last = at;
    return &parts->streams[at];
}

static bool is_class(const launch_record *r, const char *name) {
    return strcmp(r->class_name, name) == 0;
}

/* An operation of the host that only calls the one that computes. */
static bool is_wrapper(const launch_record *r) {
    static const char *const NAMES[] = {"aten::matmul", "aten::linear", "aten::einsum",
                                        "aten::softmax"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(r->recorded, NAMES[i]) == 0)
            return true;
    return false;
}

/* Also of a kernel that a backward launches, whose name says so or its operation's. */
static bool is_of_backward(const launch_record *r) {
    return strcasestr(r->recorded, "backward") || strcasestr(r->recorded, "_bwd") ||
           (r->op && strcasestr(r->op, "backward")) ||
           (r->phase && strcasestr(r->phase, "backward"));
}

static bool changes_numbers(const launch_record *r) {
    return is_class(r, "element-wise") || is_class(r, "copy") || is_class(r, "reduction") ||
           is_class(r, "random");
}

static attention_sum sum_of(const launch_record *r, bool needs_flops) {
    return (attention_sum){1, (double)(r->end_ns - r->begin_ns), r->has_cost ? r->flops : 0,
                           needs_flops && !r->has_cost};
}

static void add_to(attention_sum *to, attention_sum more) {
    to->launches += more.launches;
    to->ns += more.ns;
    to->flops += more.flops;
    to->without_flops += more.without_flops;
}

/* A product: what was under way ends here, and it may be the next one's scores. */
static void take_product(attention_parts *parts, stream_state *s, const launch_record *r) {
    if (s->at == BEHIND_SOFTMAX) {
        parts->found++;
        add_to(&parts->sums[ATTENTION_SCORES], s->scores);
        add_to(&parts->sums[ATTENTION_SOFTMAX], s->softmax);
        add_to(&parts->sums[ATTENTION_VALUES], sum_of(r, true));
    }
    s->at = BEHIND_PRODUCT;
    s->scores = sum_of(r, true);
    s->softmax = (attention_sum){0};
    s->between = 0;
}

/* A launch that belongs to no phase may be of any: a mask that is made on the way, for instance. */
static bool is_in_order(const stream_state *s, const launch_record *r) {
    return r->correlation >= s->correlation &&
           (!r->phase || !s->phase[0] || strncmp(s->phase, r->phase, MOST_PHASE_BYTES - 1) == 0);
}

void attention_parts_add(attention_parts *parts, const launch_record *r) {
    stream_state *s = find_stream(parts, r);
    bool is_looked_for = is_class(r, CLASS_MATMUL) || is_class(r, CLASS_SOFTMAX);
    parts->passed_over +=
        is_looked_for && r->correlation >= 0 && (!s || r->correlation < s->correlation);
    if (!s)
        return;
    if (!is_in_order(s, r) || is_of_backward(r))
        s->at = AT_NOTHING;
    s->correlation = r->correlation;
    if (r->phase)
        strncpy(s->phase, r->phase, MOST_PHASE_BYTES - 1);
    if (is_of_backward(r))
        return;
    if (is_class(r, CLASS_ATTENTION)) {
        add_to(&parts->sums[ATTENTION_FUSED], sum_of(r, true));
    } else if (is_class(r, CLASS_MATMUL)) {
        if (!is_wrapper(r))
            take_product(parts, s, r);
    } else if (is_class(r, CLASS_SOFTMAX) && s->at != AT_NOTHING) {
        add_to(&s->softmax, sum_of(r, !is_wrapper(r)));
        s->at = BEHIND_SOFTMAX;
        s->between = 0;
    } else if (changes_numbers(r) && s->at != AT_NOTHING) {
        add_to(&s->softmax, sum_of(r, false));
        if (++s->between > MOST_BETWEEN)
            s->at = AT_NOTHING;
    } else if (is_class(r, "optimizer") || is_class(r, "loss")) {
        s->at = AT_NOTHING;
    }
}

void attention_parts_add_own(attention_parts *parts, const launch_record *r) {
    const char *class_name = r->class_name ? r->class_name : "", *op = r->op ? r->op : "";
    if (!r->scope || !r->phase || strcmp(r->phase, phase_name(PHASE_FORWARD)) != 0)
        return;
    attention_part part = attention_part_of_scope(r->scope, class_name, op);
    if (part != ATTENTION_PART_COUNT)
        add_to(&parts->sums[part], sum_of(r, true));
}

int64_t attention_parts_count(const attention_parts *parts) { return parts->found; }

int64_t attention_parts_passed_over(const attention_parts *parts) { return parts->passed_over; }

attention_sum attention_parts_sum(const attention_parts *parts, attention_part part) {
    return parts->sums[part];
}
