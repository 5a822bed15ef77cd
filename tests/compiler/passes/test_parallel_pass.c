/* test_parallel_pass.c - the collectives that each way to be parallel inserts, as text. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/passes/accumulate.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/shard.h"
#include "ops/op_list.h"
#include "support/expect.h"
#include "support/graph_pass.h"

static const char FORWARD[] = "graph g\n"
                              "parameter %0 f32[3] \"a\"\n"
                              "parameter %1 f32[3] \"b\"\n"
                              "%2 f32[3] activation = multiply %0 %1 @forward layer\n"
                              "%3 f32[1] activation = sum %2 {axes=[0]} @forward loss\n"
                              "%4 f32[] activation = reshape %3 {shape=[]} @forward loss\n"
                              "output %4 \"loss\"\n";

/* Rank 1 of two. */
static graph *insert(const char *mode, const char *reduce, int64_t micro_batches) {
    parallel_options how = {.ranks = 2, .rank = 1};
    expect_ok(parallel_parse(mode, &how));
    expect_ok(parallel_parse_reduce(reduce, &how));
    step_part part = {micro_batches, 2, parallel_is_sharded(&how)};
    graph *g = graph_from_text(FORWARD);
    expect_ok(autodiff_append_backward_of_share(g, false, step_part_share(&part)));
    expect_ok(mark_saved_activations(g));
    expect_ok(accumulate_gradients(g, &part));
    expect_ok(parallel_is_sharded(&how) ? shard_parameters(g, &how) : parallel_insert(g, &how));
    return g;
}

static void expect_inserted(const char *mode, const char *reduce, int64_t micro_batches,
                            const char *wanted) {
    graph *g = insert(mode, reduce, micro_batches);
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

/* One all-reduce for each parameter behind the backward; the loss goes with the last. */
static const char NAIVE[] =
    "graph g\n"
    "parameter %0 f32[3] \"a\"\n"
    "parameter %1 f32[3] \"b\"\n"
    "gradient %2 f32[3] \"sum.a\"\n"
    "gradient %3 f32[3] \"sum.b\" in \"sums.bucket.1\"\n"
    "gradient %4 f32[] \"sum.loss\" in \"sums.bucket.1\"\n"
    "%5 f32[3] activation = multiply %0 %1 @forward layer\n"
    "%6 f32[1] activation = sum %5 {axes=[0]} @forward loss\n"
    "%7 f32[] activation = reshape %6 {shape=[]} @forward loss\n"
    "%8 f32[] activation = scale %7 {s=0.5} @forward loss\n"
    "%9 f32[] gradient = accumulate %4 %8 @forward loss\n"
    "%10 f32[] activation = fill {number=0.5, type=1} @backward loss\n"
    "%11 f32[1] activation = reshape %10 {shape=[1]} @backward loss\n"
    "%12 f32[3] activation = broadcast %11 {shape=[3]} @backward loss\n"
    "%13 f32[3] gradient = multiply %12 %1 @backward layer\n"
    "%14 f32[3] gradient = accumulate %2 %13 @backward layer\n"
    "%15 f32[3] gradient = multiply %12 %0 @backward layer\n"
    "%16 f32[3] gradient = accumulate %3 %15 @backward layer\n"
    "%17 f32[3] gradient = all_reduce %14 {ranks=2, once=1} @communication communication\n"
    "%18 f32[3] gradient, %19 f32[] gradient = all_reduce %16 %9 {ranks=2, once=1} @communication "
    "communication\n"
    "output %19 \"loss\"\n"
    "gradient-of \"a\" %17\n"
    "gradient-of \"b\" %18\n";

/* One for all, whose sums lie beside each other. */
static const char FLAT[] = "graph g\n"
                           "parameter %0 f32[3] \"a\"\n"
                           "parameter %1 f32[3] \"b\"\n"
                           "gradient %2 f32[3] \"sum.a\" in \"sums.bucket.0\"\n"
                           "gradient %3 f32[3] \"sum.b\" in \"sums.bucket.0\"\n"
                           "gradient %4 f32[] \"sum.loss\" in \"sums.bucket.0\"\n"
                           "%5 f32[3] activation = multiply %0 %1 @forward layer\n"
                           "%6 f32[1] activation = sum %5 {axes=[0]} @forward loss\n"
                           "%7 f32[] activation = reshape %6 {shape=[]} @forward loss\n"
                           "%8 f32[] activation = scale %7 {s=0.5} @forward loss\n"
                           "%9 f32[] gradient = accumulate %4 %8 @forward loss\n"
                           "%10 f32[] activation = fill {number=0.5, type=1} @backward loss\n"
                           "%11 f32[1] activation = reshape %10 {shape=[1]} @backward loss\n"
                           "%12 f32[3] activation = broadcast %11 {shape=[3]} @backward loss\n"
                           "%13 f32[3] gradient = multiply %12 %1 @backward layer\n"
                           "%14 f32[3] gradient = accumulate %2 %13 @backward layer\n"
                           "%15 f32[3] gradient = multiply %12 %0 @backward layer\n"
                           "%16 f32[3] gradient = accumulate %3 %15 @backward layer\n"
                           "%17 f32[3] gradient, %18 f32[3] gradient, %19 f32[] gradient = "
                           "all_reduce %14 %16 %9 {ranks=2, once=1} @communication communication\n"
                           "output %19 \"loss\"\n"
                           "gradient-of \"a\" %17\n"
                           "gradient-of \"b\" %18\n";

/* Each as soon as its sum is there. */
static const char OVERLAP[] = "graph g\n"
                              "parameter %0 f32[3] \"a\"\n"
                              "parameter %1 f32[3] \"b\"\n"
                              "gradient %2 f32[3] \"sum.a\"\n"
                              "gradient %3 f32[3] \"sum.b\" in \"sums.bucket.1\"\n"
                              "gradient %4 f32[] \"sum.loss\" in \"sums.bucket.1\"\n"
                              "%5 f32[3] activation = multiply %0 %1 @forward layer\n"
                              "%6 f32[1] activation = sum %5 {axes=[0]} @forward loss\n"
                              "%7 f32[] activation = reshape %6 {shape=[]} @forward loss\n"
                              "%8 f32[] activation = scale %7 {s=0.5} @forward loss\n"
                              "%9 f32[] gradient = accumulate %4 %8 @forward loss\n"
                              "%10 f32[] activation = fill {number=0.5, type=1} @backward loss\n"
                              "%11 f32[1] activation = reshape %10 {shape=[1]} @backward loss\n"
                              "%12 f32[3] activation = broadcast %11 {shape=[3]} @backward loss\n"
                              "%13 f32[3] gradient = multiply %12 %1 @backward layer\n"
                              "%14 f32[3] gradient = accumulate %2 %13 @backward layer\n"
                              "%15 f32[3] gradient = all_reduce %14 {ranks=2, overlapped=1, "
                              "once=1} @communication communication\n"
                              "%16 f32[3] gradient = multiply %12 %0 @backward layer\n"
                              "%17 f32[3] gradient = accumulate %3 %16 @backward layer\n"
                              "%18 f32[3] gradient, %19 f32[] gradient = all_reduce %17 %9 "
                              "{ranks=2, overlapped=1, once=1} @communication communication\n"
                              "output %19 \"loss\"\n"
                              "gradient-of \"a\" %15\n"
                              "gradient-of \"b\" %18\n";

/* In bf16, two micro-batches: what is read back in f32 stands behind all that is repeated. */
static const char OVERLAP_LOW[] =
    "graph g\n"
    "parameter %0 f32[3] \"a\"\n"
    "parameter %1 f32[3] \"b\"\n"
    "gradient %2 f32[3] \"sum.a\"\n"
    "gradient %3 f32[3] \"sum.b\"\n"
    "gradient %4 f32[] \"sum.loss\"\n"
    "%5 f32[3] activation = multiply %0 %1 @forward layer\n"
    "%6 f32[1] activation = sum %5 {axes=[0]} @forward loss\n"
    "%7 f32[] activation = reshape %6 {shape=[]} @forward loss\n"
    "%8 f32[] activation = scale %7 {s=0.25} @forward loss\n"
    "%9 f32[] gradient = accumulate %4 %8 @forward loss\n"
    "%10 f32[] gradient = all_reduce %9 {ranks=2, overlapped=1, once=1} @communication "
    "communication\n"
    "%11 f32[] activation = fill {number=0.25, type=1} @backward loss\n"
    "%12 f32[1] activation = reshape %11 {shape=[1]} @backward loss\n"
    "%13 f32[3] activation = broadcast %12 {shape=[3]} @backward loss\n"
    "%14 f32[3] gradient = multiply %13 %1 @backward layer\n"
    "%15 f32[3] gradient = accumulate %2 %14 @backward layer\n"
    "%16 bf16[3] activation = cast %15 {type=2} @backward communication\n"
    "%17 bf16[3] activation = reshape %16 {shape=[3]} @backward communication\n"
    "%18 bf16[3] activation = all_reduce %17 {ranks=2, overlapped=1, once=1} @communication "
    "communication\n"
    "%19 f32[3] gradient = multiply %13 %0 @backward layer\n"
    "%20 f32[3] gradient = accumulate %3 %19 @backward layer\n"
    "%21 bf16[3] activation = cast %20 {type=2} @backward communication\n"
    "%22 bf16[3] activation = reshape %21 {shape=[3]} @backward communication\n"
    "%23 bf16[3] activation = all_reduce %22 {ranks=2, overlapped=1, once=1} @communication "
    "communication\n"
    "%24 bf16[3] activation = slice %18 {offset=0, shape=[3]} @optimizer communication\n"
    "%25 f32[3] gradient = cast %24 {type=1} @optimizer communication\n"
    "%26 bf16[3] activation = slice %23 {offset=0, shape=[3]} @optimizer communication\n"
    "%27 f32[3] gradient = cast %26 {type=1} @optimizer communication\n"
    "output %10 \"loss\"\n"
    "gradient-of \"a\" %25\n"
    "gradient-of \"b\" %27\n";

/* Whole lists, padded to 16 elements a rank; this is rank 1. */
static const char ZERO1[] =
    "graph g\n"
    "gradient %0 f32[] \"sum.loss\"\n"
    "parameter %1 f32[32] \"whole.a\"\n"
    "parameter %2 f32[32] \"whole.b\"\n"
    "gradient %3 f32[32] \"sum.a\"\n"
    "gradient %4 f32[32] \"sum.b\"\n"
    "%5 f32[3] activation = slice %1 {offset=0, shape=[3]} @forward layer\n"
    "%6 f32[3] activation = slice %2 {offset=0, shape=[3]} @forward layer\n"
    "%7 f32[3] activation = multiply %5 %6 @forward layer\n"
    "%8 f32[1] activation = sum %7 {axes=[0]} @forward loss\n"
    "%9 f32[] activation = reshape %8 {shape=[]} @forward loss\n"
    "%10 f32[] activation = scale %9 {s=0.5} @forward loss\n"
    "%11 f32[] gradient = accumulate %0 %10 @forward loss\n"
    "%12 f32[] gradient = all_reduce %11 {ranks=2, overlapped=1, once=1} @communication "
    "communication\n"
    "%13 f32[] activation = fill {number=0.5, type=1} @backward loss\n"
    "%14 f32[1] activation = reshape %13 {shape=[1]} @backward loss\n"
    "%15 f32[3] activation = broadcast %14 {shape=[3]} @backward loss\n"
    "%16 f32[3] activation = slice %2 {offset=0, shape=[3]} @backward layer\n"
    "%17 f32[3] gradient = multiply %15 %16 @backward layer\n"
    "%18 f32[3] activation = slice %1 {offset=0, shape=[3]} @backward layer\n"
    "%19 f32[3] gradient = slice %3 {offset=0, shape=[3]} @backward layer\n"
    "%20 f32[3] gradient = accumulate %19 %17 @backward layer\n"
    "%21 f32[16] gradient = reduce_scatter %3 %20 {ranks=2, overlapped=1, once=1} @communication "
    "communication\n"
    "%22 f32[3] gradient = multiply %15 %18 @backward layer\n"
    "%23 f32[3] gradient = slice %4 {offset=0, shape=[3]} @backward layer\n"
    "%24 f32[3] gradient = accumulate %23 %22 @backward layer\n"
    "%25 f32[16] gradient = reduce_scatter %4 %24 {ranks=2, overlapped=1, once=1} @communication "
    "communication\n"
    "%26 f32[16] activation = slice %1 {offset=16, shape=[16]} @optimizer optimizer\n"
    "%27 f32[16] activation = slice %2 {offset=16, shape=[16]} @optimizer optimizer\n"
    "output %12 \"loss\"\n"
    "gradient-of \"shard.a\" %21\n"
    "gradient-of \"shard.b\" %25\n";

/* Lists are gathered ahead of their use; that which the backward begins with is still there. */
static const char FSDP[] =
    "graph g\n"
    "gradient %0 f32[] \"sum.loss\"\n"
    "parameter %1 f32[16] \"shard.a\"\n"
    "parameter %2 f32[16] \"shard.b\"\n"
    "gradient %3 f32[16] \"sum.shard.a\"\n"
    "gradient %4 f32[16] \"sum.shard.b\"\n"
    "%5 f32[32] activation = all_gather %1 {ranks=2, overlapped=1} @communication communication\n"
    "%6 f32[32] activation = all_gather %2 {ranks=2, overlapped=1} @communication communication\n"
    "%7 f32[3] activation = slice %5 {offset=0, shape=[3]} @forward layer\n"
    "%8 f32[3] activation = slice %6 {offset=0, shape=[3]} @forward layer\n"
    "%9 f32[3] activation = multiply %7 %8 @forward layer\n"
    "%10 f32[1] activation = sum %9 {axes=[0]} @forward loss\n"
    "%11 f32[] activation = reshape %10 {shape=[]} @forward loss\n"
    "%12 f32[] activation = scale %11 {s=0.5} @forward loss\n"
    "%13 f32[] gradient = accumulate %0 %12 @forward loss\n"
    "%14 f32[] gradient = all_reduce %13 {ranks=2, overlapped=1, once=1} @communication "
    "communication\n"
    "%15 f32[] activation = fill {number=0.5, type=1} @backward loss\n"
    "%16 f32[1] activation = reshape %15 {shape=[1]} @backward loss\n"
    "%17 f32[3] activation = broadcast %16 {shape=[3]} @backward loss\n"
    "%18 f32[32] activation = all_gather %1 {ranks=2, overlapped=1} @communication communication\n"
    "%19 f32[3] activation = slice %6 {offset=0, shape=[3]} @backward layer\n"
    "%20 f32[3] activation = multiply %17 %19 @backward layer\n"
    "%21 f32[3] activation = slice %18 {offset=0, shape=[3]} @backward layer\n"
    "%22 f32[3] activation = reshape %20 {shape=[3]} @backward layer\n"
    "%23 f32[] activation = fill {number=0.0, type=1} @backward communication\n"
    "%24 f32[1] activation = reshape %23 {shape=[1]} @backward communication\n"
    "%25 f32[29] activation = broadcast %24 {shape=[29]} @backward communication\n"
    "%26 f32[32] activation = concat %22 %25 {axis=0} @backward communication\n"
    "%27 f32[16] activation = reduce_scatter %26 {ranks=2, overlapped=1} @communication "
    "communication\n"
    "%28 f32[16] gradient = accumulate %3 %27 @backward communication\n"
    "%29 f32[3] activation = multiply %17 %21 @backward layer\n"
    "%30 f32[3] activation = reshape %29 {shape=[3]} @backward layer\n"
    "%31 f32[] activation = fill {number=0.0, type=1} @backward communication\n"
    "%32 f32[1] activation = reshape %31 {shape=[1]} @backward communication\n"
    "%33 f32[29] activation = broadcast %32 {shape=[29]} @backward communication\n"
    "%34 f32[32] activation = concat %30 %33 {axis=0} @backward communication\n"
    "%35 f32[16] activation = reduce_scatter %34 {ranks=2, overlapped=1} @communication "
    "communication\n"
    "%36 f32[16] gradient = accumulate %4 %35 @backward communication\n"
    "output %14 \"loss\"\n"
    "gradient-of \"shard.a\" %28\n"
    "gradient-of \"shard.b\" %36\n";

static void data_parallel_modes_differ_in_how_many_all_reduces_stand_where(void **state) {
    (void)state;
    expect_inserted("ddp-naive", "fp32", 1, NAIVE);
    expect_inserted("ddp-flat", "fp32", 1, FLAT);
    expect_inserted("ddp-overlap", "fp32", 1, OVERLAP);
    expect_inserted("ddp-bucket:0.000012", "fp32", 1, OVERLAP); /* a bucket holds one of them */
}

static void what_was_sent_in_bf16_is_read_back_behind_the_last_micro_batch(void **state) {
    (void)state;
    expect_inserted("ddp-overlap", "bf16", 2, OVERLAP_LOW);
}

static void sharded_modes_make_padded_lists(void **state) {
    (void)state;
    expect_inserted("zero1", "fp32", 1, ZERO1);
    expect_inserted("fsdp", "fp32", 1, FSDP);
}

static void a_large_bucket_is_one_all_reduce(void **state) {
    (void)state;
    graph *g = insert("ddp-bucket:1", "fp32", 1);
    assert_int_equal(graph_count_ops(g, &op_all_reduce), 1);
    graph_destroy(g);
}

static void names_of_modes_are_parsed_and_printed(void **state) {
    (void)state;
    static const char *const good[] = {"ddp-naive", "ddp-flat",         "ddp-overlap",  "zero1",
                                       "fsdp",      "ddp-bucket:0.125", "ddp-bucket:25"};
    static const char *const bad[] = {
        "",           "ddp",   "ddp-bucket:",    "ddp-bucket:0",  "ddp-bucket:-1", "ddp-bucket:1x",
        "ddp-flat:2", "fsdp ", "ddp-bucket:nan", "ddp-bucket:1e9"};
    parallel_options how = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        expect_ok(parallel_parse(good[i], &how));
        assert_string_equal(parallel_format(&how).text, good[i]);
    }
    expect_ok(parallel_parse("ddp-bucket", &how));
    assert_string_equal(parallel_format(&how).text, PARALLEL_USUAL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(parallel_parse(bad[i], &how), DYNO_INVALID);
    assert_int_equal(parallel_parse_reduce("fp64", &how), DYNO_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_parallel_modes_differ_in_how_many_all_reduces_stand_where),
        cmocka_unit_test(what_was_sent_in_bf16_is_read_back_behind_the_last_micro_batch),
        cmocka_unit_test(sharded_modes_make_padded_lists),
        cmocka_unit_test(a_large_bucket_is_one_all_reduce),
        cmocka_unit_test(names_of_modes_are_parsed_and_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
