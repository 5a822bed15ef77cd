/* test_arena_map.c - the lowest gap that is free through a lifetime, compared with a search that
 * looks at all that is taken. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

#include "plan/arena_map.h"

typedef struct taken {
    int born, last_used;
    int64_t begin, end;
} taken;

static int by_begin(const void *a, const void *b) {
    const taken *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : 0;
}

/* `all` is sorted by begin. */
static int64_t search_all(const taken *all, int count, int born, int last_used, int64_t bytes) {
    int64_t offset = 0;
    for (int i = 0; i < count; i++) {
        if (all[i].born > last_used || all[i].last_used < born || all[i].end <= offset)
            continue;
        if (all[i].begin - offset >= bytes)
            break;
        offset = all[i].end;
    }
    return offset;
}

static uint64_t state_of_numbers;

static int next_number(int below) {
    state_of_numbers = state_of_numbers * 6364136223846793005u + 1442695040888963407u;
    return (int)((state_of_numbers >> 33) % (uint64_t)below);
}

/* Lifetimes as they are in a step: most of them short, some from the forward to the backward, some
 * of whole leaves of the map; sizes of which many are equal. */
static void expect_same_places(int launches, int count) {
    arena_map *map = arena_map_create(launches);
    taken *all = calloc((size_t)count, sizeof *all);
    for (int i = 0; i < count; i++) {
        int born = next_number(launches + 1), left = launches - born;
        int kind = next_number(8), life = kind < 5 ? next_number(9) : next_number(left + 1);
        if (kind == 7) {
            born = born / 64 * 64;
            life = 63 + 64 * next_number(4);
        }
        int last_used = born + life > launches ? launches : born + life;
        int64_t bytes = (int64_t)next_number(5) * 256;
        int64_t offset = arena_map_lowest_fit(map, born, last_used, bytes);
        assert_int_equal(offset, search_all(all, i, born, last_used, bytes));
        arena_map_take(map, born, last_used, offset, offset + bytes);
        all[i] = (taken){born, last_used, offset, offset + bytes};
        qsort(all, (size_t)i + 1, sizeof *all, by_begin);
    }
    arena_map_clear(map);
    assert_int_equal(arena_map_lowest_fit(map, 0, launches, 1 << 20), 0);
    arena_map_destroy(map);
    free(all);
}

static void places_are_those_of_a_search_over_all(void **state) {
    (void)state;
    static const int launches[] = {0, 1, 62, 63, 64, 65, 127, 128, 500, 2000, 4095, 4096};
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        for (int round = 0; round < 4; round++) {
            state_of_numbers = 1000 * i + (uint64_t)round;
            expect_same_places(launches[i], 300);
        }
}

static void what_ends_before_or_begins_after_is_not_in_the_way(void **state) {
    (void)state;
    arena_map *map = arena_map_create(1000);
    arena_map_take(map, 0, 99, 0, 512);
    arena_map_take(map, 101, 1000, 0, 512);
    assert_int_equal(arena_map_lowest_fit(map, 100, 100, 256), 0);
    assert_int_equal(arena_map_lowest_fit(map, 99, 100, 256), 512);
    assert_int_equal(arena_map_lowest_fit(map, 100, 101, 256), 512);
    arena_map_take(map, 0, 1000, 1024, 2048);
    assert_int_equal(arena_map_lowest_fit(map, 50, 50, 512), 512);
    assert_int_equal(arena_map_lowest_fit(map, 50, 50, 513), 2048);
    arena_map_destroy(map);
}

/* Of one leaf, of two, and of as many as the tree has: lifetimes from the first launch to the last. */
static void what_is_always_taken_is_in_everybodys_way(void **state) {
    (void)state;
    static const int launches[] = {0, 63, 64, 127, 128, 255, 511};
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
        int last = launches[i];
        arena_map *map = arena_map_create(last);
        arena_map_take(map, 0, last, 0, 512);
        for (int born = 0; born <= last; born += 21)
            assert_int_equal(arena_map_lowest_fit(map, born, last, 256), 512);
        assert_int_equal(arena_map_lowest_fit(map, 0, last, 256), 512);
        arena_map_take(map, last / 2, last / 2, 512, 768);
        assert_int_equal(arena_map_lowest_fit(map, 0, last, 256), 768);
        arena_map_destroy(map);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_those_of_a_search_over_all),
        cmocka_unit_test(what_ends_before_or_begins_after_is_not_in_the_way),
        cmocka_unit_test(what_is_always_taken_is_in_everybodys_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
