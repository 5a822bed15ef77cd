/* test_parallel_faults.c - a rank dies in the middle of a step, in every way to be parallel: in a kernel, in
 * a collective, and while its weights are read back. */
#define _GNU_SOURCE
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "model/parameters.h"
#include "runtime/device.h"
#include "support/rank_faults.h"
#include "support/small_model.h"
#include "train/split_weights.h"
#include "train/trainer.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

enum { CONTEXT = 4, FATAL_STEP = 2, STEPS = 4, MEMORY_LIMIT = 1 << 24 };

/* Ranks compile and compute before they meet, also where others keep the cores busy. */
#define TIMEOUT_S 2.0

typedef enum place { IN_A_KERNEL, IN_A_COLLECTIVE, READING_WEIGHTS } place;

typedef struct fault {
    rank_fault base; /* first */
    const char *mode;
    step_mode how_run;
    place where;
} fault;

/* ---- a device that fails where it is told to ---- */

static const fault *armed; /* of this process; NULL: not yet */
static world *own_world;
static const plan *own_plan;

static bool is_fatal(int launch) {
    if (!armed || armed->where == READING_WEIGHTS)
        return false;
    phase when = own_plan->launches[launch].phase;
    return when == (armed->where == IN_A_COLLECTIVE ? PHASE_COMMUNICATION : PHASE_BACKWARD);
}

static dyno_status launch_or_die(program *r, int index, const kernel_args *args) {
    if (!is_fatal(index))
        return device_cpu()->functions->launch(r, index, args);
    rank_death how = armed->base.how;
    if (how == DEATH_OUT_OF_MEMORY || how == DEATH_FAILED)
        return rank_fault_status(&armed->base);
    rank_fault_die(own_world, &armed->base);
    return DYNO_OK;
}

static device mortal_device(device_functions *functions) {
    *functions = *device_cpu()->functions;
    functions->launch = launch_or_die;
    device d = *device_cpu();
    d.functions = functions;
    return d;
}

/* ---- a rank ---- */

static void take_steps(const fault *f, trainer *t) {
    int32_t ids[CONTEXT + 1] = {3, 1, 4, 1, 5};
    float loss;
    for (int k = 0; k < STEPS; k++) {
        if (k == FATAL_STEP && world_rank(own_world) == RANK_FAULT_VICTIM)
            armed = f;
        rank_fault_prove(own_world, &f->base, trainer_step(t, ids, ids + 1, 1e-2, &loss));
    }
}

static void read_weights(const fault *f, trainer *t) {
    const model_config *config = &small_model_fixed;
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        float *room = memory_allocate((size_t)shape_elements(&p.shape), sizeof *room);
        if (i == 3 && armed)
            rank_fault_die(own_world, &f->base);
        rank_fault_prove(own_world, &f->base, weight_read(trainer_storage(t), &p, room));
        free(room);
    }
    rank_fault_prove(own_world, &f->base, world_agree(own_world, DYNO_OK));
}

static int train(void *context) {
    const fault *f = context;
    communicator_options options = {.kind = COMMUNICATOR_SHARED};
    communicator *c;
    device_functions functions;
    device d = mortal_device(&functions);
    trainer *t;
    own_world = rank_fault_join(&f->base);
    threads_set_count(1);
    rank_fault_prove(own_world, &f->base, communicator_create(own_world, &options, &c));
    step_options step = small_model_step(&small_model_fixed, 1, CONTEXT, STEP_FULL);
    step.keep_logits = step.pipeline.keep_gradients = false;
    step.pipeline.mode = f->how_run;
    RANK_OK(parallel_parse(f->mode, &step.pipeline.parallel));
    step.pipeline.parallel.ranks = RANK_FAULT_RANKS;
    step.pipeline.parallel.rank = world_rank(own_world);
    rank_fault_prove(own_world, &f->base, trainer_create_on(c, &d, &step, MEMORY_LIMIT, &t));
    own_plan = trainer_plan(t);
    RANK_OK(weights_init(trainer_storage(t), &small_model_fixed, 1));
    world_set_phase(own_world, "a step");
    take_steps(f, t);
    world_set_phase(own_world, "saving the model");
    read_weights(f, t);
    return 0;
}

/* ---- all of them ---- */

static const char *const MODES[] = {"ddp-naive",        "ddp-flat", "ddp-overlap",
                                    "ddp-bucket:0.001", "zero1",    "fsdp"};
enum { MODE_COUNT = sizeof MODES / sizeof *MODES };

static void run_fault(rank_death how, const char *mode, step_mode how_run, place where) {
    fault f = {
        .base = {.how = how, .phase = where == READING_WEIGHTS ? "saving the model" : "a step"},
        .mode = mode,
        .how_run = how_run,
        .where = where};
    rank_fault_run(&f.base, train, &f);
}

static void run_all(rank_death how) {
    for (int m = 0; m < MODE_COUNT; m++)
        run_fault(how, MODES[m], m % 2 ? STEP_COMPILED : STEP_EAGER, IN_A_COLLECTIVE);
    run_fault(how, "ddp-bucket:0.001", STEP_EAGER, IN_A_KERNEL);
    run_fault(how, "fsdp", STEP_COMPILED, IN_A_KERNEL);
    run_fault(how, "zero1", STEP_EAGER, READING_WEIGHTS);
    run_fault(how, "fsdp", STEP_EAGER, READING_WEIGHTS);
}

static void a_rank_that_is_killed_in_a_step_ends_all(void **state) {
    (void)state;
    run_all(DEATH_KILLED);
}

static void a_rank_that_is_stopped_in_a_step_ends_all(void **state) {
    (void)state;
    run_all(DEATH_STOPPED);
}

static void a_rank_without_memory_in_a_step_ends_all(void **state) {
    (void)state;
    run_all(DEATH_OUT_OF_MEMORY);
}

static void a_rank_whose_kernel_fails_in_a_step_ends_all(void **state) {
    (void)state;
    run_all(DEATH_FAILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_killed_in_a_step_ends_all),
        cmocka_unit_test(a_rank_that_is_stopped_in_a_step_ends_all),
        cmocka_unit_test(a_rank_without_memory_in_a_step_ends_all),
        cmocka_unit_test(a_rank_whose_kernel_fails_in_a_step_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
