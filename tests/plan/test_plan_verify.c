/* test_plan_verify.c - each rule broken once, on a plan made by hand and on that of a model's step;
 * and every preset's plans, which break none. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "plan/memory_plan.h"
#include "plan/plan_verify.h"
#include "support/expect.h"
#include "support/small_model.h"

/* ---- plans to spoil ---- */

enum { NUMBERS = 64, BYTES = 4 * NUMBERS };

static plan_operand numbers_of(int buffer) {
    shape s = SHAPE(NUMBERS);
    return (plan_operand){.buffer = buffer, .layout = tensor_contiguous(NULL, DTYPE_F32, &s)};
}

static int add_buffer(plan *p, role r, int born, int last_used) {
    plan_buffer buffer = {.bytes = BYTES,
                          .role = r,
                          .type = DTYPE_F32,
                          .shape = SHAPE(NUMBERS),
                          .born = born,
                          .last_used = last_used,
                          .is_persistent = born < 0};
    return plan_add_buffer(p, &buffer);
}

static plan_launch *add_launch(plan *p, phase when, int input, int output) {
    static const kernel plain = {.name = "plain"};
    plan_launch *l = plan_add_launch(p, 1, 1);
    l->kernel = &plain;
    l->kernel_name = plain.name;
    l->op_name = "exp";
    l->phase = when;
    l->inputs[0] = numbers_of(input);
    l->outputs[0] = numbers_of(output);
    l->overwrites[0] = input == output;
    return l;
}

/* Five launches: two of the forward, one of the backward, an update on stream 1, one beside it. */
static plan *by_hand(void) {
    static const char *scopes[] = {"", "block"};
    enum { LAUNCHES = 5 };
    plan *p = plan_create("by hand");
    p->scopes = scopes;
    p->scope_count = 2;
    int weight = add_buffer(p, ROLE_PARAMETER, -1, LAUNCHES);
    int first = add_buffer(p, ROLE_ACTIVATION, 0, 1), saved = add_buffer(p, ROLE_SAVED, 1, 4);
    int scratch = add_buffer(p, ROLE_WORKSPACE, 1, 1);
    int gradient = add_buffer(p, ROLE_GRADIENT, 2, LAUNCHES);
    int result = add_buffer(p, ROLE_ACTIVATION, 4, LAUNCHES);
    add_launch(p, PHASE_FORWARD, weight, first);
    add_launch(p, PHASE_FORWARD, first, saved)->workspace = scratch;
    add_launch(p, PHASE_BACKWARD, saved, gradient);
    plan_launch *update = plan_add_launch(p, 2, 1);
    *update = (plan_launch){.kernel = p->launches[0].kernel,
                            .generated = -1,
                            .kernel_name = "plain",
                            .op_name = "adamw",
                            .input_count = 2,
                            .output_count = 1,
                            .inputs = update->inputs,
                            .outputs = update->outputs,
                            .overwrites = update->overwrites,
                            .workspace = -1,
                            .stream = 1,
                            .phase = PHASE_OPTIMIZER};
    update->inputs[0] = update->outputs[0] = numbers_of(weight);
    update->inputs[1] = numbers_of(gradient);
    update->overwrites[0] = 1;
    add_launch(p, PHASE_BACKWARD, saved, result);
    for (int i = 0; i < LAUNCHES; i++)
        p->launches[i].scope = 1;
    plan_operand named = numbers_of(result);
    plan_add_name(p, "result", &named);
    plan_finish(p);
    memory_plan_apply(p);
    return p;
}

static plan *of_a_step(void) {
    step_options options = {.config = small_model_fixed,
                            .batch = 2,
                            .context = 8,
                            .pipeline = {.extent = STEP_FULL,
                                         .mode = STEP_COMPILED,
                                         .precision = PRECISION_BF16,
                                         .target = target_usual(TARGET_CUDA),
                                         .optimizer = step_default_optimizer()}};
    plan *p;
    expect_ok(step_plan_create(&options, &p));
    return p;
}

/* ---- what is spoilt ---- */

static plan_buffer *buffer_of(const plan *p, const plan_operand *o) {
    return &p->buffers[o->buffer];
}

/* The first launch from `from` on that is on `stream` and of that phase (PHASE_COUNT: any). */
static int find_launch(const plan *p, int from, int stream, phase when) {
    for (int i = from; i < p->launch_count; i++)
        if (p->launches[i].stream == stream &&
            (when == PHASE_COUNT || p->launches[i].phase == when))
            return i;
    fail_msg("there is no such launch");
    return -1;
}

static plan_launch *with_workspace(plan *p) {
    for (int i = 0; i < p->launch_count; i++)
        if (p->launches[i].workspace >= 0 && p->launches[i].input_count)
            return &p->launches[i];
    fail_msg("no launch has a workspace");
    return NULL;
}

static bool is_written_once(const plan *p, int buffer) {
    int writes = 0;
    for (int i = 0; i < p->launch_count; i++)
        for (int j = 0; j < p->launches[i].output_count; j++)
            writes += p->launches[i].outputs[j].buffer == buffer;
    return writes == 1;
}

/* A launch that makes, as its first output, a transient buffer that a later one reads and that ends
 * before the step does. */
static int find_maker(const plan *p) {
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        const plan_buffer *b = l->output_count ? buffer_of(p, &l->outputs[0]) : NULL;
        if (b && !b->is_persistent && b->born == i && b->last_used > i &&
            b->last_used < p->launch_count && is_written_once(p, l->outputs[0].buffer))
            return i;
    }
    fail_msg("no launch makes such a buffer");
    return -1;
}

static plan_buffer *made_buffer(plan *p) {
    return buffer_of(p, &p->launches[find_maker(p)].outputs[0]);
}

static void buffer_is_unknown(plan *p) { p->launches[1].inputs[0].buffer = p->buffer_count; }
static void scope_is_unknown(plan *p) { p->launches[1].scope = p->scope_count; }
static void scope_of_a_buffer_is_unknown(plan *p) { p->buffers[1].scope = -1; }
static void generated_is_unknown(plan *p) { p->launches[1].generated = p->generated_count; }
static void workspace_is_unknown(plan *p) { with_workspace(p)->workspace = -2; }

static void kernel_is_missing(plan *p) {
    p->launches[1].kernel = NULL;
    p->launches[1].generated = -1;
}

static void operand_ends_too_late(plan *p) {
    plan_operand *o = &p->launches[1].inputs[0];
    o->offset += buffer_of(p, o)->bytes;
}

static void operand_begins_too_early(plan *p) { p->launches[1].outputs[0].offset = -256; }

static void operand_runs_backwards(plan *p) {
    plan_operand *o = &p->launches[find_maker(p)].outputs[0];
    for (int i = 0; i < o->layout.shape.rank; i++)
        o->layout.stride[i] = -o->layout.stride[i];
}

static void operand_is_not_aligned(plan *p) {
    plan_operand *o = &p->launches[1].inputs[0];
    o->layout = tensor_contiguous(NULL, DTYPE_F32, &SHAPE_SCALAR);
    o->offset = 2;
}

static void buffer_dies_too_early(plan *p) {
    made_buffer(p)->last_used--;
    plan_finish(p);
}

static void buffer_is_born_too_late(plan *p) {
    made_buffer(p)->born++;
    plan_finish(p);
}

static void buffer_outlives_the_step(plan *p) { made_buffer(p)->last_used = p->launch_count + 1; }
static void weight_is_born(plan *p) { p->buffers[0].born = 0; }
static void activation_is_persistent(plan *p) { made_buffer(p)->is_persistent = true; }
static void births_are_old(plan *p) { made_buffer(p)->born++; }
static void deaths_are_old(plan *p) { made_buffer(p)->last_used--; }

static void birth_is_missing(plan *p) {
    plan_buffer *b = made_buffer(p);
    plan_buffer forgotten = *b;
    plan_add_buffer(p, &forgotten);
}

static void part_is_not_written(plan *p) {
    plan_operand *o = &p->launches[find_maker(p)].outputs[0];
    o->layout = tensor_contiguous(NULL, o->layout.type, &SHAPE_SCALAR);
}

static void buffer_is_never_written(plan *p) {
    plan_buffer idle = *made_buffer(p);
    plan_add_buffer(p, &idle);
    plan_finish(p);
}

static void workspace_is_read(plan *p) {
    plan_launch *l = with_workspace(p);
    l->inputs[0].buffer = l->workspace;
    l->inputs[0].layout = tensor_contiguous(NULL, DTYPE_U8, &SHAPE_SCALAR);
    l->inputs[0].offset = 0;
}

static void workspace_is_an_activation(plan *p) {
    p->buffers[with_workspace(p)->workspace].role = ROLE_ACTIVATION;
}

static void workspace_is_forgotten(plan *p) { with_workspace(p)->workspace = -1; }

static void update_is_not_promised(plan *p) {
    plan_launch *l = &p->launches[find_launch(p, 0, 1, PHASE_OPTIMIZER)];
    memset(l->overwrites, 0, (size_t)l->output_count * sizeof *l->overwrites);
}

static void update_lies_otherwise(plan *p) {
    plan_launch *l = &p->launches[find_launch(p, 0, 1, PHASE_OPTIMIZER)];
    l->outputs[0].layout = tensor_contiguous(NULL, l->outputs[0].layout.type, &SHAPE_SCALAR);
}

static void outputs_lie_on_one_another(plan *p) {
    plan_launch *l = &p->launches[find_maker(p)];
    plan_operand *twice = arena_allocate(p->memory, 2, sizeof *twice);
    twice[0] = twice[1] = l->outputs[0];
    l->outputs = twice;
    l->output_count = 2;
    l->overwrites = arena_allocate(p->memory, 2, sizeof *l->overwrites);
}

static void forward_comes_last(plan *p) {
    p->launches[find_launch(p, find_launch(p, 0, 0, PHASE_BACKWARD) + 1, 0, PHASE_BACKWARD)].phase =
        PHASE_FORWARD;
}

/* A launch behind the first on stream 1 that reads what that one writes. */
static plan_launch *read_the_update(plan *p) {
    int side = find_launch(p, 0, 1, PHASE_OPTIMIZER);
    plan_launch *l = &p->launches[find_launch(p, side + 1, 0, PHASE_BACKWARD)];
    l->inputs[0] = p->launches[side].outputs[0];
    return l;
}

static void backward_reads_the_update(plan *p) { read_the_update(p); }
static void update_is_read_beside_it(plan *p) { read_the_update(p)->phase = PHASE_COMMUNICATION; }

static void gradient_is_written_beside_its_update(plan *p) {
    int side = find_launch(p, 0, 1, PHASE_OPTIMIZER);
    const plan_launch *update = &p->launches[side];
    plan_launch *l = &p->launches[find_launch(p, side + 1, 0, PHASE_BACKWARD)];
    plan_operand *more = arena_allocate(p->memory, (size_t)l->output_count + 1, sizeof *more);
    memcpy(more, l->outputs, (size_t)l->output_count * sizeof *more);
    for (int i = 0; i < update->input_count; i++)
        if (!buffer_of(p, &update->inputs[i])->is_persistent)
            more[l->output_count] = update->inputs[i];
    uint64_t *promises = arena_allocate(p->memory, (size_t)l->output_count + 1, sizeof *promises);
    memcpy(promises, l->overwrites, (size_t)l->output_count * sizeof *promises);
    l->outputs = more;
    l->overwrites = promises;
    l->output_count++;
}

static void stream_is_unknown(plan *p) { p->launches[1].stream = 3; }
static void stream_is_of_collectives(plan *p) { p->launches[1].stream = PLAN_STREAM_COMMUNICATION; }

/* The last launch updates weights. */
static void update_is_repeated(plan *p) {
    p->micro_batches = 2;
    p->repeated_launches = p->launch_count;
}
static void nothing_is_repeated(plan *p) { p->micro_batches = 2; }
/* The first launch that reads what a launch before it has made. */
static void last_micro_batch_is_read_in_the_first(plan *p) {
    int writer = 0, reader = 0;
    for (bool is_found = false; !is_found;) {
        reader++;
        for (writer = 0; writer < reader && !is_found; writer += !is_found)
            for (int i = 0; i < p->launches[reader].input_count; i++)
                is_found = is_found || p->launches[reader].inputs[i].buffer ==
                                           p->launches[writer].outputs[0].buffer;
    }
    p->launches[writer].runs_once = true;
    p->micro_batches = 2;
    p->repeated_launches = reader + 1;
}
static void operand_moves_too_far(plan *p) {
    int reader = 0;
    while (p->launches[reader].input_count == 0)
        reader++;
    p->micro_batches = 2;
    p->repeated_launches = reader + 1;
    plan_operand *o = &p->launches[reader].inputs[0];
    o->repeat_bytes = buffer_of(p, o)->bytes;
}

static void gradient_dies_at_its_update(plan *p) {
    int side = find_launch(p, 0, 1, PHASE_OPTIMIZER);
    const plan_launch *l = &p->launches[side];
    for (int i = 0; i < l->input_count; i++)
        if (!buffer_of(p, &l->inputs[i])->is_persistent &&
            buffer_of(p, &l->inputs[i])->role == ROLE_GRADIENT)
            buffer_of(p, &l->inputs[i])->last_used = side;
    plan_finish(p);
}

/* A name of a transient buffer. */
static plan_operand *named_result(plan *p) {
    for (int i = 0; i < p->name_count; i++)
        if (!buffer_of(p, &p->names[i].operand)->is_persistent)
            return &p->names[i].operand;
    fail_msg("the plan has no output");
    return NULL;
}

static void result_is_gone(plan *p) {
    plan_buffer *b = buffer_of(p, named_result(p));
    b->last_used = p->launch_count - 1;
    plan_finish(p);
}

static void name_lies_outside(plan *p) {
    plan_operand *o = named_result(p);
    o->offset = buffer_of(p, o)->bytes;
}

/* By the plan of a step: one made by hand has no parameters. */
static void gradient_lies_outside(plan *p) { p->parameters[0].gradient_at.offset = 1 << 30; }
static void gradient_is_no_gradient(plan *p) {
    p->parameters[0].gradient_at = p->names[p->parameters[0].value].operand;
}

static void buffers_lie_on_one_another(plan *p) {
    int maker = find_maker(p);
    for (int i = 0; i < p->buffer_count; i++) {
        plan_buffer *b = &p->buffers[i];
        if (!b->is_persistent && b != made_buffer(p) && b->bytes && b->born <= maker + 1 &&
            b->last_used >= maker + 1) {
            made_buffer(p)->offset = b->offset;
            return;
        }
    }
    fail_msg("no two buffers are alive together");
}

static void buffer_is_not_aligned(plan *p) { made_buffer(p)->offset += 4; }
static void buffer_ends_behind_the_arena(plan *p) { p->arena_bytes = 0; }

typedef struct breach {
    const char *rule, *detail;
    void (*spoil)(plan *p);
} breach;

static const breach breaches[] = {
    {"index", "input 0 is in buffer ", buffer_is_unknown},
    {"index", "its scope is ", scope_is_unknown},
    {"index", "has the scope -1 of ", scope_of_a_buffer_is_unknown},
    {"index", "its generated kernel is ", generated_is_unknown},
    {"index", "its workspace is buffer -2 of ", workspace_is_unknown},
    {"index", "it has no kernel", kernel_is_missing},
    {"bounds", "input 0 reaches from byte ", operand_ends_too_late},
    {"bounds", "output 0 reaches from byte -256 to ", operand_begins_too_early},
    {"bounds", "output 0 reaches from byte -", operand_runs_backwards},
    {"bounds", "input 0, f32, begins at byte 2 of buffer ", operand_is_not_aligned},
    {"lifetime", ", which is not alive", buffer_dies_too_early},
    {"lifetime", ", which is not alive", buffer_is_born_too_late},
    {"lifetime", "the transient buffer ", buffer_outlives_the_step},
    {"lifetime", "the persistent buffer 0 ", weight_is_born},
    {"lifetime", "the persistent buffer ", activation_is_persistent},
    {"lifetime", "its births list buffer ", births_are_old},
    {"lifetime", "its deaths list buffer ", deaths_are_old},
    {"lifetime", " buffers, and there are ", birth_is_missing},
    {"write", " are written", part_is_not_written},
    {"write", "it does not write buffer ", buffer_is_never_written},
    {"workspace", "input 0 is in buffer ", workspace_is_read},
    {"workspace", "its workspace is buffer ", workspace_is_an_activation},
    {"workspace", "it does not use buffer ", workspace_is_forgotten},
    {"overwrite", ", which the kernel does not allow", update_is_not_promised},
    {"overwrite", " and lies otherwise", update_lies_otherwise},
    {"overwrite", "outputs 0 and 1 share bytes of buffer ", outputs_lie_on_one_another},
    {"phase", "comes behind a launch of the backward", forward_comes_last},
    {"phase", "input 0 reads what the optimizer wrote to buffer ", backward_reads_the_update},
    {"repeat", "it runs 2 times and writes buffer ", update_is_repeated},
    {"repeat", "2 micro-batches of 0 launches", nothing_is_repeated},
    {"repeat", "input 0 moves by ", operand_moves_too_far},
    {"repeat", ", which is made in the last one only", last_micro_batch_is_read_in_the_first},
    {"stream", "it is on stream 3; there are 0 to 2", stream_is_unknown},
    {"stream", "it is on stream 2, that of collectives", stream_is_of_collectives},
    {"stream", ", which must live until launch ", gradient_dies_at_its_update},
    {"stream", "on stream 1 writes beside it", update_is_read_beside_it},
    {"stream", "on stream 1 reads beside it", gradient_is_written_beside_its_update},
    {"name", "gone when the caller reads it", result_is_gone},
    {"bounds", "name ", name_lies_outside},
    {"arena", ", shares bytes with buffer ", buffers_lie_on_one_another},
    {"arena", "256 is the alignment", buffer_is_not_aligned},
    {"arena", " is at byte ", buffer_ends_behind_the_arena},
};

static const breach breaches_of_parameters[] = {
    {"bounds", "gradient 0 reaches from byte ", gradient_lies_outside},
    {"gradient", ", which is for something else", gradient_is_no_gradient},
};

static void expect_broken(plan *p, const breach *b) {
    char rule[64];
    snprintf(rule, sizeof rule, "breaks the rule '%s': ", b->rule);
    expect_ok(plan_verify(p));
    b->spoil(p);
    assert_int_equal(plan_verify(p), DYNO_INVALID);
    if (!strstr(dyno_error_message(), rule) || !strstr(dyno_error_message(), b->detail))
        fail_msg("'%s' and '%s' are not in: %s", rule, b->detail, dyno_error_message());
    plan_destroy(p);
}

static void each_rule_is_broken_in_a_plan_made_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof breaches / sizeof *breaches; i++)
        expect_broken(by_hand(), &breaches[i]);
}

static void each_rule_is_broken_in_the_plan_of_a_step(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof breaches / sizeof *breaches; i++)
        expect_broken(of_a_step(), &breaches[i]);
    for (size_t i = 0; i < sizeof breaches_of_parameters / sizeof *breaches_of_parameters; i++)
        expect_broken(of_a_step(), &breaches_of_parameters[i]);
}

static void a_message_names_the_launch_the_buffer_and_the_values(void **state) {
    (void)state;
    plan *p = by_hand();
    operand_ends_too_late(p);
    assert_int_equal(plan_verify(p), DYNO_INVALID);
    assert_string_equal(dyno_error_message(),
                        "plan 'by hand', launch 1 (exp, scope 'block') breaks the rule 'bounds': "
                        "input 0 reaches from byte 256 to 512 of buffer 1 ('', activation, 256 B, "
                        "launches 0 to 1)");
    plan_destroy(p);
}

/* ---- plans that are right ---- */

static void expect_right(const step_options *options) {
    plan *p;
    dyno_status status = step_plan_create(options, &p);
    if (status == DYNO_UNSUPPORTED)
        return; /* tf32 on a CPU */
    expect_ok(status);
    expect_ok(plan_verify(p));
    plan_destroy(p);
}

static void expect_all_right(step_options options) {
    static const char *const recomputes[] = {"none", "mlp:1", "every:2", "full", "nested"};
    for (int kind = 0; kind < PRECISION_COUNT; kind++)
        for (int r = 0; r < 5; r++)
            for (int pass = 0; pass < STEP_EXTENT_COUNT; pass++) {
                options.pipeline.precision = (precision)kind;
                options.pipeline.extent = (step_extent)pass;
                expect_ok(recompute_parse(recomputes[r], &options.pipeline.recompute));
                if (r == 0 || pass != STEP_FORWARD)
                    expect_right(&options);
            }
}

static step_options preset_options(int preset, int mode, int on) {
    return (step_options){.config = *model_preset(preset),
                          .batch = 2,
                          .context = 64,
                          .pipeline = {.mode = (step_mode)mode,
                                       .target = target_usual((target_kind)on),
                                       .extent = STEP_FULL,
                                       .optimizer = step_default_optimizer()}};
}

/* Four layers stand for all: the others are the same again. */
static void plans_of_every_preset_break_no_rule(void **state) {
    (void)state;
    for (int preset = 0; preset < model_preset_count(); preset++)
        for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
            for (int on = 0; on < TARGET_KIND_COUNT; on++) {
                step_options options = preset_options(preset, mode, on);
                expect_right(&options);
                options.config.layers = 4;
                expect_all_right(options);
            }
}

static void ways_to_train_that_keep_or_clip_gradients_break_no_rule(void **state) {
    (void)state;
    for (int on = 0; on < TARGET_KIND_COUNT; on++)
        for (int way = 0; way < 16; way++) {
            step_options options = preset_options(0, STEP_COMPILED, on);
            options.config.layers = 2;
            options.pipeline.precision = PRECISION_BF16;
            options.pipeline.keep_gradients = way & 1;
            options.pipeline.optimizer.clip_norm = way & 2 ? 1 : 0;
            options.pipeline.attention = way & 4 ? ATTENTION_NAIVE : ATTENTION_FLASH;
            options.pipeline.gradients = way & 8 ? GRADIENTS_F32 : GRADIENTS_LOW;
            options.keep_logits = way & 1;
            expect_right(&options);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_is_broken_in_a_plan_made_by_hand),
        cmocka_unit_test(each_rule_is_broken_in_the_plan_of_a_step),
        cmocka_unit_test(a_message_names_the_launch_the_buffer_and_the_values),
        cmocka_unit_test(plans_of_every_preset_break_no_rule),
        cmocka_unit_test(ways_to_train_that_keep_or_clip_gradients_break_no_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
