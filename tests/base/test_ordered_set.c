/* test_ordered_set.c - things in the order of their keys, compared with a search over all. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/ordered_set.h"

enum { ITEMS = 400 };

static bool is_before(const ordered_item *a, int64_t key, int64_t second) {
    return a->key != key ? a->key < key : a->second < second;
}

static void expect_neighbours(const ordered_set *set, ordered_item *items, const bool *is_in,
                              int64_t key, int64_t second) {
    ordered_item *first = NULL, *last = NULL;
    for (int i = 0; i < ITEMS; i++) {
        if (!is_in[i])
            continue;
        ordered_item *it = &items[i];
        if (is_before(it, key, second))
            last = !last || is_before(last, it->key, it->second) ? it : last;
        else
            first = !first || is_before(it, first->key, first->second) ? it : first;
    }
    assert_ptr_equal(ordered_set_first_from(set, key, second), first);
    assert_ptr_equal(ordered_set_last_before(set, key, second), last);
}

static void neighbours_are_those_of_a_search_over_all(void **state) {
    (void)state;
    static ordered_item items[ITEMS];
    bool is_in[ITEMS] = {false};
    ordered_set set = {0};
    uint64_t number = 1;
    for (int i = 0; i < ITEMS; i++)
        items[i] = (ordered_item){.key = i * 7919 % 61, .second = i};
    for (int step = 0; step < 3000; step++) {
        number = number * 6364136223846793005u + 1442695040888963407u;
        int i = (int)((number >> 33) % ITEMS);
        if (is_in[i])
            ordered_set_remove(&set, &items[i]);
        else
            ordered_set_add(&set, &items[i]);
        is_in[i] = !is_in[i];
        expect_neighbours(&set, items, is_in, items[i].key, items[i].second);
        expect_neighbours(&set, items, is_in, (int64_t)(number >> 40) % 62, 0);
    }
}

static int depth_of(const ordered_item *root) {
    if (!root)
        return 0;
    int left = depth_of(root->left), right = depth_of(root->right);
    return 1 + (left > right ? left : right);
}

/* Keys in order are the worst case of a tree that does not balance itself. */
static void keys_that_come_in_order_make_no_deep_tree(void **state) {
    (void)state;
    enum { MANY = 20000 };
    static ordered_item items[MANY];
    ordered_set set = {0};
    for (int i = 0; i < MANY; i++) {
        items[i].key = i;
        ordered_set_add(&set, &items[i]);
    }
    assert_in_range(depth_of(set.root), 14, 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_those_of_a_search_over_all),
        cmocka_unit_test(keys_that_come_in_order_make_no_deep_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
