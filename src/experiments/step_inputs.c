#include "experiments/step_inputs.h"

#include "base/rng.h"
#include "train/loss_scale.h"

/* Nothing where the plan has no such input: a forward has no learning rate. */
static dyno_status set_input(executor *e, const char *name, const void *data, int64_t bytes) {
    return executor_find(e, name).data ? executor_write(e, name, data, bytes) : DYNO_OK;
}

dyno_status step_inputs_fill(executor *e, const model_config *config, uint64_t seed, int rank) {
    static const char *const names[] = {"tokens", "targets"};
    for (int i = 0; i < 2; i++) {
        rng_stream random = rng_stream_init(seed, rng_hash_name(names[i]));
        tensor at = executor_find(e, names[i]);
        int32_t *ids = executor_place(e, names[i]);
        if (!ids)
            return dyno_fail(DYNO_OUT_OF_MEMORY, "the host has no memory for %s", names[i]);
        int64_t count = shape_elements(&at.shape), first = rank * count;
        for (int64_t j = 0; j < count; j++)
            ids[j] = (int32_t)(rng_bits(random, (uint64_t)(first + j)) % (uint64_t)config->vocab);
        executor_put(e, names[i], ids);
    }
    double rate = 1e-6;
    int64_t step = 1;
    float scale = LOSS_SCALE_START;
    RETURN_IF_FAILED(set_input(e, "learning_rate", &rate, sizeof rate));
    RETURN_IF_FAILED(set_input(e, "step", &step, sizeof step));
    return set_input(e, "loss_scale", &scale, sizeof scale);
}
