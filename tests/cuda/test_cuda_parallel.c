/* Steps of ranks that share the GPU here, over NCCL: every way to be parallel, eager and replayed as a captured
 * graph, against one rank that accumulates. NCCL sums in its own order: results agree to rounding, and are
 * the same bits on every run. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/parameters.h"
#include "runtime/device.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/skip.h"
#include "support/small_model.h"
#include "train/split_weights.h"
#include "train/trainer.h"

enum { NO_GPU = 77, CONTEXT = 16, BATCH = 2, STEPS = 4, MEMORY_LIMIT = 1 << 28 };

static const model_config small = {.name = "small",
                                   .d_model = 64,
                                   .d_ff = 96,
                                   .layers = 3,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 16,
                                   .vocab = 131,
                                   .norm_eps = 1e-5,
                                   .rope_theta = 10000};

static const char *const MODES[] = {"ddp-naive",       "ddp-flat", "ddp-overlap",
                                    "ddp-bucket:0.05", "zero1",    "fsdp"};
enum { MODE_COUNT = sizeof MODES / sizeof *MODES };

static int leave_without_gpu(void) {
    if (world_may_report())
        fprintf(stderr, "%s\n", dyno_error_message());
    exit(NO_GPU);
}

/* A forked child must be the first to use CUDA: the test's own process never does. */
static device *open_gpu(void) {
    device *d;
    return device_open("cuda", &d) == DYNO_OK ? d : (leave_without_gpu(), NULL);
}

static communicator *open_communicator(world *w, device *d) {
    communicator_options options = {.kind = COMMUNICATOR_NCCL};
    communicator *c;
    dyno_status status = device_create_communicator(d, w, &options, &c);
    if (status == DYNO_UNSUPPORTED)
        leave_without_gpu();
    RANK_OK(status);
    return c;
}

typedef struct outcome {
    float losses[STEPS];
    float *weights;
} outcome;

static size_t weight_count(void) { return (size_t)model_parameter_elements(&small); }

/* `c` NULL: one process takes the micro-batches of all ranks. */
static outcome train(device *d, communicator *c, int ranks, const char *mode, step_mode how_run,
                     double clip_norm) {
    step_options options = small_model_step(&small, BATCH, CONTEXT, STEP_FULL);
    options.keep_logits = options.pipeline.keep_gradients = false;
    options.pipeline.target = &d->target;
    options.pipeline.mode = how_run;
    options.pipeline.optimizer.clip_norm = clip_norm;
    options.pipeline.micro_batches = c ? 1 : ranks;
    if (c) {
        RANK_OK(parallel_parse(mode, &options.pipeline.parallel));
        options.pipeline.parallel.ranks = ranks;
        options.pipeline.parallel.rank = communicator_rank(c);
    }
    trainer *t;
    outcome out;
    RANK_OK(trainer_create_on(c, d, &options, MEMORY_LIMIT, &t));
    RANK_OK(weights_init(trainer_storage(t), &small, 1));
    int64_t rows = BATCH * CONTEXT * options.pipeline.micro_batches;
    int64_t first = c ? rows * communicator_rank(c) : 0;
    int32_t *ids = memory_allocate((size_t)rows + 1, sizeof *ids);
    for (int k = 0; k < STEPS; k++) {
        for (int64_t i = 0; i <= rows; i++)
            ids[i] = (int32_t)(((first + i) * (first + i) * 7 + (first + i) * 3 + k) % small.vocab);
        RANK_OK(trainer_step(t, ids, ids + 1, 1e-3, &out.losses[k]));
    }
    free(ids);
    out.weights = memory_allocate(weight_count(), sizeof(float));
    float *next = out.weights;
    for (int i = 0; i < model_parameter_count(&small); i++) {
        model_parameter p = model_parameter_at(&small, i);
        RANK_OK(weight_read(trainer_storage(t), &p, next));
        next += shape_elements(&p.shape);
    }
    trainer_destroy(t);
    return out;
}

/* AdamW divides by the size of a gradient, so that rounding shows in the direction of those that are
 * about 0: the mean is held to 1e-6, single weights to the size of an update. */
static void expect_close(const char *mode, const outcome *alone, const outcome *together) {
    double most = 0, sum = 0;
    for (size_t i = 0; i < weight_count(); i++) {
        double off = fabs((double)alone->weights[i] - (double)together->weights[i]);
        most = off > most ? off : most;
        sum += off;
    }
    double mean = sum / (double)weight_count(), loss = 0;
    for (int k = 0; k < STEPS; k++) {
        double off = fabs((double)alone->losses[k] / (double)together->losses[k] - 1);
        loss = off > loss ? off : loss;
    }
    if (mean < 1e-6 && most < 2e-3 && loss < 1e-5)
        return;
    fprintf(stderr, "%s: weights differ by %g on average, %g at most, losses by %g\n", mode, mean,
            most, loss);
    exit(3);
}

static void compare_modes(world *w, device *d, communicator *c, step_mode how_run) {
    for (int i = 0; i < 2; i++) {
        double clip_norm = i ? 0.2 : 0;
        outcome alone = train(d, NULL, world_count(w), "", how_run, clip_norm);
        for (int m = 0; m < MODE_COUNT; m++) {
            outcome together = train(d, c, world_count(w), MODES[m], how_run, clip_norm);
            outcome again = train(d, c, world_count(w), MODES[m], how_run, clip_norm);
            expect_close(MODES[m], &alone, &together);
            RANK_CHECK(memcmp(together.weights, again.weights, weight_count() * sizeof(float)) ==
                       0);
            free(together.weights);
            free(again.weights);
        }
        free(alone.weights);
    }
}

static int take_steps(world *w, void *context) {
    device *d = open_gpu();
    communicator *c = open_communicator(w, d);
    compare_modes(w, d, c, *(const step_mode *)context);
    communicator_destroy(c);
    device_close(d);
    return 0;
}

static void expect_ranks(int count, step_mode how_run) {
    dyno_status status;
    int code = ranks_run(count, 120, take_steps, &how_run, &status);
    if (code == NO_GPU)
        SKIP_BECAUSE("there is no GPU, or no NCCL");
    expect_ok(status);
    assert_int_equal(code, 0);
}

static void two_ranks_take_eager_steps(void **state) {
    (void)state;
    expect_ranks(2, STEP_EAGER);
}

static void two_ranks_replay_captured_steps(void **state) {
    (void)state;
    expect_ranks(2, STEP_COMPILED);
}

static void four_ranks_take_eager_steps(void **state) {
    (void)state;
    expect_ranks(4, STEP_EAGER);
}

static void four_ranks_replay_captured_steps(void **state) {
    (void)state;
    expect_ranks(4, STEP_COMPILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_take_eager_steps),
        cmocka_unit_test(two_ranks_replay_captured_steps),
        cmocka_unit_test(four_ranks_take_eager_steps),
        cmocka_unit_test(four_ranks_replay_captured_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
