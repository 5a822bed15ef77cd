/* test_render_cuda.c - generated CUDA kernels compute what generated C kernels do, in an emulator,
 * and a compiler for GPUs takes them without a word. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/fuse.h"
#include "compiler/lower.h"
#include "graph/verify.h"
#include "plan/memory_plan.h"
#include "support/emulated_plan.h"
#include "support/fusable_graph.h"
#include "support/numbers.h"
#include "support/operand.h"

typedef struct drawn_space {
    int64_t rows[2], columns;
} drawn_space;

static graph *draw_graph(uint64_t seed, const drawn_space *spaces, int count, bool has_low_types,
                         bool sums_blocks) {
    draw d = draw_create(seed, 1);
    graph *g = graph_create("drawn");
    for (int i = 0; i < count; i++) {
        fusable_options options = {.rows = {spaces[i].rows[0], spaces[i].rows[1]},
                                   .columns = spaces[i].columns,
                                   .nodes = 3 + (int)draw_below(&d, 12),
                                   .has_low_types = has_low_types,
                                   .sums_blocks = sums_blocks};
        fusable_graph_add(g, &d, &options, i);
    }
    assert_int_equal(graph_status(g), DYNO_OK);
    return g;
}

/* Takes the graph. Each node a group of its own, or fused. */
static plan *plan_of(graph *g, backend target, bool each) {
    assert_int_equal(each ? fuse_each(g) : fuse_groups(g, target), DYNO_OK);
    if (graph_verify(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    plan *p;
    if (lower_graph(g, target, &p) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    if (!each)
        memory_plan_apply(p);
    graph_destroy(g);
    return p;
}

static void fill_leaves(const plan *p, emulated_plan *a, emulated_plan *b, uint64_t seed) {
    draw d = draw_create(seed, 1);
    for (int i = 0; i < p->name_count; i++) {
        if (p->buffers[p->names[i].operand.buffer].born >= 0)
            continue;
        tensor x = emulated_plan_find(a, p->names[i].name);
        tensor y = emulated_plan_find(b, p->names[i].name);
        for (int64_t j = 0; j < shape_elements(&x.shape); j++)
            dtype_store(x.type, x.data, j,
                        x.type == DTYPE_I32 ? (double)draw_below(&d, 3) : draw_normal(&d));
        memcpy(y.data, x.data, (size_t)tensor_bytes(&x));
    }
}

static void expect_close(const plan *p, const emulated_plan *a, const emulated_plan *b,
                         double limit, uint64_t seed) {
    for (int i = 0; i < p->name_count; i++) {
        const char *name = p->names[i].name;
        tensor x = emulated_plan_find(a, name), y = emulated_plan_find(b, name);
        assert_non_null(y.data);
        double *exact = tensor_to_doubles(&x), *got = tensor_to_doubles(&y);
        double error = relative_error(got, exact, shape_elements(&x.shape));
        if (!(error <= limit))
            fail_msg("'%s' [%s] of seed %llu is %g off", name, shape_format(&x.shape).text,
                     (unsigned long long)seed, error);
        free(exact);
        free(got);
    }
}

static void expect_same_numbers(uint64_t seed, const drawn_space *spaces, int count,
                                bool has_low_types, bool sums_blocks) {
    graph *g = draw_graph(seed, spaces, count, has_low_types, sums_blocks);
    plan *exact = plan_of(g, BACKEND_CPU, false);
    emulated_plan *cpu = emulated_plan_create(exact);
    for (int each = 0; each < 2 && !(each && sums_blocks); each++) {
        g = draw_graph(seed, spaces, count, has_low_types, sums_blocks);
        plan *p = plan_of(g, BACKEND_CUDA, each);
        emulated_plan *gpu = emulated_plan_create(p);
        fill_leaves(exact, cpu, gpu, seed);
        emulated_plan_run(cpu);
        emulated_plan_run(gpu);
        expect_close(exact, cpu, gpu, has_low_types ? 4e-3 : 1e-5, seed);
        emulated_plan_destroy(gpu);
        plan_destroy(p);
    }
    emulated_plan_destroy(cpu);
    plan_destroy(exact);
}

static void skip_without_a_compiler(void) {
    if (emulated_plan_is_possible())
        return;
    print_message("g++ is not here: nothing to emulate with\n");
    skip();
}

static void rows_of_every_length_give_what_the_cpu_gives(void **state) {
    (void)state;
    skip_without_a_compiler();
    static const drawn_space spaces[] = {
        {{3, 5}, 2},    {{1, 1}, 3},    {{7, 5}, 8},    {{2, 9}, 31},   {{3, 3}, 32},
        {{5, 1}, 33},   {{2, 6}, 64},   {{9, 1}, 100},  {{1, 3}, 257},  {{5, 2}, 768},
        {{1, 5}, 1000}, {{2, 1}, 1023}, {{1, 3}, 1024}, {{2, 2}, 1025}, {{1, 2}, 1280},
        {{2, 1}, 1600}, {{1, 1}, 2050}, {{1, 2}, 2560}, {{1, 2}, 5000}, {{1, 1}, 10007}};
    int count = (int)(sizeof spaces / sizeof *spaces);
    for (uint64_t seed = 0; seed < 2; seed++)
        for (int from = 0; from < count; from += 5)
            expect_same_numbers(seed * 100 + (uint64_t)from, spaces + from, 5, seed % 2, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_length_give_what_the_cpu_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
