/* test_hazards.c - which launches wait for which across streams. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plan/hazards.h"

enum { MOST_RANGES = 4, MOST_LAUNCHES = 64 };

/* "r0-9 w10-19": what a launch reads and writes. */
typedef struct scene {
    hazard_range ranges[MOST_LAUNCHES][MOST_RANGES];
    hazard_launch launches[MOST_LAUNCHES];
    int count;
} scene;

static void add(scene *s, int stream, hazard_range first, hazard_range second) {
    hazard_range *ranges = s->ranges[s->count];
    ranges[0] = first;
    ranges[1] = second;
    s->launches[s->count++] = (hazard_launch){stream, ranges, second.end ? 2 : 1};
}

#define READ(from, to) ((hazard_range){from, to, false})
#define WRITE(from, to) ((hazard_range){from, to, true})
#define NOTHING ((hazard_range){0, 0, false})

static void expect(const scene *s, const hazard_edge *wanted, int count) {
    hazard_edge *edges;
    int found = hazards_find(s->launches, s->count, &edges);
    assert_int_equal(found, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(edges[i].launch, wanted[i].launch);
        assert_int_equal(edges[i].waits_for, wanted[i].waits_for);
    }
    free(edges);
}

static void one_stream_needs_no_edges(void **state) {
    (void)state;
    scene s = {0};
    for (int i = 0; i < 5; i++)
        add(&s, 0, WRITE(0, 10), READ(10, 20));
    expect(&s, NULL, 0);
}

static void a_reader_waits_for_the_writer(void **state) {
    (void)state;
    scene s = {0};
    add(&s, 0, WRITE(0, 10), NOTHING);
    add(&s, 1, READ(5, 6), WRITE(20, 30));
    expect(&s, (hazard_edge[]){{1, 0}}, 1);
}

static void a_writer_waits_for_readers_and_writers(void **state) {
    (void)state;
    scene s = {0};
    add(&s, 0, READ(0, 10), NOTHING);
    add(&s, 1, WRITE(0, 10), NOTHING); /* after the read */
    add(&s, 2, WRITE(9, 12), NOTHING); /* after the write, and so after the read */
    expect(&s, (hazard_edge[]){{1, 0}, {2, 1}}, 2);
}

static void readers_of_one_thing_do_not_wait_for_each_other(void **state) {
    (void)state;
    scene s = {0};
    add(&s, 0, READ(0, 10), WRITE(10, 20));
    add(&s, 1, READ(0, 10), WRITE(20, 30));
    add(&s, 2, READ(0, 10), WRITE(30, 40));
    expect(&s, NULL, 0);
}

static void neighbours_do_not_touch(void **state) {
    (void)state;
    scene s = {0};
    add(&s, 0, WRITE(0, 10), NOTHING);
    add(&s, 1, READ(10, 20), NOTHING);
    expect(&s, NULL, 0);
}

static void only_the_last_of_a_stream_is_waited_for(void **state) {
    (void)state;
    scene s = {0};
    add(&s, 0, WRITE(0, 10), NOTHING);
    add(&s, 0, WRITE(10, 20), NOTHING);
    add(&s, 0, WRITE(50, 60), NOTHING); /* no concern of the next */
    add(&s, 1, READ(0, 20), NOTHING);
    add(&s, 1, READ(0, 10), NOTHING); /* known by now */
    expect(&s, (hazard_edge[]){{3, 1}}, 1);
}

static void what_is_known_through_another_stream_is_not_waited_for(void **state) {
    (void)state;
    scene s = {0};
    add(&s, 0, WRITE(0, 10), NOTHING);
    add(&s, 1, READ(0, 10), WRITE(10, 20)); /* waits for 0 */
    add(&s, 2, READ(0, 10), READ(10, 20));  /* waits for 1, and thereby for 0 */
    expect(&s, (hazard_edge[]){{1, 0}, {2, 1}}, 2);
}

static void a_later_write_is_waited_for_again(void **state) {
    (void)state;
    scene s = {0};
    add(&s, 0, WRITE(0, 10), NOTHING);
    add(&s, 1, READ(0, 10), NOTHING);
    add(&s, 0, WRITE(0, 10), NOTHING); /* after the read on 1 */
    add(&s, 1, READ(0, 10), NOTHING);
    expect(&s, (hazard_edge[]){{1, 0}, {2, 1}, {3, 2}}, 3);
}

static void a_strided_view_reaches_from_its_first_to_its_last_element(void **state) {
    (void)state;
    char memory[4096];
    shape matrix = SHAPE(3, 5), scalar = SHAPE_SCALAR;
    tensor t = tensor_contiguous(memory + 1024, DTYPE_F32, &matrix);
    hazard_range r = hazard_range_of(&t, true);
    assert_true(r.begin == (uintptr_t)memory + 1024 && r.end == r.begin + 60 && r.is_written);
    t.stride[0] = 100;
    t.stride[1] = 0; /* broadcast */
    r = hazard_range_of(&t, false);
    assert_true(r.begin == (uintptr_t)memory + 1024 && r.end == r.begin + 201 * 4);
    t.stride[0] = -10;
    t.stride[1] = 2;
    r = hazard_range_of(&t, false);
    assert_true(r.begin == (uintptr_t)memory + 1024 - 80 && r.end == r.begin + 80 + 9 * 4);
    t = tensor_contiguous(memory, DTYPE_BF16, &scalar);
    r = hazard_range_of(&t, false);
    assert_true(r.end == r.begin + 2);
}

/* Any order that respects streams and edges also respects every conflict: for each pair in
 * conflict there is a way from one to the other. */
static bool is_ordered(const scene *s, const hazard_edge *edges, int count, int from, int to) {
    bool reached[MOST_LAUNCHES] = {false};
    reached[from] = true;
    for (int i = from; i <= to; i++) {
        for (int j = from; j < i; j++)
            if (reached[j] && s->launches[i].stream == s->launches[j].stream)
                reached[i] = true;
        for (int e = 0; e < count; e++)
            if (edges[e].launch == i && reached[edges[e].waits_for])
                reached[i] = true;
    }
    return reached[to];
}

static void every_conflict_is_ordered_and_no_edge_is_spare(void **state) {
    (void)state;
    srand(7);
    for (int round = 0; round < 200; round++) {
        scene s = {0};
        for (int i = 0; i < MOST_LAUNCHES; i++) {
            uintptr_t a = (uintptr_t)(rand() % 40), b = (uintptr_t)(rand() % 40);
            add(&s, rand() % 4, READ(a, a + 1 + (uintptr_t)(rand() % 5)),
                WRITE(b, b + 1 + (uintptr_t)(rand() % 3)));
        }
        hazard_edge *edges;
        int count = hazards_find(s.launches, s.count, &edges);
        for (int i = 0; i < s.count; i++)
            for (int j = 0; j < i; j++) {
                bool is_conflict = false;
                for (int x = 0; x < 2; x++)
                    for (int y = 0; y < 2; y++) {
                        const hazard_range *p = &s.ranges[i][x], *q = &s.ranges[j][y];
                        is_conflict |= (p->is_written || q->is_written) && p->begin < q->end &&
                                       q->begin < p->end;
                    }
                if (is_conflict)
                    assert_true(is_ordered(&s, edges, count, j, i));
            }
        for (int e = 0; e < count; e++) {
            assert_int_not_equal(s.launches[edges[e].launch].stream,
                                 s.launches[edges[e].waits_for].stream);
            hazard_edge rest[MOST_LAUNCHES * 4];
            assert_true(count <= MOST_LAUNCHES * 4);
            memcpy(rest, edges, (size_t)count * sizeof *rest);
            rest[e] = rest[count - 1];
            assert_false(is_ordered(&s, rest, count - 1, edges[e].waits_for, edges[e].launch));
        }
        free(edges);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stream_needs_no_edges),
        cmocka_unit_test(a_reader_waits_for_the_writer),
        cmocka_unit_test(a_writer_waits_for_readers_and_writers),
        cmocka_unit_test(readers_of_one_thing_do_not_wait_for_each_other),
        cmocka_unit_test(neighbours_do_not_touch),
        cmocka_unit_test(only_the_last_of_a_stream_is_waited_for),
        cmocka_unit_test(what_is_known_through_another_stream_is_not_waited_for),
        cmocka_unit_test(a_later_write_is_waited_for_again),
        cmocka_unit_test(a_strided_view_reaches_from_its_first_to_its_last_element),
        cmocka_unit_test(every_conflict_is_ordered_and_no_edge_is_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
