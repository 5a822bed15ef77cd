/* ordered_set.c - a treap: a search tree by key that is a heap by priority. Priorities are hashes of
 * a counter, which keeps the tree balanced whatever order the keys come in, and its shape the same
 * in every run. */
#include "base/ordered_set.h"

#include <stdbool.h>
#include <stddef.h>

/* splitmix64 */
static uint64_t priority_of(uint64_t number) {
    uint64_t z = (number + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static bool is_before(const ordered_item *item, int64_t key, int64_t second) {
    return item->key != key ? item->key < key : item->second < second;
}

/* Cuts the tree into the items before these keys and the others. */
static void cut(ordered_item *root, int64_t key, int64_t second, ordered_item **before,
                ordered_item **others) {
    while (root) {
        if (is_before(root, key, second)) {
            *before = root;
            before = &root->right;
            root = root->right;
        } else {
            *others = root;
            others = &root->left;
            root = root->left;
        }
    }
    *before = *others = NULL;
}

void ordered_set_add(ordered_set *set, ordered_item *item) {
    item->priority = priority_of(set->added++);
    ordered_item **at = &set->root;
    while (*at && (*at)->priority > item->priority)
        at = is_before(*at, item->key, item->second) ? &(*at)->right : &(*at)->left;
    cut(*at, item->key, item->second, &item->left, &item->right);
    *at = item;
}

void ordered_set_remove(ordered_set *set, ordered_item *item) {
    ordered_item **at = &set->root;
    while (*at != item)
        at = is_before(*at, item->key, item->second) ? &(*at)->right : &(*at)->left;
    ordered_item *left = item->left, *right = item->right;
    while (left && right) { /* joins the two subtrees in its place */
        if (left->priority > right->priority) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    }
    *at = left ? left : right;
}

ordered_item *ordered_set_first_from(const ordered_set *set, int64_t key, int64_t second) {
    ordered_item *found = NULL;
    for (ordered_item *i = set->root; i;) {
        bool is_left_out = is_before(i, key, second);
        found = is_left_out ? found : i;
        i = is_left_out ? i->right : i->left;
    }
    return found;
}

ordered_item *ordered_set_last_before(const ordered_set *set, int64_t key, int64_t second) {
    ordered_item *found = NULL;
    for (ordered_item *i = set->root; i;) {
        bool is_taken = is_before(i, key, second);
        found = is_taken ? i : found;
        i = is_taken ? i->right : i->left;
    }
    return found;
}
