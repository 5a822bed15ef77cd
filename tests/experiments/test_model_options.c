/* test_model_options.c - what models are called whose sizes were changed, and what a record keeps of
 * them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "experiments/model_options.h"
#include "support/command.h"
#include "support/expect.h"
#include "support/scratch.h"

typedef struct change {
    const char *preset;
    int64_t sizes[MODEL_SIZE_COUNT]; /* 0: open */
    const char *name;
} change;

static void a_name_says_which_sizes_differ(void **state) {
    (void)state;
    static const change cases[] = {
        {"small", {0}, "small"},
        {"small", {[VOCAB] = 256}, "small, vocab 256"},
        {"medium", {[VOCAB] = 256}, "medium, vocab 256"},
        {"small", {[VOCAB] = 10000}, "small"}, /* as it was */
        {"small", {[HEADS] = 6, [KV_HEADS] = 2}, "small, heads 6, kv-heads 2"},
        {"small", {[D_MODEL] = 96, [LAYERS] = 2}, "small, layers 2, d-model 96"},
        {"small", {[HEAD_DIM] = 32}, "small, head-dim 32"},
        {"xl",
         {[D_MODEL] = 64, [LAYERS] = 2, [HEADS] = 4, [D_FF] = 128, [VOCAB] = 10000},
         "layers 2, d-model 64, d-ff 128, heads 4, vocab 10000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config config;
        int64_t sizes[MODEL_SIZE_COUNT];
        for (int j = 0; j < MODEL_SIZE_COUNT; j++)
            sizes[j] = cases[i].sizes[j] ? cases[i].sizes[j] : MODEL_SIZE_OPEN;
        expect_ok(model_config_from_preset(cases[i].preset, &config));
        model_options_change(&config, sizes);
        expect_ok(model_config_check(&config));
        assert_string_equal(config.name, cases[i].name);
    }
}

/* With grouped heads, giving the same number of heads again makes as many for keys and values. */
static void a_size_that_changes_unasked_is_in_the_name(void **state) {
    (void)state;
    model_config config = {.name = "grouped",
                           .d_model = 64,
                           .d_ff = 128,
                           .layers = 2,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 16,
                           .vocab = 100,
                           .norm_eps = 1e-5,
                           .rope_theta = 10000};
    int64_t sizes[MODEL_SIZE_COUNT];
    for (int j = 0; j < MODEL_SIZE_COUNT; j++)
        sizes[j] = MODEL_SIZE_OPEN;
    sizes[HEADS] = 4;
    model_options_change(&config, sizes);
    assert_int_equal(config.kv_heads, 4);
    assert_string_equal(config.name, "grouped, kv-heads 4");
}

static void rows_name_their_shape_and_the_record_has_all_sizes(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "small, layers 1, vocab 256",
                "plan --model small,medium --layers 1 --vocab 256 "
                "--device cpu --out %s",
                made.path);
    dyno_expect(0, "medium, layers 1, vocab 256", "show %s", made.path);
    results *run;
    expect_ok(results_read(made.path, &run));
    static const struct {
        const char *key;
        int64_t small, medium;
    } sizes[] = {{"layers", 1, 1},   {"d_model", 768, 1024}, {"d_ff", 3072, 4096},
                 {"heads", 12, 16},  {"kv_heads", 12, 16},   {"head_dim", 64, 64},
                 {"vocab", 256, 256}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(cell_find_parameter(run->cells[0], sizes[i].key)->integer, sizes[i].small);
        assert_int_equal(cell_find_parameter(run->cells[1], sizes[i].key)->integer,
                         sizes[i].medium);
    }
    results_destroy(run);
    scratch_remove(&made);
}

/* Every line of CSV below the header names its cell; titles are for people. */
static void every_row_of_a_breakdown_in_csv_names_its_cell(void **state) {
    (void)state;
    text output = {0};
    assert_int_equal(dyno_run(&output,
                              "bench --model small --layers 1 --d-model 32 --heads 2 --d-ff "
                              "64 --vocab 50 --device cpu --context 8,16 --pass step "
                              "--steps 1 --breakdown --format csv 2>/dev/null"),
                     0);
    int rows = 0, names = 0, headers = 0;
    for (char *line = strtok(output.data, "\r\n"); line; line = strtok(NULL, "\r\n")) {
        bool is_header =
            strncmp(line, "model,", 6) == 0 || strncmp(line, "breakdown,model,", 16) == 0;
        headers += is_header;
        rows += !is_header;
        names += strstr(line, "\"layers 1, d-model 32, d-ff 64, heads 2, vocab 50\"") != NULL;
        if (strncmp(line, "by_", 3) == 0)
            assert_true(strstr(line, ",50,8,4,1,1,none,fp32,1,1,step,eager,fp32,") ||
                        strstr(line, ",50,16,4,1,1,none,fp32,1,1,step,eager,fp32,"));
    }
    assert_int_equal(headers, 1 + 2 * 4);
    assert_true(rows > 30);
    assert_int_equal(names, rows);
    text_release(&output);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_says_which_sizes_differ),
        cmocka_unit_test(a_size_that_changes_unasked_is_in_the_name),
        cmocka_unit_test(rows_name_their_shape_and_the_record_has_all_sizes),
        cmocka_unit_test(every_row_of_a_breakdown_in_csv_names_its_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
