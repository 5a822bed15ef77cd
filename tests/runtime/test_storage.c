/* test_storage.c - what lives across steps, shared by the plans of one model. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "plan/block_allocator.h"
#include "runtime/storage.h"

static int64_t rounded(int64_t bytes) {
    return (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
}

static void add(plan *p, const char *name, int64_t bytes, role r) {
    plan_buffer buffer = {.bytes = bytes,
                          .role = r,
                          .type = DTYPE_U8,
                          .shape = SHAPE(bytes),
                          .name = arena_copy_string(p->memory, name),
                          .born = -1,
                          .is_persistent = true};
    plan_operand operand = {.buffer = plan_add_buffer(p, &buffer)};
    plan_add_name(p, name, &operand);
}

/* "weight" and "ids" of the given size; "moment" too if wanted, and a transient buffer. */
static plan *make_plan(int64_t id_bytes, bool has_moment) {
    plan *p = plan_create("p");
    static const char *scopes[] = {"", "layer"};
    p->scopes = scopes;
    p->scope_count = 2;
    add(p, "weight", 100, ROLE_PARAMETER);
    add(p, "ids", id_bytes, ROLE_INPUT);
    if (has_moment)
        add(p, "moment", 200, ROLE_OPTIMIZER_STATE);
    plan_buffer transient = {.bytes = 50, .scope = 1, .shape = SHAPE(50)};
    plan_add_buffer(p, &transient);
    plan_add_launch(p, 0, 0);
    plan_finish(p);
    return p;
}

static memory_pool *make_pool(int64_t limit) {
    memory_pool *pool;
    assert_int_equal(memory_pool_create(device_cpu(), limit, &pool), DYNO_OK);
    return pool;
}

static void plans_of_a_model_share_what_has_the_same_name(void **state) {
    (void)state;
    memory_pool *pool = make_pool(1 << 20);
    storage *s = storage_create(pool);
    plan *forward = make_plan(64, false), *step = make_plan(64, true);
    assert_int_equal(storage_add_plan(s, forward), DYNO_OK);
    assert_int_equal(memory_pool_taken_bytes(pool), rounded(100) + rounded(64));
    char *weight = storage_find(s, "weight");
    assert_null(storage_find(s, "moment"));
    memset(weight, 7, 100);
    assert_int_equal(storage_add_plan(s, step), DYNO_OK);
    assert_int_equal(storage_add_plan(s, step), DYNO_OK);
    assert_ptr_equal(storage_find(s, "weight"), weight);
    assert_int_equal(weight[99], 7);
    assert_int_equal(memory_pool_taken_bytes(pool), rounded(100) + rounded(64) + rounded(200));
    plan_destroy(forward); /* storage outlives the plans that filled it */
    plan_destroy(step);
    assert_ptr_equal(storage_find(s, "weight"), weight);
    storage_destroy(s);
    assert_int_equal(memory_pool_taken_bytes(pool), 0);
    memory_pool_destroy(pool);
}

/* Two weights of one family: found by name, inside their buffer. */
static plan *make_family_plan(void) {
    plan *p = plan_create("family");
    static const char *scopes[] = {""};
    p->scopes = scopes;
    p->scope_count = 1;
    plan_buffer both = {.bytes = 24,
                        .role = ROLE_PARAMETER,
                        .type = DTYPE_F32,
                        .shape = SHAPE(6),
                        .name = "both",
                        .born = -1,
                        .is_persistent = true};
    int buffer = plan_add_buffer(p, &both);
    const shape sizes[] = {SHAPE(2), SHAPE(2, 2)};
    for (int i = 0; i < 2; i++) {
        plan_operand operand = {.buffer = buffer, .offset = i * 8};
        operand.layout = tensor_contiguous(NULL, DTYPE_F32, &sizes[i]);
        plan_add_name(p, i ? "second" : "first", &operand);
    }
    plan_finish(p);
    return p;
}

/* A weight as one plan keeps it: whole, whole with a low copy, or in halves. */
static plan *make_parameter_plan(bool has_copy, bool is_split) {
    static const char *scopes[] = {""};
    plan *p = plan_create("parameter");
    p->scopes = scopes;
    p->scope_count = 1;
    p->parameters = arena_allocate(p->memory, 1, sizeof *p->parameters);
    p->parameter_count = 1;
    p->parameters[0] = (plan_parameter){.name = "w",
                                        .low_copy = has_copy ? 1 : -1,
                                        .gradient = -1,
                                        .first_moment = -1,
                                        .second_moment = -1,
                                        .is_split = is_split,
                                        .gradient_at.buffer = -1};
    const char *const names[] = {is_split ? "rest.w" : "w", "low.w"};
    shape four = SHAPE(4);
    for (int i = 0; i <= has_copy; i++) {
        dtype type = i ? DTYPE_BF16 : is_split ? DTYPE_U16 : DTYPE_F32;
        tensor layout = tensor_contiguous(NULL, type, &four);
        plan_buffer leaf = {.bytes = tensor_bytes(&layout),
                            .role = ROLE_PARAMETER,
                            .type = type,
                            .shape = four,
                            .name = names[i],
                            .born = -1,
                            .is_persistent = true};
        plan_operand operand = {.buffer = plan_add_buffer(p, &leaf), .layout = layout};
        plan_add_name(p, names[i], &operand);
    }
    plan_finish(p);
    return p;
}

static void expect_leaves(const storage *s, const char *whole, const char *low_copy,
                          const char *rest) {
    stored_parameter there = storage_find_parameter(s, "w");
    const char *const wanted[] = {whole, low_copy, rest};
    const char *const got[] = {there.whole, there.low_copy, there.rest};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(got[i] != NULL, wanted[i] != NULL);
        if (wanted[i])
            assert_string_equal(got[i], wanted[i]);
    }
}

static void a_parameter_has_the_leaves_that_are_there(void **state) {
    (void)state;
    memory_pool *pool = make_pool(1 << 20);
    storage *s = storage_create(pool);
    plan *whole = make_parameter_plan(false, false), *copied = make_parameter_plan(true, false);
    plan *halves = make_parameter_plan(true, true);
    expect_leaves(s, NULL, NULL, NULL);
    assert_int_equal(storage_add_plan(s, whole), DYNO_OK);
    expect_leaves(s, "w", NULL, NULL);
    assert_int_equal(storage_add_plan(s, copied), DYNO_OK);
    expect_leaves(s, "w", "low.w", NULL);
    assert_int_equal(storage_add_plan(s, whole), DYNO_OK);
    expect_leaves(s, "w", "low.w", NULL);
    storage_keep_parameters(s, halves);
    expect_leaves(s, NULL, "low.w", NULL);
    assert_int_equal(storage_add_plan(s, halves), DYNO_OK);
    plan_destroy(whole); /* storage outlives the plans that filled it */
    plan_destroy(copied);
    plan_destroy(halves);
    expect_leaves(s, NULL, "low.w", "rest.w");
    assert_null(storage_find_parameter(s, "other").rest);
    storage_shrink(s, 0);
    expect_leaves(s, NULL, NULL, NULL);
    storage_destroy(s);
    memory_pool_destroy(pool);
}

static void members_of_a_family_are_found_by_name(void **state) {
    (void)state;
    memory_pool *pool = make_pool(1 << 20);
    storage *s = storage_create(pool);
    plan *p = make_family_plan(), *other = make_plan(64, false);
    assert_int_equal(storage_add_plan(s, p), DYNO_OK);
    assert_int_equal(storage_add_plan(s, p), DYNO_OK);
    char *both = storage_find(s, "both");
    assert_ptr_equal(storage_find(s, "first"), both);
    tensor second = storage_find_tensor(s, "second");
    assert_ptr_equal(second.data, both + 8);
    assert_int_equal(shape_elements(&second.shape), 4);
    static const float numbers[] = {1, 2, 3, 4};
    assert_int_equal(storage_write(s, "second", numbers, sizeof numbers), DYNO_OK);
    assert_memory_equal(both + 8, numbers, sizeof numbers);
    assert_int_equal(storage_write(s, "second", numbers, 8), DYNO_INVALID);
    storage_keep_parameters(s, p);
    assert_ptr_equal(storage_find(s, "second"), both + 8);
    storage_keep_parameters(s, other);
    assert_null(storage_find(s, "second"));
    assert_null(storage_find(s, "both"));
    plan_destroy(p);
    plan_destroy(other);
    storage_destroy(s);
    memory_pool_destroy(pool);
}

static void memory_that_was_used_before_is_zeroed(void **state) {
    (void)state;
    memory_pool *pool = make_pool(1 << 20);
    plan *p = make_plan(64, true);
    static const char zeros[200];
    for (int round = 0; round < 2; round++) {
        storage *s = storage_create(pool);
        assert_int_equal(storage_add_plan(s, p), DYNO_OK);
        assert_memory_equal(storage_find(s, "moment"), zeros, 200);
        assert_memory_equal(storage_find(s, "weight"), zeros, 100);
        memset(storage_find(s, "moment"), 0xff, 200);
        memset(storage_find(s, "weight"), 0xff, 100);
        storage_destroy(s);
    }
    plan_destroy(p);
    memory_pool_destroy(pool);
}

static void another_size_under_the_same_name_is_refused_whole(void **state) {
    (void)state;
    memory_pool *pool = make_pool(1 << 20);
    storage *s = storage_create(pool);
    plan *narrow = make_plan(64, false), *wide = make_plan(640, true);
    assert_int_equal(storage_add_plan(s, narrow), DYNO_OK);
    int64_t before = memory_pool_taken_bytes(pool);
    assert_int_equal(storage_add_plan(s, wide), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "'ids' is 64 bytes in storage and 640"));
    assert_null(storage_find(s, "moment"));
    assert_int_equal(memory_pool_taken_bytes(pool), before);
    storage_destroy(s);
    plan_destroy(narrow);
    plan_destroy(wide);
    memory_pool_destroy(pool);
}

static void keeping_the_parameters_of_a_plan_releases_the_rest(void **state) {
    (void)state;
    memory_pool *pool = make_pool(1 << 20);
    storage *s = storage_create(pool);
    plan *step = make_plan(64, true), *wide = make_plan(640, false);
    assert_int_equal(storage_add_plan(s, step), DYNO_OK);
    char *weight = storage_find(s, "weight");
    weight[0] = 5;
    storage_keep_parameters(s, wide);
    assert_null(storage_find(s, "moment"));
    assert_null(storage_find(s, "ids"));
    assert_int_equal(memory_pool_taken_bytes(pool), rounded(100));
    assert_int_equal(storage_add_plan(s, wide), DYNO_OK);
    assert_ptr_equal(storage_find(s, "weight"), weight);
    assert_int_equal(weight[0], 5);
    assert_ptr_equal(storage_find(s, "ids"), weight + rounded(100)); /* as in an empty pool */
    plan *other = plan_create("other model");
    add(other, "weight", 101, ROLE_PARAMETER);
    storage_keep_parameters(s, other);
    assert_null(storage_find(s, "weight"));
    plan_destroy(other);
    storage_destroy(s);
    plan_destroy(step);
    plan_destroy(wide);
    memory_pool_destroy(pool);
}

static void what_does_not_fit_adds_nothing(void **state) {
    (void)state;
    plan *p = make_plan(64, true);
    for (int64_t limit = 1; limit < rounded(100) + rounded(64) + rounded(200); limit++) {
        memory_pool *pool = make_pool(limit);
        storage *s = storage_create(pool);
        assert_int_equal(storage_add_plan(s, p), DYNO_OUT_OF_MEMORY);
        assert_non_null(strstr(dyno_error_message(), "u8["));
        assert_null(storage_find(s, "weight"));
        assert_int_equal(memory_pool_taken_bytes(pool), 0);
        storage_destroy(s);
        memory_pool_destroy(pool);
    }
    plan_destroy(p);
    storage_destroy(NULL);
    memory_pool_destroy(NULL);
}

static void trimming_gives_back_pages_and_leaves_what_is_held(void **state) {
    (void)state;
    memory_pool *pool = make_pool(1 << 22);
    storage *s = storage_create(pool);
    plan *p = make_plan(1 << 20, true);
    assert_int_equal(storage_add_plan(s, p), DYNO_OK);
    char *weight = storage_find(s, "weight"), *ids = storage_find(s, "ids");
    memset(weight, 9, 100);
    memset(ids, 8, 1 << 20);
    storage_keep_parameters(s, p);
    memory_pool_trim(pool);
    assert_int_equal(memory_pool_peak_taken_bytes(pool), rounded(100));
    assert_int_equal(memory_pool_reserved_bytes(pool), rounded(100));
    assert_int_equal(weight[99], 9);
    assert_int_equal(ids[1 << 19], 0); /* a page of zeros, when it is next touched */
    storage_destroy(s);
    plan_destroy(p);
    memory_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_of_a_model_share_what_has_the_same_name),
        cmocka_unit_test(a_parameter_has_the_leaves_that_are_there),
        cmocka_unit_test(members_of_a_family_are_found_by_name),
        cmocka_unit_test(memory_that_was_used_before_is_zeroed),
        cmocka_unit_test(another_size_under_the_same_name_is_refused_whole),
        cmocka_unit_test(keeping_the_parameters_of_a_plan_releases_the_rest),
        cmocka_unit_test(what_does_not_fit_adds_nothing),
        cmocka_unit_test(trimming_gives_back_pages_and_leaves_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
