/* weights.c - a parameter at a time, through memory of the host that holds the largest. */
#include "train/weights.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/stop.h"
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

dyno_status weights_load(storage *s, const hf_directory *directory) {
    const model_config *config = hf_directory_config(directory);
    float *room = room_for_largest(config);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < model_parameter_count(config) && status == DYNO_OK; i++) {
        model_parameter p = model_parameter_at(config, i);
        status = hf_directory_read(directory, p.name, room);
        if (status == DYNO_OK)
            status = weight_write(s, &p, room);
    }
    free(room);
    return status;
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

dyno_status weights_save(const storage *s, const model_config *config, const char *path) {
    save_context context = {s, room_for_largest(config)};
    dyno_status status = hf_directory_write(path, config, give_parameter, &context);
    free(context.room);
    return status;
}
