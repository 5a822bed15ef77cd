/* weights.c - a parameter at a time, through memory of the host that holds the largest. */
#include "train/weights.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/stop.h"
#include "tensor/finite.h"
#include "train/split_weights.h"

static float *room_for_largest(const model_config *config) {
    int64_t most = 0;
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        int64_t count = shape_elements(&p.shape);
        most = count > most ? count : most;
    }
    return memory_allocate((size_t)most, sizeof(float));
}

dyno_status weights_init_unless(storage *s, const model_config *config, uint64_t seed,
                                bool (*should_stop)(void *context), void *context) {
    float *room = room_for_largest(config);
    dyno_status status = DYNO_OK;
    int count = model_parameter_count(config);
    for (int i = 0; i < count && status == DYNO_OK; i++) {
        if (should_stop && should_stop(context)) {
            status =
                dyno_fail(DYNO_INTERRUPTED, "interrupted after drawing %d of %d weights", i, count);
            break;
        }
        model_parameter p = model_parameter_at(config, i);
        model_parameter_init(&p, seed, room);
        status = stop_check("drawing weights");
        if (status == DYNO_OK)
            status = weight_write(s, &p, room);
    }
    free(room);
    return status;
}

dyno_status weights_init(storage *s, const model_config *config, uint64_t seed) {
    return weights_init_unless(s, config, seed, NULL, NULL);
}

dyno_status weight_check_finite(const model_parameter *parameter, const float *x) {
    finite_count c = finite_check_floats(x, shape_elements(&parameter->shape));
    if (finite_is_all(&c))
        return DYNO_OK;
    return dyno_fail(DYNO_NOT_FINITE, "weight '%s' has %s", parameter->name,
                     finite_format(&c).text);
}

static dyno_status load(storage *s, const hf_directory *directory, bool is_checked) {
    const model_config *config = hf_directory_config(directory);
    float *room = room_for_largest(config);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < model_parameter_count(config) && status == DYNO_OK; i++) {
        model_parameter p = model_parameter_at(config, i);
        status = hf_directory_read(directory, p.name, room);
        if (status == DYNO_OK && is_checked)
            status = weight_check_finite(&p, room);
        if (status == DYNO_OK)
            status = weight_write(s, &p, room);
    }
    free(room);
    return status;
}

dyno_status weights_load(storage *s, const hf_directory *directory) {
    return load(s, directory, false);
}

dyno_status weights_load_finite(storage *s, const hf_directory *directory) {
    return load(s, directory, true);
}

dyno_status weights_fill_low_copies(storage *s, const model_config *config) {
    float *room = room_for_largest(config);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < model_parameter_count(config) && status == DYNO_OK; i++) {
        model_parameter p = model_parameter_at(config, i);
        if (!weight_has_copy(s, &p))
            continue;
        status = weight_read(s, &p, room);
        if (status == DYNO_OK)
            status = weight_write(s, &p, room);
    }
    free(room);
    return status;
}

typedef struct save_context {
    const storage *s;
    float *room;
} save_context;

static dyno_status give_parameter(void *context, int index, const model_parameter *parameter,
                                  const float **data) {
    (void)index;
    const save_context *c = context;
    *data = c->room;
    return weight_read(c->s, parameter, c->room);
}

dyno_status weights_save_as(const storage *s, const model_config *config, const char *path,
                            const hf_write_options *how) {
    save_context context = {s, room_for_largest(config)};
    dyno_status status = hf_directory_write_as(path, config, how, give_parameter, &context);
    free(context.room);
    return status;
}

dyno_status weights_save(const storage *s, const model_config *config, const char *path) {
    return weights_save_as(s, config, path, &(hf_write_options){0});
}

dyno_status weights_offer(const storage *s, const model_config *config) {
    float *room = room_for_largest(config);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < model_parameter_count(config) && status == DYNO_OK; i++) {
        model_parameter p = model_parameter_at(config, i);
        if (storage_find_parameter(s, p.name).part)
            status = weight_read(s, &p, room);
    }
    free(room);
    return status;
}
