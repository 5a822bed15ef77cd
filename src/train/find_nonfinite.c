/* find_nonfinite.c - only called when a step has failed: it may take its time.
 *
 * Weights come first, since a step on bad weights goes wrong everywhere. With good weights the first
 * launch whose outputs are not finite is the one to blame: all before it were fine. */
#include "train/find_nonfinite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "graph/graph_parameter.h"
#include "tensor/finite.h"
#include "train/split_weights.h"

/* ---- weights ---- */

/* All elements of a parameter or of a state of it, in room that grows. */
typedef struct host_room {
    float *data;
    int64_t capacity;
} host_room;

static dyno_status make_room(host_room *room, int64_t count) {
    if (count <= room->capacity)
        return DYNO_OK;
    free(room->data);
    room->capacity = count;
    room->data = memory_try_allocate((size_t)count * sizeof *room->data);
    if (room->data)
        return DYNO_OK;
    room->capacity = 0;
    return dyno_fail(DYNO_OUT_OF_MEMORY, "no memory for %s of a parameter",
                     units_bytes(count * (int64_t)sizeof *room->data).text);
}

/* The first moment keeps what a gradient was: NaN and Inf do not decay. Storage without moments has
 * had no gradient. */
static dyno_status check_moment(const storage *s, const model_parameter *p, host_room *room,
                                finite_count *c) {
    int64_t count = shape_elements(&p->shape);
    char name[160];
    snprintf(name, sizeof name, "%s%s", parameter_part_prefix(PARAMETER_FIRST_MOMENT), p->name);
    *c = (finite_count){.first = -1};
    if (!storage_find(s, name))
        return DYNO_OK;
    RETURN_IF_FAILED(storage_read(s, name, room->data, count * (int64_t)sizeof *room->data));
    *c = finite_check_floats(room->data, count);
    return DYNO_OK;
}

typedef struct weight_search {
    model_parameter weight, gradient; /* the first bad one, the last whose gradient was */
    finite_count of_weight, of_gradient;
} weight_search;

static dyno_status search_weights(const storage *s, const model_config *config, host_room *room,
                                  weight_search *found) {
    found->of_weight.first = found->of_gradient.first = -1;
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        finite_count c;
        RETURN_IF_FAILED(make_room(room, shape_elements(&p.shape)));
        RETURN_IF_FAILED(weight_read(s, &p, room->data));
        c = finite_check_floats(room->data, shape_elements(&p.shape));
        if (finite_is_all(&c))
            continue;
        if (finite_is_all(&found->of_weight)) {
            found->weight = p;
            found->of_weight = c;
        }
        RETURN_IF_FAILED(check_moment(s, &p, room, &c));
        if (!finite_is_all(&c)) {
            found->gradient = p;
            found->of_gradient = c;
        }
    }
    return DYNO_OK;
}

dyno_status find_nonfinite_weight(const storage *s, const model_config *config, const char *when,
                                  int64_t last) {
    host_room room = {0};
    weight_search found = {0};
    dyno_status status = search_weights(s, config, &room, &found);
    free(room.data);
    if (status != DYNO_OK || finite_is_all(&found.of_weight))
        return status;
    if (finite_is_all(&found.of_gradient))
        return dyno_fail(DYNO_NOT_FINITE, "%s: weight '%s' has %s", when, found.weight.name,
                         finite_format(&found.of_weight).text);
    return dyno_fail(DYNO_NOT_FINITE,
                     "%s: the gradients of step %lld, or of one before it, were not finite; it "
                     "shows first in the gradient of '%s': %s",
                     when, (long long)last, found.gradient.name,
                     finite_format(&found.of_gradient).text);
}

/* ---- launches ---- */

typedef struct launch_search {
    const plan *p;
    device *d;
    char *room; /* of the host, for what lies on a device */
    int64_t capacity;
    text *out;
    dyno_status status;
} launch_search;

/* From its first element to its last. */
static int64_t span_bytes(const tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < t->shape.rank; i++)
        last += (t->shape.dim[i] - 1) * t->stride[i];
    return (last + 1) * dtype_bytes(t->type);
}

static dyno_status to_host(launch_search *search, const tensor *from, tensor *to) {
    *to = *from;
    if (device_is_host(search->d))
        return DYNO_OK;
    int64_t bytes = span_bytes(from);
    if (bytes > search->capacity) {
        free(search->room);
        search->room = memory_try_allocate((size_t)bytes);
        search->capacity = search->room ? bytes : 0;
    }
    if (!search->room)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "the host has no %s to look at a value",
                         units_bytes(bytes).text);
    search->d->functions->read(search->d, search->room, from->data, bytes);
    to->data = search->room;
    return search->d->functions->finish(search->d);
}

/* The mask of attention makes scores minus infinity, and a constant is. */
static bool is_masked(const plan_launch *l, const char *scope) {
    return strstr(scope, "attn") || (l->op_name && strcmp(l->op_name, "fill") == 0);
}

static void describe(launch_search *search, int launch, int output, const finite_count *c) {
    const char *gradient = parameter_part_prefix(PARAMETER_GRADIENT);
    const plan_launch *l = &search->p->launches[launch];
    const char *name = search->p->buffers[l->outputs[output].buffer].name;
    const char *scope = search->p->scopes[l->scope];
    if (name && strncmp(name, gradient, strlen(gradient)) == 0)
        text_format(search->out, "the gradient of '%s'", name + strlen(gradient));
    else
        text_format(search->out, "%s%s%s of the %s", name ? name : "", name ? ", " : "", scope,
                    phase_name(l->phase));
    text_format(search->out, " (%s): %s", l->kernel_name, finite_format(c).text);
}

/* The optimizer writes weights, which were looked at before. */
static bool look(void *context, int launch, const tensor *outputs) {
    launch_search *search = context;
    const plan_launch *l = &search->p->launches[launch];
    if (l->phase == PHASE_OPTIMIZER)
        return true;
    for (int i = 0; i < l->output_count; i++) {
        tensor here;
        if (!dtype_is_float(outputs[i].type) || shape_elements(&outputs[i].shape) == 0)
            continue;
        search->status = to_host(search, &outputs[i], &here);
        if (search->status != DYNO_OK)
            return false;
        finite_count c = finite_check(&here, is_masked(l, search->p->scopes[l->scope]));
        if (!finite_is_all(&c)) {
            describe(search, launch, i, &c);
            return false;
        }
    }
    return true;
}

dyno_status find_nonfinite_launch(executor *e, const plan *p, text *out) {
    launch_search search = {.p = p, .d = executor_device(e), .out = out};
    dyno_status status = executor_inspect(e, look, &search);
    free(search.room);
    return status != DYNO_OK ? status : search.status;
}
