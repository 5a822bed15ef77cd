/* test_model_flops.c - the FLOPs that MFU counts, by hand and against the products of a plan. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "model/model_flops.h"
#include "support/expect.h"
#include "support/small_model.h"

/* One block of width 8 with 2 query heads of 4 and one key/value head, 4 tokens:
 *   q and o   2 x (2 x 4 x 8 x 8)           = 1024
 *   k and v   2 x (2 x 4 x 8 x 4)           =  512
 *   MLP       3 x (2 x 4 x 8 x 16)          = 3072
 *   attention 2 heads x 2 x (2 x 4 x 4 x 4) / 2 = 256
 *   head      2 x 4 x 8 x 32                = 2048 */
static void the_flops_of_a_tiny_model_are_those_counted_by_hand(void **state) {
    (void)state;
    const model_config tiny = {.d_model = 8,
                               .d_ff = 16,
                               .layers = 1,
                               .heads = 2,
                               .kv_heads = 1,
                               .head_dim = 4,
                               .vocab = 32};
    model_flops flops = model_flops_of_step(&tiny, 1, 4);
    assert_true(flops.forward == 1024 + 512 + 3072 + 256 + 2048);
    assert_true(flops.backward == 2 * flops.forward);
    attention_shape heads = {3, 16, 2, 2, 8};
    assert_true(model_flops_of_attention(&heads, false).forward == 3 * 2 * 2 * (2.0 * 16 * 16 * 8));
    assert_true(model_flops_of_attention(&heads, true).forward == 3 * 2 * (2.0 * 16 * 16 * 8));
}

static double product_flops(const plan *p, phase which) {
    double flops = 0;
    for (int i = 0; i < p->launch_count; i++)
        if (p->launches[i].phase == which && strcmp(p->launches[i].op_name, "matmul") == 0)
            flops += p->launches[i].flops;
    return flops;
}

/* Eager, every product is a launch, and the masked half of the scores is computed as well. */
static void they_are_the_products_of_an_eager_step_with_attention_halved(void **state) {
    (void)state;
    draw d = draw_create(11, 3);
    for (int i = 0; i < 20; i++) {
        model_config config = small_model_draw(&d);
        transformer_options size = small_model_draw_size(&d);
        plan *p = small_model_plan(&config, size.batch, size.context, STEP_BACKWARD);
        model_flops flops = model_flops_of_step(&config, size.batch, size.context);
        attention_shape heads = {size.batch, size.context, config.heads, config.kv_heads,
                                 config.head_dim};
        model_flops masked = model_flops_of_attention(&heads, true);
        double forward = flops.forward + (double)config.layers * masked.forward;
        double backward = flops.backward + (double)config.layers * masked.backward;
        assert_true(fabs(product_flops(p, PHASE_FORWARD) - forward) < 1e-6 * forward);
        assert_true(fabs(product_flops(p, PHASE_BACKWARD) - backward) < 1e-6 * backward);
        plan_destroy(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_flops_of_a_tiny_model_are_those_counted_by_hand),
        cmocka_unit_test(they_are_the_products_of_an_eager_step_with_attention_halved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
