/* test_limits.c - the most ranks before communication dominates: by hand, and by trying every number. */
#include "support/expect.h"

#include "simulate/limits.h"
#include "support/draw.h"

/* One FLOP a second and round numbers: every fraction below is that of the formula. */
static const limits_model BY_HAND = {.forward_flops = 4000,
                                     .backward_flops = 8000,
                                     .weight_bytes = 200,
                                     .gradient_bytes = 400,
                                     .residual_bytes = 25,
                                     .layers = 2,
                                     .flops_a_second = 1,
                                     .heads = 64};

static int64_t most(limit_kind kind, double inside, double across) {
    network n = {.inside = inside, .across = across / 8, .per_node = 8}; /* eight links */
    return limit_find(kind, &BY_HAND, &n).ranks;
}

static void limits_are_those_worked_out_by_hand(void **state) {
    (void)state;
    /* ddp: 8000 W / (2 x 400) = 10 W */
    assert_int_equal(most(LIMIT_DDP, 0.55, 0.1), 6); /* 1 + floor(5.5), inside a node */
    assert_int_equal(most(LIMIT_DDP, 5, 0.5), 8);    /* a node is within 50, 5 across is not more */
    assert_int_equal(most(LIMIT_DDP, 5, 2.05), 21);  /* 1 + floor(20.5) */
    assert_int_equal(most(LIMIT_DDP, 0.05, 0.05), 1); /* not even two */
    /* fsdp: min(4000 / 200, 8000 / 600) W = 13.33 W */
    assert_int_equal(most(LIMIT_FSDP, 100, 3), 41);
    /* tp: 4000 W / (4 x 2 x 25) = 20 W, and no more than there are heads */
    assert_int_equal(most(LIMIT_TP, 0.3, 0.1), 7);
    assert_int_equal(most(LIMIT_TP, 100, 1), 21);
    assert_int_equal(most(LIMIT_TP, 100, 100), 64);
}

/* Whether N ranks, in groups of Y, are bound by communication, as limits.h says it. */
static bool is_bound(limit_kind kind, const limits_model *m, const network *n, double ranks,
                     double group) {
    double w = network_bandwidth(n, (int64_t)ranks), c = m->flops_a_second * ranks;
    double forward = m->forward_flops / c, backward = m->backward_flops / c;
    double ring = (ranks - 1) / ranks / w, p = m->weight_bytes, g = m->gradient_bytes;
    double all_reduces = 4 * (double)m->layers * m->residual_bytes;
    switch (kind) {
    case LIMIT_DDP:
        return 2 * ring * g > backward;
    case LIMIT_FSDP:
        return ring * p > forward || ring * (p + g) > backward;
    case LIMIT_TP:
        return all_reduces * ring > forward || (int64_t)ranks > m->heads;
    default: {
        double x = ranks / group;
        double tp = all_reduces * (group - 1) / group / x / network_bandwidth(n, (int64_t)group);
        network between = network_between_groups(n, (int64_t)group);
        double outer = (x - 1) / x / group / network_bandwidth(&between, (int64_t)x);
        return outer * p + tp > forward || outer * (p + g) + tp > backward;
    }
    }
}

static void limits_are_those_found_by_trying_every_number_of_ranks(void **state) {
    (void)state;
    int beyond_a_node = 0, with_groups = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        draw d = draw_create(seed, 1);
        limits_model m = {.forward_flops = 1e4 * (double)(1 + draw_below(&d, 100)),
                          .weight_bytes = (double)(100 + draw_below(&d, 900)),
                          .residual_bytes = (double)(1 + draw_below(&d, 50)),
                          .layers = 1 + draw_below(&d, 20),
                          .flops_a_second = 10,
                          .heads = 1 + draw_below(&d, 64)};
        m.backward_flops = 2.03 * m.forward_flops;
        m.gradient_bytes = 2 * m.weight_bytes;
        network n = {.inside = 0.37 * (double)(1 + draw_below(&d, 100)), .per_node = 8};
        n.across = n.inside / (double)(1 + draw_below(&d, 30));
        for (limit_kind kind = 0; kind < LIMIT_KIND_COUNT; kind++) {
            int64_t found = 1;
            for (int64_t group = 1; group <= (kind == LIMIT_FSDP_TP ? m.heads : 1); group *= 2)
                for (int64_t ranks = group; ranks < 20000; ranks += group)
                    if (!is_bound(kind, &m, &n, (double)ranks, (double)group) && ranks > found)
                        found = ranks;
            limit l = limit_find(kind, &m, &n);
            if (found < 19000)
                assert_int_equal(l.ranks, found);
            beyond_a_node += l.ranks > 8;
            with_groups += l.group > 1;
        }
    }
    assert_true(beyond_a_node > 100 && with_groups > 20);
}

static void every_limit_has_a_name_and_a_formula(void **state) {
    (void)state;
    assert_string_equal(limit_name(LIMIT_FSDP_TP), "fsdp+tp");
    for (limit_kind kind = 0; kind < LIMIT_KIND_COUNT; kind++)
        assert_non_null(limit_formula(kind));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_those_worked_out_by_hand),
        cmocka_unit_test(limits_are_those_found_by_trying_every_number_of_ranks),
        cmocka_unit_test(every_limit_has_a_name_and_a_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
