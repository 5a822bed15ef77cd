/* weights.c - the host draws, reads and rounds weights; the device keeps them.
 *
 * Where the host can reach them they are made in place. Elsewhere there is room for one parameter
 * here, the largest, and each passes through it. */
#include "train/weights.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/threads.h"
#include "base/units.h"
#include "compiler/low_copies.h"
#include "ops/cast/convert.h"

typedef struct desk {
    storage *s;
    bool is_host;
    float *room; /* both NULL when is_host */
    uint16_t *low_room;
} desk;

static dyno_status desk_open(storage *s, const model_config *config, desk *out) {
    *out = (desk){.s = s, .is_host = device_is_host(storage_device(s))};
    if (out->is_host)
        return DYNO_OK;
    int64_t most = 0;
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        most = shape_elements(&p.shape) > most ? shape_elements(&p.shape) : most;
    }
    out->room = malloc((size_t)most * sizeof *out->room);
    out->low_room = malloc((size_t)most * sizeof *out->low_room);
    if (out->room && out->low_room)
        return DYNO_OK;
    free(out->room);
    free(out->low_room);
    return dyno_fail(DYNO_OUT_OF_MEMORY,
                     "the host has no %s for the largest parameter on its way to the device",
                     units_bytes(most * (int64_t)sizeof(float)).text);
}

static void desk_close(desk *d) {
    free(d->room);
    free(d->low_room);
}

static int64_t bytes_of(const model_parameter *p) {
    return shape_elements(&p->shape) * (int64_t)sizeof(float);
}

/* Where the host may write the parameter; desk_put then brings it to the device. */
static float *desk_place(const desk *d, const model_parameter *p) {
    float *data = d->is_host ? storage_find(d->s, p->name) : d->room;
    assert(data); /* the plan that filled the storage was made from the same configuration */
    return data;
}

typedef struct rounding {
    dtype low;
    const float *from;
    uint16_t *to;
} rounding;

static void round_some(void *context, int64_t begin, int64_t end) {
    const rounding *r = context;
    convert_f32_to_low(r->low, end - begin, r->from + begin, r->to + begin);
}

/* Rounds the parameter, which lies at desk_place, into its low copy if there is one. */
static dyno_status put_low_copy(const desk *d, const model_parameter *p) {
    enum { GRAIN = 1 << 16 };
    char name[sizeof p->name + sizeof LOW_COPY_PREFIX];
    snprintf(name, sizeof name, LOW_COPY_PREFIX "%s", p->name);
    tensor copy = storage_find_tensor(d->s, name);
    if (!copy.data)
        return DYNO_OK;
    rounding r = {copy.type, desk_place(d, p), d->is_host ? copy.data : d->low_room};
    threads_for(shape_elements(&copy.shape), GRAIN, round_some, &r);
    return d->is_host ? DYNO_OK : storage_write(d->s, name, d->low_room, tensor_bytes(&copy));
}

static dyno_status desk_put(const desk *d, const model_parameter *p) {
    if (!d->is_host)
        RETURN_IF_FAILED(storage_write(d->s, p->name, d->room, bytes_of(p)));
    return put_low_copy(d, p);
}

static dyno_status desk_get(const desk *d, const model_parameter *p) {
    return d->is_host ? DYNO_OK : storage_read(d->s, p->name, d->room, bytes_of(p));
}

dyno_status weights_init(storage *s, const model_config *config, uint64_t seed) {
    desk d;
    RETURN_IF_FAILED(desk_open(s, config, &d));
    dyno_status status = DYNO_OK;
    for (int i = 0; i < model_parameter_count(config) && status == DYNO_OK; i++) {
        model_parameter p = model_parameter_at(config, i);
        model_parameter_init(&p, seed, desk_place(&d, &p));
        status = desk_put(&d, &p);
    }
    desk_close(&d);
    return status;
}

dyno_status weights_load(storage *s, const hf_directory *directory) {
    const model_config *config = hf_directory_config(directory);
    desk d;
    RETURN_IF_FAILED(desk_open(s, config, &d));
    dyno_status status = DYNO_OK;
    for (int i = 0; i < model_parameter_count(config) && status == DYNO_OK; i++) {
        model_parameter p = model_parameter_at(config, i);
        status = hf_directory_read(directory, p.name, desk_place(&d, &p));
        if (status == DYNO_OK)
            status = desk_put(&d, &p);
    }
    desk_close(&d);
    return status;
}

dyno_status weights_fill_low_copies(storage *s, const model_config *config) {
    desk d;
    RETURN_IF_FAILED(desk_open(s, config, &d));
    dyno_status status = DYNO_OK;
    for (int i = 0; i < model_parameter_count(config) && status == DYNO_OK; i++) {
        model_parameter p = model_parameter_at(config, i);
        char name[sizeof p.name + sizeof LOW_COPY_PREFIX];
        snprintf(name, sizeof name, LOW_COPY_PREFIX "%s", p.name);
        if (!storage_find(s, name))
            continue;
        status = desk_get(&d, &p);
        if (status == DYNO_OK)
            status = put_low_copy(&d, &p);
    }
    desk_close(&d);
    return status;
}

static dyno_status give_parameter(void *context, int index, const model_parameter *parameter,
                                  const float **data) {
    (void)index;
    const desk *d = context;
    *data = desk_place(d, parameter);
    return desk_get(d, parameter);
}

dyno_status weights_save(storage *s, const model_config *config, const char *path) {
    desk d;
    RETURN_IF_FAILED(desk_open(s, config, &d));
    dyno_status status = hf_directory_write(path, config, give_parameter, &d);
    desk_close(&d);
    return status;
}
