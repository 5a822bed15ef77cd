/* test_product_workspace.c - every product on a GPU finds the workspace that its shape asks for. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "ops/loss_head/loss_head_layout.h"
#include "support/draw.h"

static void only_results_of_few_tiles_have_room_for_sums_in_pieces(void **state) {
    (void)state;
    static const struct {
        int64_t rows, columns, bytes;
    } cases[] = {{1, 1, 32 << 20},       {512, 1600, 32 << 20},   {2048, 1023, 32 << 20},
                 {2048, 1024, 64 << 10}, {12800, 1600, 64 << 10}, {1 << 20, 1 << 20, 64 << 10},
                 {2048, 768, 32 << 20},  {1600, 1600, 64 << 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(product_workspace_bytes(cases[i].rows * cases[i].columns), cases[i].bytes);
}

static void expect_room(int64_t have, int64_t rows, int64_t columns) {
    assert_true(product_workspace_bytes(rows * columns) <= have);
}

/* Of a shorter last chunk too, whose results are smaller and may ask for more. */
static void the_loss_head_has_room_for_the_products_of_every_chunk(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        draw d = draw_create(seed, 1);
        int64_t tokens = 1 + draw_below(&d, 6000), chunk = 1 + draw_below(&d, tokens);
        int64_t vocab = 1 + draw_below(&d, 5000), width = 1 + draw_below(&d, 4000);
        int64_t have = loss_head_product_bytes(tokens, chunk, vocab, width);
        for (int64_t first = 0; first < tokens; first += chunk) {
            int64_t rows = tokens - first < chunk ? tokens - first : chunk;
            expect_room(have, rows, vocab);
            expect_room(have, vocab, width);
            expect_room(have, rows, width);
        }
    }
    assert_int_equal(loss_head_product_bytes(2048, 2048, 10000, 1600), 64 << 10);
    assert_int_equal(loss_head_product_bytes(2049, 2048, 10000, 1600), 32 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_results_of_few_tiles_have_room_for_sums_in_pieces),
        cmocka_unit_test(the_loss_head_has_room_for_the_products_of_every_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
