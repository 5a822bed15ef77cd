/* test_block_allocator.c - random sequences of taking and giving back, held against a list. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "plan/block_allocator.h"
#include "support/draw.h"

enum { LIVE = 40, EVENTS = 4000 };

enum { UNIT = BLOCK_ALIGNMENT };

static int64_t rounded(int64_t bytes) {
    return bytes == 0 ? BLOCK_ALIGNMENT
                      : (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
}

/* Free bytes below the mark, and whether two free stretches touch. */
typedef struct free_bytes {
    int64_t total, last_end;
} free_bytes;

static void add_free(void *context, int64_t offset, int64_t bytes) {
    free_bytes *f = context;
    assert_true(bytes > 0);
    assert_true(offset > f->last_end || (offset == 0 && f->last_end == -1));
    f->total += bytes;
    f->last_end = offset + bytes;
}

static void expect_apart(block *const *live, int count, int newest) {
    int64_t begin = block_offset(live[newest]), end = begin + block_bytes(live[newest]);
    for (int i = 0; i < count; i++)
        if (i != newest && live[i])
            assert_true(block_offset(live[i]) >= end ||
                        block_offset(live[i]) + block_bytes(live[i]) <= begin);
}

/* Runs the events of a seed; writes the offset of each block taken. */
static int run_events(block_allocator *a, uint64_t seed, int64_t *offsets) {
    draw d = draw_create(seed, 1);
    block *live[LIVE] = {0};
    int64_t taken = block_allocator_taken_bytes(a), highest = block_allocator_high_water(a);
    int count = 0;
    for (int i = 0; i < EVENTS; i++) {
        int slot = (int)draw_below(&d, LIVE);
        if (live[slot]) {
            taken -= block_bytes(live[slot]);
            block_release(a, live[slot]);
            live[slot] = NULL;
        } else {
            int64_t bytes = draw_below(&d, draw_chance(&d, 0.1) ? 100000 : 700);
            live[slot] = block_allocate(a, bytes);
            offsets[count++] = block_offset(live[slot]);
            assert_int_equal(block_bytes(live[slot]), rounded(bytes));
            assert_int_equal(block_offset(live[slot]) % BLOCK_ALIGNMENT, 0);
            expect_apart(live, LIVE, slot);
            taken += rounded(bytes);
            if (block_offset(live[slot]) + rounded(bytes) > highest)
                highest = block_offset(live[slot]) + rounded(bytes);
        }
        assert_int_equal(block_allocator_taken_bytes(a), taken);
        assert_int_equal(block_allocator_high_water(a), highest);
        free_bytes f = {.last_end = -1};
        block_allocator_for_each_free(a, add_free, &f);
        assert_int_equal(f.total + taken, highest);
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i])
            block_release(a, live[i]);
    return count;
}

static void blocks_are_aligned_apart_and_accounted_for(void **state) {
    (void)state;
    static int64_t offsets[EVENTS];
    for (uint64_t seed = 0; seed < 5; seed++) {
        block_allocator *a = block_allocator_create();
        run_events(a, seed, offsets);
        assert_int_equal(block_allocator_taken_bytes(a), 0);
        block_allocator_destroy(a);
    }
}

/* What makes a plan's prediction hold for the first step and for every later one. */
static void the_same_sequence_again_gives_the_same_offsets(void **state) {
    (void)state;
    static int64_t first[EVENTS], second[EVENTS], elsewhere[EVENTS];
    for (uint64_t seed = 10; seed < 13; seed++) {
        block_allocator *a = block_allocator_create(), *b = block_allocator_create();
        block *weights = block_allocate(a, 12345);
        int count = run_events(a, seed, first);
        int64_t highest = block_allocator_high_water(a);
        assert_int_equal(run_events(a, seed, second), count);
        assert_int_equal(block_allocator_high_water(a), highest);
        block_allocate(b, 12345);
        assert_int_equal(run_events(b, seed, elsewhere), count);
        assert_memory_equal(first, second, (size_t)count * sizeof *first);
        assert_memory_equal(first, elsewhere, (size_t)count * sizeof *first);
        block_release(a, weights);
        block_allocator_destroy(a);
        block_allocator_destroy(b);
    }
}

static void neighbours_that_are_free_become_one(void **state) {
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 6; i++) {
        block_allocator *a = block_allocator_create();
        block *parts[3];
        for (int j = 0; j < 3; j++)
            parts[j] = block_allocate(a, UNIT);
        block *wall = block_allocate(a, UNIT);
        for (int j = 0; j < 3; j++)
            block_release(a, parts[orders[i][j]]);
        block *whole = block_allocate(a, 3 * UNIT);
        assert_int_equal(block_offset(whole), 0);
        assert_int_equal(block_allocator_high_water(a), 4 * UNIT);
        block_release(a, wall);
        block_allocator_destroy(a);
    }
}

static void the_smallest_hole_that_fits_is_taken_and_the_lowest_of_equals(void **state) {
    (void)state;
    block_allocator *a = block_allocator_create();
    static const int64_t sizes[] = {4 * UNIT, UNIT, 2 * UNIT, UNIT, 3 * UNIT, UNIT, 2 * UNIT, UNIT};
    block *blocks[8];
    int64_t offsets[8];
    for (int i = 0; i < 8; i++) {
        blocks[i] = block_allocate(a, sizes[i]);
        offsets[i] = block_offset(blocks[i]);
    }
    for (int i = 0; i < 8; i += 2)
        block_release(a, blocks[i]);
    assert_int_equal(block_offset(block_allocate(a, UNIT + 1)), offsets[2]);
    assert_int_equal(block_offset(block_allocate(a, 2 * UNIT)), offsets[6]);
    assert_int_equal(block_offset(block_allocate(a, UNIT + 1)), offsets[4]);
    assert_int_equal(block_offset(block_allocate(a, 1)), offsets[4] + 2 * UNIT);
    assert_int_equal(block_offset(block_allocate(a, 3 * UNIT + 1)), offsets[0]);
    assert_int_equal(block_offset(block_allocate(a, 1)), offsets[7] + UNIT);
    block_allocator_destroy(a);
}

/* A hole too small is left; the range grows from its last free block, not beyond it. */
static void the_end_of_the_range_grows_in_place(void **state) {
    (void)state;
    block_allocator *a = block_allocator_create();
    block *low = block_allocate(a, UNIT), *high = block_allocate(a, UNIT);
    block_release(a, high);
    assert_int_equal(block_offset(block_allocate(a, 15 * UNIT + 1)), UNIT);
    assert_int_equal(block_allocator_high_water(a), UNIT + 16 * UNIT);
    block_release(a, low);
    block_allocator_destroy(a);
    block_allocator_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_apart_and_accounted_for),
        cmocka_unit_test(the_same_sequence_again_gives_the_same_offsets),
        cmocka_unit_test(neighbours_that_are_free_become_one),
        cmocka_unit_test(the_smallest_hole_that_fits_is_taken_and_the_lowest_of_equals),
        cmocka_unit_test(the_end_of_the_range_grows_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
