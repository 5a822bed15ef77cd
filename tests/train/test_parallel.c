/* test_parallel.c - several ranks take the steps of one process that accumulates as many micro-batches,
 * bit for bit. Every rank also computes the latter, by itself, and compares. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "measure/keys.h"
#include "measure/memory_stages.h"
#include "model/parameters.h"
#include "plan/memory_account.h"
#include "support/expect.h"
#include "support/fake_device.h"
#include "support/ranks.h"
#include "support/small_model.h"
#include "train/split_weights.h"
#include "train/trainer.h"

enum { CONTEXT = 5, MOST_RANKS = 6, STEPS = 10, MEMORY_LIMIT = 1 << 24 };

static const model_config tiny = {.name = "tiny",
                                  .d_model = 12,
                                  .d_ff = 20,
                                  .layers = 2,
                                  .heads = 3,
                                  .kv_heads = 1,
                                  .head_dim = 4,
                                  .vocab = 23,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

/* How a step is run. */
typedef struct way {
    const char *parallel;
    step_mode mode;
    precision math;
    double clip_norm;
    int64_t micro_batches; /* of each rank */
    recompute_options recompute;
    const char *reduce; /* NULL: fp32 */
} way;

typedef struct outcome {
    float losses[STEPS];
    float *weights;
} outcome;

static size_t weight_bytes(void) { return (size_t)model_parameter_elements(&tiny) * sizeof(float); }

static float *read_weights(trainer *t) {
    float *weights = memory_allocate(1, weight_bytes()), *next = weights;
    for (int i = 0; i < model_parameter_count(&tiny); i++) {
        model_parameter p = model_parameter_at(&tiny, i);
        RANK_OK(weight_read(trainer_storage(t), &p, next));
        next += shape_elements(&p.shape);
    }
    return weights;
}

/* `c` NULL: one process takes all micro-batches of `ranks`. */
static step_options options_of(const way *how, int ranks, communicator *c) {
    step_options options = small_model_step(&tiny, 1, CONTEXT, STEP_FULL);
    options.keep_logits = options.pipeline.keep_gradients = false;
    options.pipeline.mode = how->mode;
    options.pipeline.precision = how->math;
    options.pipeline.recompute = how->recompute;
    options.pipeline.optimizer.clip_norm = how->clip_norm;
    options.pipeline.micro_batches = how->micro_batches * (c ? 1 : ranks);
    if (c) {
        RANK_OK(parallel_parse(how->parallel, &options.pipeline.parallel));
        options.pipeline.parallel.ranks = ranks;
        options.pipeline.parallel.rank = communicator_rank(c);
        if (how->reduce)
            RANK_OK(parallel_parse_reduce(how->reduce, &options.pipeline.parallel));
    }
    return options;
}

static outcome train_on(device *d, const way *how, int ranks, communicator *c) {
    step_options options = options_of(how, ranks, c);
    trainer *t;
    outcome out;
    RANK_OK(trainer_create_on(c, d, &options, MEMORY_LIMIT, &t));
    RANK_OK(weights_init(trainer_storage(t), &tiny, 1));
    int64_t rows = CONTEXT * options.pipeline.micro_batches;
    int64_t first = c ? rows * communicator_rank(c) : 0;
    int32_t *ids = memory_allocate((size_t)rows + 1, sizeof *ids);
    for (int k = 0; k < STEPS; k++) {
        for (int64_t i = 0; i <= rows; i++) {
            int64_t at = first + i;
            ids[i] = (int32_t)((at * at * 7 + at * 3 + k) % tiny.vocab);
        }
        RANK_OK(trainer_step(t, ids, ids + 1, 1e-2, &out.losses[k]));
    }
    free(ids);
    out.weights = read_weights(t);
    trainer_destroy(t);
    return out;
}

static outcome train(const way *how, int ranks, communicator *c) {
    return train_on(device_cpu(), how, ranks, c);
}

static void expect_same(const way *how, int ranks, const outcome *alone, const outcome *together) {
    float most = 0;
    if (memcmp(alone->weights, together->weights, weight_bytes()) == 0 &&
        memcmp(alone->losses, together->losses, sizeof alone->losses) == 0)
        return;
    for (size_t i = 0; i < weight_bytes() / sizeof(float); i++) {
        float d = alone->weights[i] - together->weights[i];
        most = d > most ? d : -d > most ? -d : most;
    }
    fprintf(stderr, "%s, %d ranks, %s, %s, clip %g: weights differ by %g, losses %g and %g\n",
            how->parallel, ranks, step_mode_name(how->mode), precision_name(how->math),
            how->clip_norm, (double)most, (double)alone->losses[0], (double)together->losses[0]);
    exit(3);
}

static const char *const MODES[] = {"ddp-naive",        "ddp-flat", "ddp-overlap",
                                    "ddp-bucket:0.001", "zero1",    "fsdp"};
enum { MODE_COUNT = sizeof MODES / sizeof *MODES };

/* One thread: ranks share few cores. */
static communicator *join_ranks(world *w) {
    communicator_options options = {.kind = COMMUNICATOR_SHARED};
    communicator *c;
    threads_set_count(1);
    RANK_OK(communicator_create(w, &options, &c));
    return c;
}

static int compare_ways(world *w, void *context) {
    (void)context;
    communicator *c = join_ranks(w);
    int ranks = communicator_count(c);
    for (int i = 0; i < 8; i++) {
        way how = {.mode = i & 1 ? STEP_COMPILED : STEP_EAGER,
                   .math = i & 2 ? PRECISION_BF16 : PRECISION_FP32,
                   .clip_norm = i & 4 ? 0.2 : 0,
                   .micro_batches = 1};
        outcome alone = train(&how, ranks, NULL);
        for (int m = 0; m < MODE_COUNT; m++) {
            how.parallel = MODES[m];
            outcome together = train(&how, ranks, c);
            expect_same(&how, ranks, &alone, &together);
            free(together.weights);
        }
        free(alone.weights);
    }
    communicator_destroy(c);
    return 0;
}

static void ranks_give_the_bits_of_accumulation(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 4, 6};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        ranks_expect_ok(counts[i], compare_ways, NULL);
}

/* On a device with streams the first step runs launch by launch and the others are replayed. */
static int replay_steps(world *w, void *context) {
    (void)context;
    communicator *c = join_ranks(w);
    way how = {.mode = STEP_COMPILED, .clip_norm = 0.2, .micro_batches = 1};
    outcome alone = train(&how, communicator_count(c), NULL);
    for (int m = 0; m < MODE_COUNT; m++) {
        fake_device *f = fake_device_create(MEMORY_LIMIT, true);
        how.parallel = MODES[m];
        outcome together = train_on(fake_device_base(f), &how, communicator_count(c), c);
        expect_same(&how, communicator_count(c), &alone, &together);
        RANK_CHECK(f->captures == 1 && f->replays == STEPS - 1);
        free(together.weights);
        device_close(fake_device_base(f));
    }
    free(alone.weights);
    communicator_destroy(c);
    return 0;
}

static void steps_of_ranks_are_replayed(void **state) {
    (void)state;
    ranks_expect_ok(2, replay_steps, NULL);
}

/* With sizes that divide nothing, sixteen ranks have parts of a few elements and some only padding. */
static int train_on_many(world *w, void *context) {
    (void)context;
    communicator *c = join_ranks(w);
    way how = {.mode = STEP_EAGER, .clip_norm = 0.2, .micro_batches = 1};
    outcome alone = train(&how, communicator_count(c), NULL);
    how.parallel = "fsdp";
    outcome together = train(&how, communicator_count(c), c);
    expect_same(&how, communicator_count(c), &alone, &together);
    free(alone.weights);
    free(together.weights);
    communicator_destroy(c);
    return 0;
}

static void sixteen_ranks_share_two_cores(void **state) {
    (void)state;
    ranks_expect_ok(16, train_on_many, NULL);
}

static double largest_difference(const outcome *a, const outcome *b) {
    double most = 0;
    for (size_t i = 0; i < weight_bytes() / sizeof(float); i++)
        most = fmax(most, fabs((double)a->weights[i] - (double)b->weights[i]));
    return most;
}

static double mean_difference(const outcome *a, const outcome *b) {
    double sum = 0;
    size_t count = weight_bytes() / sizeof(float);
    for (size_t i = 0; i < count; i++)
        sum += fabs((double)a->weights[i] - (double)b->weights[i]);
    return sum / (double)count;
}

/* Sums over ranks of sums over micro-batches: the same numbers in another order. */
static int accumulate_on_ranks(world *w, void *context) {
    (void)context;
    communicator *c = join_ranks(w);
    for (int m = 0; m < MODE_COUNT; m++)
        for (int i = 0; i < 4; i++) {
            way how = {.parallel = MODES[m],
                       .mode = i & 1 ? STEP_COMPILED : STEP_EAGER,
                       .recompute = {.mode = i & 2 ? RECOMPUTE_EVERY : RECOMPUTE_NONE, .every = 1},
                       .clip_norm = 0.2,
                       .micro_batches = 3};
            outcome alone = train(&how, communicator_count(c), NULL);
            outcome together = train(&how, communicator_count(c), c);
            RANK_CHECK(largest_difference(&alone, &together) < 1e-4);
            free(alone.weights);
            free(together.weights);
        }
    communicator_destroy(c);
    return 0;
}

static void ranks_accumulate_and_recompute(void **state) {
    (void)state;
    ranks_expect_ok(2, accumulate_on_ranks, NULL);
}

static int reduce_in_bf16(world *w, void *context) {
    (void)context;
    communicator *c = join_ranks(w);
    for (int m = 0; m < MODE_COUNT; m++)
        for (int i = 0; i < 4; i++) {
            way how = {.parallel = MODES[m],
                       .mode = i & 1 ? STEP_COMPILED : STEP_EAGER,
                       .micro_batches = i & 2 ? 2 : 1,
                       .reduce = "bf16"};
            outcome alone = train(&how, communicator_count(c), NULL);
            outcome together = train(&how, communicator_count(c), c);
            /* Rounded, and not more: where a gradient is about 0, AdamW makes much of its sign. */
            RANK_CHECK(largest_difference(&alone, &together) > 0);
            RANK_CHECK(mean_difference(&alone, &together) < 2e-3);
            RANK_CHECK(fabsf(alone.losses[STEPS - 1] - together.losses[STEPS - 1]) < 0.02f);
            free(alone.weights);
            free(together.weights);
        }
    communicator_destroy(c);
    return 0;
}

static void gradients_are_sent_in_bf16_where_asked(void **state) {
    (void)state;
    ranks_expect_ok(3, reduce_in_bf16, NULL);
}

/* Weights, gradients, state and all else at every stage of a step, as `bench` shows them. */
static void expect_stages_as_predicted(const results_cell *cell) {
    const results_breakdown *stages = cell_find_breakdown(cell, BREAKDOWN_MEMORY_STAGES);
    int64_t all = 0;
    RANK_CHECK(stages && stages->row_count == 4 * ROLE_COUNT);
    for (int64_t i = 0; i < stages->row_count; i++) {
        const results_value *values = stages->rows[i].values;
        if (values[0].integer != values[1].integer)
            fprintf(stderr, "%s, %s: %lld predicted, %lld measured\n", stages->rows[i].keys[0],
                    stages->rows[i].keys[1], (long long)values[0].integer,
                    (long long)values[1].integer);
        RANK_CHECK(values[0].integer == values[1].integer);
        all += values[0].integer;
    }
    RANK_CHECK(all > 0);
}

/* What a rank's pool takes is what its plan said, to the byte; returns the peak. */
static int64_t measure_step(const way *how, communicator *c) {
    step_options step = options_of(how, communicator_count(c), c);
    results *run = results_create("bench", 0, NULL);
    results_cell *cell = results_add_cell(run);
    plan *p;
    memory_pool *pool;
    executor *e;
    RANK_OK(step_plan_create(&step, &p));
    RANK_OK(memory_pool_create(device_cpu(), MEMORY_LIMIT, &pool));
    memory_pool_start_recording(pool);
    storage *s = storage_create(pool);
    storage_set_communicator(s, c);
    RANK_OK(executor_create(p, pool, s, &e));
    executor_set_communicator(e, c);
    RANK_OK(memory_stages_record(e, p, pool, cell));
    expect_stages_as_predicted(cell);
    int64_t peak = memory_pool_peak_taken_bytes(pool);
    RANK_CHECK(peak == memory_account_plan(p).peak_bytes);
    executor_destroy(e);
    storage_destroy(s);
    memory_pool_destroy(pool);
    plan_destroy(p);
    results_destroy(run);
    return peak;
}

static int measure_memory(world *w, void *context) {
    (void)context;
    communicator *c = join_ranks(w);
    int64_t peak[MODE_COUNT];
    for (int m = 0; m < MODE_COUNT; m++)
        for (int i = 0; i < 4; i++) {
            way how = {.parallel = MODES[m],
                       .mode = STEP_COMPILED,
                       .math = i & 1 ? PRECISION_BF16 : PRECISION_FP32,
                       .micro_batches = i & 2 ? 2 : 1};
            int64_t taken = measure_step(&how, c);
            if (i == 0)
                peak[m] = taken;
        }
    RANK_CHECK(peak[MODE_COUNT - 2] < peak[0] && peak[MODE_COUNT - 1] < peak[MODE_COUNT - 2]);
    communicator_destroy(c);
    return 0;
}

static void memory_of_a_rank_is_as_predicted(void **state) {
    (void)state;
    ranks_expect_ok(4, measure_memory, NULL);
}

/* Bytes alive at the peak of a compiled step of one of four ranks, or of one process alone. */
static memory_account account_of(const model_config *config, precision math, bool is_fsdp) {
    step_options options = small_model_step(config, 4, 128, STEP_FULL);
    options.keep_logits = options.pipeline.keep_gradients = false;
    options.pipeline.mode = STEP_COMPILED;
    options.pipeline.precision = math;
    options.pipeline.is_unverified = true;
    options.pipeline.optimizer.clip_norm = 0; /* gradients that are used are free again */
    options.pipeline.parallel = (parallel_options){.mode = PARALLEL_FSDP, .ranks = is_fsdp ? 4 : 1};
    plan *p;
    expect_ok(step_plan_create(&options, &p));
    memory_account account = memory_account_plan(p);
    plan_destroy(p);
    return account;
}

static void fsdp_needs_a_share_of_the_state_activations_and_two_blocks(void **state) {
    (void)state;
    model_config config;
    expect_ok(model_config_from_preset("small", &config));
    for (int i = 0; i < 2; i++) {
        precision math = i ? PRECISION_BF16 : PRECISION_FP32;
        memory_account alone = account_of(&config, math, false);
        memory_account shared = account_of(&config, math, true);
        double elements = (double)model_parameter_elements(&config);
        double outside = (double)(2 * config.vocab * config.d_model + config.d_model);
        double gathered = (elements - outside) / (double)config.layers * (i ? 2 : 4);
        double activations = (double)(alone.at_peak[ROLE_SAVED] + alone.at_peak[ROLE_ACTIVATION] +
                                      alone.at_peak[ROLE_WORKSPACE]);
        double formula = elements * (4 + 4 + 8) / 4 + activations + 2 * gathered;
        assert_true((double)shared.alive_bytes < 1.1 * formula);
        assert_true((double)shared.peak_bytes < 1.1 * formula);
        assert_true((double)shared.alive_bytes > 0.9 * formula);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_the_bits_of_accumulation),
        cmocka_unit_test(steps_of_ranks_are_replayed),
        cmocka_unit_test(sixteen_ranks_share_two_cores),
        cmocka_unit_test(ranks_accumulate_and_recompute),
        cmocka_unit_test(gradients_are_sent_in_bf16_where_asked),
        cmocka_unit_test(memory_of_a_rank_is_as_predicted),
        cmocka_unit_test(fsdp_needs_a_share_of_the_state_activations_and_two_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
