/* test_memory_plan.c - offsets in the arena: drawn lifetimes, steps of real models, and plans that
 * are run symbol by symbol to see that nothing is overwritten while it is needed. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "plan/memory_account.h"
#include "plan/memory_plan.h"
#include "support/draw.h"
#include "support/pass_plan.h"

static int64_t rounded(int64_t bytes) {
    return (bytes + MEMORY_PLAN_ALIGNMENT - 1) / MEMORY_PLAN_ALIGNMENT * MEMORY_PLAN_ALIGNMENT;
}

static int add_buffer(plan *p, int64_t bytes, int born, int last_used) {
    plan_buffer buffer = {.bytes = bytes,
                          .role = born < 0 ? ROLE_PARAMETER : ROLE_ACTIVATION,
                          .type = DTYPE_U8,
                          .shape = SHAPE(bytes),
                          .born = born,
                          .last_used = last_used,
                          .is_persistent = born < 0};
    return plan_add_buffer(p, &buffer);
}

static bool alive_together(const plan_buffer *a, const plan_buffer *b) {
    return a->born <= b->last_used && b->born <= a->last_used;
}

static void expect_sound(const plan *p) {
    assert_int_equal(p->memory_mode, PLAN_MEMORY_STATIC);
    assert_true(p->arena_bytes >= memory_plan_live_bytes(p));
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *a = &p->buffers[i];
        if (a->is_persistent)
            continue;
        assert_int_equal(a->offset % MEMORY_PLAN_ALIGNMENT, 0);
        assert_in_range(a->offset, 0, p->arena_bytes - a->bytes);
        for (int j = 0; j < i; j++) {
            const plan_buffer *b = &p->buffers[j];
            if (!b->is_persistent && alive_together(a, b) && a->offset < b->offset + b->bytes &&
                b->offset < a->offset + a->bytes)
                fail_msg("buffers %d and %d are alive together and share bytes", i, j);
        }
    }
}

static plan *drawn_lifetimes(uint64_t seed) {
    draw d = draw_create(seed, 1);
    plan *p = plan_create("drawn");
    int launches = (int)draw_below(&d, 60), buffers = launches ? (int)draw_below(&d, 150) : 0;
    for (int i = 0; i < launches; i++)
        plan_add_launch(p, 0, 0);
    for (int i = 0; i < buffers; i++) {
        int born = (int)draw_below(&d, launches);
        int64_t longest = draw_chance(&d, 0.3) ? launches - born + 1 : 3;
        int last_used = born + (int)draw_below(&d, longest);
        if (draw_chance(&d, 0.1))
            add_buffer(p, 1 + draw_below(&d, 1000), -1, launches);
        else
            add_buffer(p, 1 + draw_below(&d, draw_chance(&d, 0.2) ? 100000 : 500), born,
                       last_used < launches ? last_used : launches);
    }
    plan_finish(p);
    return p;
}

static void buffers_alive_together_share_no_byte(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        plan *p = drawn_lifetimes(seed);
        memory_plan_apply(p);
        expect_sound(p);
        plan_destroy(p);
    }
}

static void a_plan_is_placed_the_same_way_every_time(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        plan *a = drawn_lifetimes(seed), *b = drawn_lifetimes(seed);
        memory_plan_apply(a);
        memory_plan_apply(b);
        assert_int_equal(a->arena_bytes, b->arena_bytes);
        for (int i = 0; i < a->buffer_count; i++)
            assert_int_equal(a->buffers[i].offset, b->buffers[i].offset);
        plan_destroy(a);
        plan_destroy(b);
    }
}

static void buffers_that_never_meet_take_the_room_of_the_largest(void **state) {
    (void)state;
    plan *p = plan_create("one after another");
    for (int i = 0; i < 5; i++) {
        plan_add_launch(p, 0, 0);
        add_buffer(p, 100 * (i + 1), i, i);
    }
    plan_finish(p);
    memory_plan_apply(p);
    assert_int_equal(p->arena_bytes, rounded(500));
    plan_destroy(p);
}

static void buffers_that_all_meet_take_the_room_of_all(void **state) {
    (void)state;
    plan *p = plan_create("all at once");
    int64_t sum = 0;
    for (int i = 0; i < 5; i++) {
        plan_add_launch(p, 0, 0);
        add_buffer(p, 100 * (i + 1), i, 5); /* outputs: alive after the last launch, too */
        sum += rounded(100 * (i + 1));
    }
    plan_finish(p);
    memory_plan_apply(p);
    assert_int_equal(p->arena_bytes, sum);
    plan_destroy(p);
}

/* In no order by size, life or birth do these four fit into the six units that are alive at most:
 * the last finds a gap of two below the second, and needs three. */
static void what_found_no_room_is_placed_first_the_next_time(void **state) {
    (void)state;
    static const int lives[][3] = {{2, 0, 1}, {2, 1, 2}, {2, 1, 1}, {3, 2, 2}};
    plan *p = plan_create("gap");
    for (int i = 0; i < 3; i++)
        plan_add_launch(p, 0, 0);
    for (int i = 0; i < 4; i++)
        add_buffer(p, lives[i][0] * MEMORY_PLAN_ALIGNMENT, lives[i][1], lives[i][2]);
    plan_finish(p);
    memory_plan_apply(p);
    expect_sound(p);
    assert_int_equal(p->arena_bytes, 6 * MEMORY_PLAN_ALIGNMENT);
    plan_destroy(p);
}

static void a_plan_without_transient_buffers_has_no_arena(void **state) {
    (void)state;
    plan *p = plan_create("weights");
    add_buffer(p, 100, -1, 0);
    plan_finish(p);
    memory_plan_apply(p);
    assert_int_equal(p->arena_bytes, 0);
    assert_int_equal(memory_account_plan(p).peak_bytes, rounded(100));
    plan_destroy(p);
}

static void the_account_of_a_static_plan_is_its_weights_and_its_arena(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        plan *p = drawn_lifetimes(seed);
        memory_account eager = memory_account_plan(p);
        memory_plan_apply(p);
        memory_account account = memory_account_plan(p);
        int64_t expected = p->arena_bytes, alive = 0;
        for (int i = 0; i < p->buffer_count; i++)
            expected += p->buffers[i].is_persistent ? rounded(p->buffers[i].bytes) : 0;
        assert_int_equal(account.peak_bytes, expected);
        assert_int_equal(account.reserved_bytes, expected);
        assert_int_equal(account.peak_launch, eager.peak_launch);
        for (int r = 0; r < ROLE_COUNT; r++) {
            assert_int_equal(account.at_peak[r], eager.at_peak[r]);
            alive += account.at_peak[r];
        }
        assert_true(alive <= account.peak_bytes);
        plan_destroy(p);
    }
}

static void arenas_of_models_are_little_larger_than_what_is_alive(void **state) {
    (void)state;
    static const char *const models[] = {"small", "xl", "10B"};
    static const char *const levels[] = {"none", "every:3", "full", "nested"};
    for (size_t m = 0; m < 3; m++)
        for (size_t l = 0; l < 4; l++)
            for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
                model_config config;
                pass_options options = {.extent = (step_extent)extent, .is_static = true};
                options.rematerialize = extent == STEP_BACKWARD;
                assert_int_equal(model_config_from_preset(models[m], &config), DYNO_OK);
                assert_int_equal(recompute_parse(levels[l], &options.recompute), DYNO_OK);
                plan *p = pass_plan(&config, 4, 512, &options);
                assert_true((double)p->arena_bytes <= 1.15 * (double)memory_plan_live_bytes(p));
                if (m == 0) /* takes the square of the number of buffers */
                    expect_sound(p);
                plan_destroy(p);
            }
}

/* ---- in place ---- */

static plan_operand whole(int buffer, int64_t bytes) {
    shape s = SHAPE(bytes);
    return (plan_operand){.buffer = buffer, .layout = tensor_contiguous(NULL, DTYPE_U8, &s)};
}

/* A launch that reads `in` (and `other`, unless -1) and makes `out`, which may go over inputs of
 * the mask. */
static plan_launch *add_step(plan *p, int in, int other, int out, uint64_t mask) {
    plan_launch *l = plan_add_launch(p, other < 0 ? 1 : 2, 1);
    l->inputs[0] = whole(in, p->buffers[in].bytes);
    if (other >= 0)
        l->inputs[1] = whole(other, p->buffers[other].bytes);
    l->outputs[0] = whole(out, p->buffers[out].bytes);
    l->overwrites[0] = mask;
    return l;
}

static void a_chain_runs_in_one_buffer(void **state) {
    (void)state;
    plan *p = plan_create("chain");
    int weight = add_buffer(p, 100, -1, 4), made[4];
    for (int i = 0; i < 4; i++)
        made[i] = add_buffer(p, 100, i, i < 3 ? i + 1 : 4);
    p->buffers[made[3]].name = "result";
    p->buffers[made[3]].role = ROLE_GRADIENT;
    for (int i = 0; i < 4; i++)
        add_step(p, i ? made[i - 1] : weight, -1, made[i], 1);
    plan_operand result = whole(made[3], 100);
    plan_add_name(p, "result", &result);
    plan_finish(p);
    memory_plan_apply(p);
    assert_int_equal(p->buffer_count, 2);
    assert_int_equal(p->arena_bytes, rounded(100));
    const plan_buffer *b = &p->buffers[plan_find_name(p, "result")->buffer];
    assert_int_equal(b->born, 0);
    assert_int_equal(b->last_used, 4);
    assert_int_equal(b->role, ROLE_GRADIENT);
    assert_string_equal(b->name, "result");
    assert_int_equal(p->birth_start[4], 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(p->launches[i].outputs[0].buffer, 1);
    plan_destroy(p);
}

typedef struct refusal {
    const char *why;
    void (*spoil)(plan *p);
} refusal;

static void is_not_allowed(plan *p) { p->launches[1].overwrites[0] = 0; }
static void is_allowed_over_another_input(plan *p) { p->launches[1].overwrites[0] = 2; }
static void is_read_later(plan *p) { p->buffers[1].last_used = 2; }
static void is_an_output(plan *p) { p->buffers[1].last_used = 3; }
static void is_persistent(plan *p) { p->buffers[1].is_persistent = true; }
static void is_of_another_size(plan *p) { p->buffers[3].bytes = 101; }
static void is_only_part_of_a_buffer(plan *p) { p->launches[1].inputs[0].offset = 1; }
static void is_read_across(plan *p) {
    p->launches[1].inputs[0].layout.shape = SHAPE(10, 10);
    p->launches[1].inputs[0].layout.stride[0] = 1;
    p->launches[1].inputs[0].layout.stride[1] = 10;
}
static void is_read_twice_once_in_another_order(plan *p) {
    p->launches[1].inputs[1] = p->launches[1].inputs[0];
}
static void is_of_wider_elements(plan *p) {
    p->launches[1].inputs[0].layout.type = DTYPE_F32;
    p->launches[1].inputs[0].layout.shape = SHAPE(25);
}

static void what_is_still_needed_is_not_overwritten(void **state) {
    (void)state;
    static const refusal refusals[] = {{"nothing stands against it", NULL},
                                       {"not allowed", is_not_allowed},
                                       {"another input", is_allowed_over_another_input},
                                       {"read later", is_read_later},
                                       {"an output", is_an_output},
                                       {"persistent", is_persistent},
                                       {"another size", is_of_another_size},
                                       {"part of a buffer", is_only_part_of_a_buffer},
                                       {"read across", is_read_across},
                                       {"read twice", is_read_twice_once_in_another_order},
                                       {"wider elements", is_of_wider_elements}};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        plan *p = plan_create(refusals[i].why);
        int weight = add_buffer(p, 100, -1, 3), a = add_buffer(p, 100, 0, 1);
        int b = add_buffer(p, 100, 0, 2), c = add_buffer(p, 100, 1, 3);
        add_step(p, weight, -1, a, 0);
        add_step(p, a, b, c, 1);
        add_step(p, c, b, weight, 0);
        if (refusals[i].spoil)
            refusals[i].spoil(p);
        plan_finish(p);
        memory_plan_apply(p);
        if ((p->buffer_count == 3) != (refusals[i].spoil == NULL))
            fail_msg("%s: %d buffers", refusals[i].why, p->buffer_count);
        plan_destroy(p);
    }
}

/* Columns [start, start + count) of rows of 8, f32. */
static plan_operand columns(int buffer, int64_t start, int64_t count) {
    plan_operand o = {.buffer = buffer, .offset = start * 4};
    o.layout = (tensor){.type = DTYPE_F32, .shape = SHAPE(5, count), .stride = {8, 1}};
    return o;
}

/* A launch reads two pieces of one buffer and makes two pieces of another. */
static int buffers_after(int64_t first_read, int64_t first_made, uint64_t allowed) {
    plan *p = plan_create("pieces");
    int a = add_buffer(p, 5 * 8 * 4, 0, 1), b = add_buffer(p, 5 * 8 * 4, 1, 2);
    plan_launch *l = plan_add_launch(p, 0, 1);
    l->outputs[0] = whole(a, 5 * 8 * 4);
    l = plan_add_launch(p, 2, 2);
    l->inputs[0] = columns(a, 0, first_read);
    l->inputs[1] = columns(a, first_read, 8 - first_read);
    l->outputs[0] = columns(b, 0, first_made);
    l->outputs[1] = columns(b, first_made, 8 - first_made);
    l->overwrites[0] = allowed;
    l->overwrites[1] = allowed << 1;
    plan_add_launch(p, 1, 0)->inputs[0] = whole(b, 5 * 8 * 4);
    plan_finish(p);
    memory_plan_apply(p);
    int left = p->buffer_count;
    for (int i = 0; i < 2 && left == 1; i++)
        assert_int_equal(p->launches[1].outputs[i].buffer, p->launches[1].inputs[i].buffer);
    plan_destroy(p);
    return left;
}

static void pieces_of_a_buffer_are_overwritten_by_pieces_that_lie_alike(void **state) {
    (void)state;
    assert_int_equal(buffers_after(3, 3, 1), 1);
    assert_int_equal(buffers_after(3, 3, 0), 2); /* not allowed */
    assert_int_equal(buffers_after(3, 4, 1), 2); /* a piece would go over both */
    assert_int_equal(buffers_after(4, 3, 1), 2);
}

static void two_outputs_do_not_take_over_one_input(void **state) {
    (void)state;
    plan *p = plan_create("two outputs");
    int a = add_buffer(p, 64, 0, 1), b = add_buffer(p, 64, 1, 1), c = add_buffer(p, 64, 1, 2);
    plan_launch *l = plan_add_launch(p, 0, 1);
    l->outputs[0] = whole(a, 64);
    l = plan_add_launch(p, 1, 2);
    l->inputs[0] = whole(a, 64);
    l->outputs[0] = whole(b, 64);
    l->outputs[1] = whole(c, 64);
    l->overwrites[0] = l->overwrites[1] = 1;
    plan_finish(p);
    memory_plan_apply(p);
    assert_int_equal(p->buffer_count, 2);
    assert_int_equal(p->arena_bytes, 2 * rounded(64));
    plan_destroy(p);
}

/* ---- run symbol by symbol ----
 *
 * Each launch writes, over every line of its outputs, a symbol of its own; every line of an input
 * must still hold the symbol of the launch that the drawn plan had make it. */

enum { MOST_OPERANDS = 3 };

typedef struct symbols {
    int wanted[400][MOST_OPERANDS]; /* by launch and input */
} symbols;

static plan *drawn_program(uint64_t seed, symbols *s) {
    draw d = draw_create(seed, 1);
    plan *p = plan_create("program");
    int launches = 1 + (int)draw_below(&d, 399), made = 0;
    int *buffers = memory_allocate((size_t)launches * 2, sizeof *buffers);
    int *symbol = memory_allocate((size_t)launches * 2, sizeof *symbol);
    static const int64_t sizes[] = {64, 200, 200, 1024};
    for (int i = 0; i < launches; i++) {
        int inputs = made ? (int)draw_below(&d, MOST_OPERANDS + 1) : 0;
        plan_launch *l = plan_add_launch(p, inputs, 1 + (int)draw_below(&d, 2));
        for (int j = 0; j < inputs; j++) { /* most often one made a moment ago */
            int back = (int)draw_below(&d, draw_chance(&d, 0.8) && made > 4 ? 4 : made);
            int which = made - 1 - back;
            l->inputs[j] = whole(buffers[which], p->buffers[buffers[which]].bytes);
            p->buffers[buffers[which]].last_used = i;
            s->wanted[i][j] = symbol[which];
        }
        if (draw_chance(&d, 0.2))
            l->workspace = add_buffer(p, 300, i, i);
        for (int j = 0; j < l->output_count; j++) {
            int64_t bytes = sizes[draw_below(&d, 4)];
            buffers[made] = add_buffer(p, bytes, i, i);
            symbol[made++] = 2 * i + j + 1;
            l->outputs[j] = whole(buffers[made - 1], bytes);
            l->overwrites[j] = (uint64_t)draw_below(&d, 8);
        }
    }
    for (int i = 0; i < made; i += 7) {
        p->buffers[buffers[i]].last_used = launches;
        plan_operand output = whole(buffers[i], p->buffers[buffers[i]].bytes);
        char name[16];
        snprintf(name, sizeof name, "%d", symbol[i]);
        plan_add_name(p, name, &output);
    }
    plan_finish(p);
    free(buffers);
    free(symbol);
    return p;
}

static int64_t first_line(const plan *p, const plan_operand *operand) {
    return p->buffers[operand->buffer].offset / 64;
}

static int64_t line_count(const plan_operand *operand) {
    return rounded(shape_elements(&operand->layout.shape)) / 64;
}

static void expect_symbol(const plan *p, const int *lines, const plan_operand *operand,
                          int wanted) {
    for (int64_t i = 0; i < line_count(operand); i++)
        assert_int_equal(lines[first_line(p, operand) + i], wanted);
}

/* Inputs that an output goes over must be ones the kernel allows. */
static void expect_allowed(const plan *p, const plan_launch *l, int output) {
    const plan_operand *out = &l->outputs[output];
    for (int j = 0; j < l->input_count; j++) {
        const plan_operand *in = &l->inputs[j];
        bool meet = first_line(p, in) < first_line(p, out) + line_count(out) &&
                    first_line(p, out) < first_line(p, in) + line_count(in);
        if (meet && !(l->overwrites[output] >> j & 1 && first_line(p, in) == first_line(p, out)))
            fail_msg("output %d lies over input %d", output, j);
    }
}

static void every_input_still_holds_what_was_written(void **state) {
    (void)state;
    symbols *s = memory_allocate(1, sizeof *s);
    int merged = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        plan *p = drawn_program(seed, s);
        int before = p->buffer_count;
        memory_plan_apply(p);
        merged += before - p->buffer_count;
        expect_sound(p);
        int *lines = memory_allocate((size_t)p->arena_bytes / 64, sizeof *lines);
        for (int i = 0; i < p->launch_count; i++) {
            const plan_launch *l = &p->launches[i];
            for (int j = 0; j < l->input_count; j++)
                expect_symbol(p, lines, &l->inputs[j], s->wanted[i][j]);
            for (int j = 0; j < l->output_count; j++)
                expect_allowed(p, l, j);
            for (int64_t k = 0; l->workspace >= 0 && k < rounded(300) / 64; k++)
                lines[p->buffers[l->workspace].offset / 64 + k] = -1;
            for (int j = 0; j < l->output_count; j++)
                for (int64_t k = 0; k < line_count(&l->outputs[j]); k++)
                    lines[first_line(p, &l->outputs[j]) + k] = 2 * i + j + 1;
        }
        for (int i = 0; i < p->name_count; i++)
            expect_symbol(p, lines, &p->names[i].operand, atoi(p->names[i].name));
        free(lines);
        plan_destroy(p);
    }
    assert_true(merged > 1000);
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_alive_together_share_no_byte),
        cmocka_unit_test(a_plan_is_placed_the_same_way_every_time),
        cmocka_unit_test(buffers_that_never_meet_take_the_room_of_the_largest),
        cmocka_unit_test(buffers_that_all_meet_take_the_room_of_all),
        cmocka_unit_test(what_found_no_room_is_placed_first_the_next_time),
        cmocka_unit_test(a_plan_without_transient_buffers_has_no_arena),
        cmocka_unit_test(the_account_of_a_static_plan_is_its_weights_and_its_arena),
        cmocka_unit_test(arenas_of_models_are_little_larger_than_what_is_alive),
        cmocka_unit_test(a_chain_runs_in_one_buffer),
        cmocka_unit_test(what_is_still_needed_is_not_overwritten),
        cmocka_unit_test(pieces_of_a_buffer_are_overwritten_by_pieces_that_lie_alike),
        cmocka_unit_test(two_outputs_do_not_take_over_one_input),
        cmocka_unit_test(every_input_still_holds_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
