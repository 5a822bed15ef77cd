/* test_render_cuda.c - generated CUDA kernels compute, in an emulator, what generated C kernels do.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/text.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/fuse.h"
#include "graph/verify.h"
#include "plan/memory_plan.h"
#include "support/emulated_plan.h"
#include "support/fusable_graph.h"
#include "support/fuse_all.h"
#include "support/graph_pass.h"
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
static plan *plan_of(graph *g, target_kind on, bool each) {
    assert_int_equal(each ? fuse_each(g) : fuse_all(g, target_usual(on)), DYNO_OK);
    if (graph_verify(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    plan *p;
    if (lower_graph(g, target_usual(on), &p) != DYNO_OK)
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

/* Says whether a kernel loads rows ahead. */
static bool expect_same_numbers(uint64_t seed, const drawn_space *spaces, int count,
                                bool has_low_types, bool sums_blocks) {
    bool prefetches_rows = false;
    graph *g = draw_graph(seed, spaces, count, has_low_types, sums_blocks);
    plan *exact = plan_of(g, TARGET_CPU, false);
    emulated_plan *cpu = emulated_plan_create(exact);
    for (int each = 0; each < 2 && !(each && sums_blocks); each++) {
        g = draw_graph(seed, spaces, count, has_low_types, sums_blocks);
        plan *p = plan_of(g, TARGET_CUDA, each);
        emulated_plan *gpu = emulated_plan_create(p);
        fill_leaves(exact, cpu, gpu, seed);
        emulated_plan_run(cpu);
        emulated_plan_run(gpu);
        expect_close_plans(cpu, gpu, has_low_types ? 4e-3 : 1e-5, seed);
        prefetches_rows = prefetches_rows || strstr(p->source, "take(raw");
        emulated_plan_destroy(gpu);
        plan_destroy(p);
    }
    emulated_plan_destroy(cpu);
    plan_destroy(exact);
    return prefetches_rows;
}

/* A kernel may be launched before the one before it has ended. */
static void kernels_touch_nothing_before_earlier_launches_have_ended(void **state) {
    (void)state;
    static const drawn_space spaces[] = {{{3, 5}, 8}, {{2, 9}, 31}, {{5, 2}, 768}, {{1, 2}, 2560}};
    for (int each = 0; each < 2; each++) {
        plan *p = plan_of(draw_graph(3, spaces, 4, true, false), TARGET_CUDA, each);
        assert_non_null(strstr(p->source, "griddepcontrol.wait"));
        int kernels = 0;
        for (const char *at = p->source; (at = strstr(at, "__global__")); kernels++) {
            static const char wait[] = "{\n    wait_for_earlier_launches();\n";
            at = strchr(at, '{');
            assert_int_equal(strncmp(at, wait, sizeof wait - 1), 0);
        }
        assert_int_equal(kernels, p->generated_count);
        assert_null(strstr(p->source, "__restrict__"));
        plan_destroy(p);
    }
}

static void rows_of_every_length_give_what_the_cpu_gives(void **state) {
    (void)state;
    emulated_plan_skip_without_compiler();
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

static void sums_of_columns_give_what_the_cpu_gives(void **state) {
    (void)state;
    emulated_plan_skip_without_compiler();
    static const drawn_space spaces[] = {{{3, 4}, 1},   {{5, 6}, 7},    {{2, 8}, 96},
                                         {{3, 2}, 768}, {{2, 8}, 1280}, {{3, 8}, 1600},
                                         {{1, 5}, 999}, {{2, 8}, 2560}, {{1, 3}, 12288}};
    int count = (int)(sizeof spaces / sizeof *spaces), ahead = 0;
    for (uint64_t seed = 0; seed < 2; seed++)
        for (int from = 0; from < count; from += 3)
            ahead += expect_same_numbers(500 + seed * 100 + (uint64_t)from, spaces + from, 3,
                                         seed % 2, true);
    assert_true(ahead > 1);
}

static void rows_too_long_for_registers_give_what_the_cpu_gives(void **state) {
    (void)state;
    emulated_plan_skip_without_compiler();
    static const drawn_space spaces[] = {{{1, 2}, 16384}, {{2, 1}, 20001}, {{1, 1}, 40000}};
    for (uint64_t seed = 0; seed < 2; seed++)
        expect_same_numbers(900 + seed, spaces, 3, false, false);
}

/* So many elements that each thread has several vectors of them; and a tail. */
static void long_lines_give_what_the_cpu_gives(void **state) {
    (void)state;
    emulated_plan_skip_without_compiler();
    static const char source[] = "graph g\n"
                                 "input %%0 bf16[%d,%d] \"x\"\n"
                                 "input %%1 bf16[%d,%d] \"y\"\n"
                                 "%%2 bf16[%d,%d] activation = multiply %%0 %%1 @forward\n"
                                 "output %%2 \"z\"\n";
    static const int sizes[][2] = {{1090, 8000}, {4001, 2301}, {13, 1}, {1, 7}};
    for (int i = 0; i < 4; i++) {
        int rows = sizes[i][0], columns = sizes[i][1];
        text made = {0};
        text_format(&made, source, rows, columns, rows, columns, rows, columns);
        plan *exact = plan_of(graph_from_text(made.data), TARGET_CPU, false);
        plan *p = plan_of(graph_from_text(made.data), TARGET_CUDA, false);
        emulated_plan *cpu = emulated_plan_create(exact), *gpu = emulated_plan_create(p);
        fill_leaves(exact, cpu, gpu, 1);
        emulated_plan_run(cpu);
        emulated_plan_run(gpu);
        expect_close_plans(cpu, gpu, 0, (uint64_t)i);
        emulated_plan_destroy(cpu);
        emulated_plan_destroy(gpu);
        plan_destroy(exact);
        plan_destroy(p);
        text_release(&made);
    }
}

/* Address space, of which only what is touched becomes memory. */
static float *reserve(int64_t elements) {
    void *base = mmap(NULL, (size_t)elements * 4, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    return base;
}

static void more_elements_than_32_bits_count_are_all_reached(void **state) {
    (void)state;
    emulated_plan_skip_without_compiler();
    enum { ROWS = 50000, COLUMNS = 60000, OUTER = 500, INNER = ROWS / OUTER };
    const int64_t elements = (int64_t)ROWS * COLUMNS;
    /* Dense, rows in another order, and a number a row; flat, and with a maximum. */
    static const char source[] =
        "graph g\n"
        "input %0 f32[500,100,60000] \"x\"\n"
        "input %1 f32[100,500,60000] \"y\"\n"
        "input %2 f32[500,100,1] \"w\"\n"
        "%3 f32[500,100,60000] activation = transpose %1 {order=[1,0,2]} @forward\n"
        "%4 f32[500,100,60000] activation = add %0 %3 @forward\n"
        "%5 f32[500,100,60000] activation = broadcast %2 {shape=[500,100,60000]} @forward\n"
        "%6 f32[500,100,60000] activation = multiply %4 %5 @forward\n"
        "output %6 \"z\"\n";
    static const char with_maximum[] =
        "graph g\n"
        "input %0 f32[500,100,60000] \"x\"\n"
        "input %1 f32[100,500,60000] \"y\"\n"
        "input %2 f32[500,100,1] \"w\"\n"
        "%3 f32[500,100,60000] activation = transpose %1 {order=[1,0,2]} @forward\n"
        "%4 f32[500,100,1] activation = max %3 {axes=[2]} @forward\n"
        "%5 f32[500,100,1] activation = multiply %4 %2 @forward\n"
        "%6 f32[500,100,60000] activation = broadcast %5 {shape=[500,100,60000]} @forward\n"
        "%7 f32[500,100,60000] activation = add %0 %6 @forward\n"
        "output %7 \"z\"\n";
    for (int has_maximum = 0; has_maximum < 2; has_maximum++) {
        graph *g = graph_from_text(has_maximum ? with_maximum : source);
        plan *p = plan_of(g, TARGET_CUDA, false);
        assert_int_equal(p->launch_count, 1);
        emulated_plan *gpu = emulated_plan_create_kernels(p);
        const plan_launch *l = &p->launches[0];
        float *memory[4] = {0};
        void *pointers[4];
        for (int i = 0; i < l->input_count; i++)
            memory[l->inputs[i].buffer] =
                reserve(shape_elements(&p->buffers[l->inputs[i].buffer].shape));
        memory[3] = reserve(elements);
        for (int i = 0; i < l->input_count; i++)
            pointers[i] = memory[l->inputs[i].buffer];
        pointers[3] = memory[3];
        float *x = memory[plan_find_name(p, "x")->buffer];
        float *y = memory[plan_find_name(p, "y")->buffer];
        float *w = memory[plan_find_name(p, "w")->buffer];
        /* Of the last row: its last element of x, y and z. */
        int64_t last = elements - 1, units = p->generated[0].units;
        x[last] = 3;
        y[last] = 4; /* the last row is the last in either order */
        w[ROWS - 1] = 5;
        emulated_plan_run_blocks(gpu, 0, pointers, units - 1, units);
        assert_true(memory[3][last] == (has_maximum ? 3 + 4 * 5 : (3 + 4) * 5));
        /* Of the row before the last in y's outer order, which lies far from it in y. */
        int64_t row = (int64_t)(OUTER - 1) * INNER + INNER - 2;
        int64_t there = (int64_t)(INNER - 2) * OUTER + OUTER - 1;
        x[row * COLUMNS] = 7;
        y[there * COLUMNS] = 8;
        w[row] = 2;
        int64_t per_unit = (elements + units - 1) / units;
        int64_t unit = has_maximum ? row : row * COLUMNS / per_unit;
        emulated_plan_run_blocks(gpu, 0, pointers, has_maximum ? unit : unit - 1, unit + 1);
        assert_true(memory[3][row * COLUMNS] == (has_maximum ? 7 + 8 * 2 : (7 + 8) * 2));
        for (int i = 0; i < l->input_count; i++) {
            int buffer = l->inputs[i].buffer;
            munmap(memory[buffer], (size_t)shape_elements(&p->buffers[buffer].shape) * 4);
        }
        munmap(memory[3], (size_t)elements * 4);
        emulated_plan_destroy(gpu);
        plan_destroy(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_touch_nothing_before_earlier_launches_have_ended),
        cmocka_unit_test(rows_of_every_length_give_what_the_cpu_gives),
        cmocka_unit_test(sums_of_columns_give_what_the_cpu_gives),
        cmocka_unit_test(rows_too_long_for_registers_give_what_the_cpu_gives),
        cmocka_unit_test(long_lines_give_what_the_cpu_gives),
        cmocka_unit_test(more_elements_than_32_bits_count_are_all_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
