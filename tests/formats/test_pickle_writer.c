/* test_pickle_writer.c - the bytes that Python reads. tests/scripts/test_memory_snapshot.py has Python
 * read them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "formats/pickle_writer.h"

#include <string.h>

static void expect(const text *out, const char *wanted, size_t length) {
    assert_int_equal(out->length, length);
    assert_memory_equal(out->data, wanted, length);
}
#define EXPECT(out, wanted) expect(out, wanted, sizeof(wanted) - 1)

static void a_dict_of_every_kind_of_value(void **state) {
    (void)state;
    text out = {0};
    pickle_writer *w = pickle_writer_create(&out);
    pickle_begin_dict(w);
    pickle_set_integer(w, "a", 7);
    pickle_set_boolean(w, "b", true);
    pickle_add_text(w, "c");
    pickle_begin_list(w);
    pickle_end(w);
    pickle_set_text(w, "d", "a"); /* the second time it is a reference */
    pickle_end(w);
    pickle_writer_finish(w);
    EXPECT(&out, "\x80\x02}("
                 "X\x01\x00\x00\x00"
                 "aq\x00K\x07"
                 "X\x01\x00\x00\x00"
                 "bq\x01\x88"
                 "X\x01\x00\x00\x00"
                 "cq\x02]"
                 "X\x01\x00\x00\x00"
                 "dq\x03h\x00"
                 "u.");
    text_release(&out);
}

static void integers_take_as_few_bytes_as_hold_them(void **state) {
    (void)state;
    text out = {0};
    pickle_writer *w = pickle_writer_create(&out);
    pickle_begin_list(w);
    static const int64_t numbers[] = {
        0, 255, 256, 65535, 65536, -1, INT32_MAX, INT32_MIN, (int64_t)INT32_MAX + 1, INT64_MIN};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        pickle_add_integer(w, numbers[i]);
    pickle_end(w);
    pickle_writer_finish(w);
    EXPECT(&out, "\x80\x02]("
                 "K\x00K\xffM\x00\x01M\xff\xffJ\x00\x00\x01\x00J\xff\xff\xff\xff"
                 "J\xff\xff\xff\x7fJ\x00\x00\x00\x80"
                 "\x8a\x08\x00\x00\x00\x80\x00\x00\x00\x00"
                 "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"
                 "e.");
    text_release(&out);
}

/* A reader in JavaScript gives a batch to one call as its arguments. */
static void no_batch_has_more_than_a_thousand_items(void **state) {
    (void)state;
    text out = {0};
    pickle_writer *w = pickle_writer_create(&out);
    pickle_begin_list(w);
    for (int i = 0; i < 2001; i++)
        pickle_add_integer(w, 1);
    pickle_end(w);
    pickle_writer_finish(w);
    assert_int_equal(out.length, 2 + 1 + 3 * 2 + 2 * 2001 + 1);
    const char *first = out.data + 4 + 2 * 1000;
    assert_memory_equal(first, "e(K\x01", 4);
    text_release(&out);
}

static void a_remembered_value_is_written_again_in_two_bytes(void **state) {
    (void)state;
    text out = {0};
    pickle_writer *w = pickle_writer_create(&out);
    pickle_begin_list(w);
    pickle_begin_list(w);
    pickle_add_integer(w, 5);
    pickle_end(w);
    int inner = pickle_remember(w);
    pickle_add_again(w, inner);
    pickle_end(w);
    pickle_writer_finish(w);
    EXPECT(&out, "\x80\x02](](K\x05"
                 "eq\x00h\x00"
                 "e.");
    text_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dict_of_every_kind_of_value),
        cmocka_unit_test(integers_take_as_few_bytes_as_hold_them),
        cmocka_unit_test(no_batch_has_more_than_a_thousand_items),
        cmocka_unit_test(a_remembered_value_is_written_again_in_two_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
