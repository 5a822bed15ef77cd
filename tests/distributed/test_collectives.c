/* Every collective x type x number of ranks x size, in shared and in ordinary memory, in place and
 * not, with integers whose sums are exact in every type. */
#include <string.h>

#include "distributed/segment.h"
#include "support/expect.h"
#include "support/ranks.h"

typedef struct collective_case {
    collective_op op;
    dtype type;
    int64_t count;
    bool is_mapped, is_in_place, is_asynchronous, is_mixed;
    int root;
} collective_case;

/* Small integers: six of them add up to less than 2^8, exact in bf16. */
static double value_of(int rank, int64_t index, int repetition) {
    return (double)((index * 7 + rank * 3 + repetition) % 31 - 10);
}

static double expected_sum(int ranks, int64_t index, int repetition) {
    double sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += value_of(r, index, repetition);
    return sum;
}

static double expected(const collective_case *c, int rank, int ranks, int64_t index,
                       int repetition) {
    switch (c->op) {
    case COLLECTIVE_ALL_REDUCE:
        return expected_sum(ranks, index, repetition);
    case COLLECTIVE_REDUCE_SCATTER:
        return expected_sum(ranks, rank * c->count + index, repetition);
    case COLLECTIVE_ALL_GATHER:
        return value_of((int)(index / c->count), index % c->count, repetition);
    case COLLECTIVE_BROADCAST:
        return value_of(c->root, index, repetition);
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_OP_COUNT:
        break;
    }
    return 0;
}

static void *take_memory(communicator *c, bool is_mapped, int64_t bytes) {
    void *memory;
    if (!is_mapped) {
        memory = malloc((size_t)bytes);
        RANK_CHECK(memory);
        return memory;
    }
    RANK_OK(communicator_memory_create(c, bytes, &memory));
    return memory;
}

static void give_memory(communicator *c, bool is_mapped, void *memory) {
    if (is_mapped)
        communicator_memory_destroy(c, memory);
    else
        free(memory);
}

static void carry_out(communicator *c, const collective *what, bool is_asynchronous) {
    collective_handle handle;
    if (!is_asynchronous) {
        RANK_OK(communicator_run(c, what));
        return;
    }
    RANK_OK(communicator_start(c, what, &handle));
    RANK_OK(communicator_wait(c, handle));
    RANK_CHECK(communicator_is_complete(c, handle));
}

static void run_case(communicator *c, const collective_case *at) {
    int ranks = communicator_count(c), rank = communicator_rank(c);
    collective what = {.op = at->op, .type = at->type, .count = at->count, .root = at->root};
    int64_t element = dtype_bytes(at->type), whole = at->count * ranks * element;
    /* Mixed: on some ranks the operands are in shared memory, on others they are not. The memory is
     * asked for by all. */
    char *mapped_from = NULL, *mapped_to = NULL;
    char *from = take_memory(c, false, whole + element),
         *to = take_memory(c, false, whole + element);
    if (at->is_mapped) {
        mapped_from = take_memory(c, true, whole + element);
        mapped_to = take_memory(c, true, whole + element);
    }
    char *own_from = from, *own_to = to;
    if (at->is_mapped && !(at->is_mixed && rank % 2)) {
        from = mapped_from + element; /* not aligned to a cache line */
        to = mapped_to;
    }
    for (int repetition = 0; repetition < 3; repetition++) {
        int64_t skip = rank * at->count * element;
        what.from = from;
        what.to = to;
        if (at->is_in_place && at->op == COLLECTIVE_ALL_GATHER)
            what.from = to + skip;
        else if (at->is_in_place)
            what.to = at->op == COLLECTIVE_REDUCE_SCATTER ? from + skip : from;
        for (int64_t i = 0; i < collective_from_count(&what, ranks); i++)
            dtype_store(at->type, (void *)what.from, i, value_of(rank, i, repetition));
        RANK_OK(communicator_barrier(c));
        carry_out(c, &what, at->is_asynchronous);
        for (int64_t i = 0; i < collective_to_count(&what, ranks); i++)
            RANK_CHECK(dtype_load(at->type, what.to, i) ==
                       expected(at, rank, ranks, i, repetition));
    }
    RANK_OK(communicator_barrier(c));
    if (at->is_mapped) {
        give_memory(c, true, mapped_from);
        give_memory(c, true, mapped_to);
    }
    free(own_from);
    free(own_to);
}

static int run_all_cases(world *w, void *context) {
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    /* Odd ones, one of several chunks, and one more than a chunk. */
    static const int64_t counts[] = {1, 3, 64, 1001, 600007, 262145};
    communicator_options options = {.kind = *(communicator_kind *)context};
    communicator *c;
    RANK_OK(communicator_create(w, &options, &c));
    for (int op = 0; op < COLLECTIVE_BARRIER; op++)
        for (int type = 0; type < 3; type++)
            for (int count = 0; count < 6; count++)
                for (int way = 0; way < 6; way++) {
                    collective_case at = {.op = (collective_op)op,
                                          .type = types[type],
                                          .count = counts[count],
                                          .is_mapped = way != 0 && way != 2,
                                          .is_in_place = way >= 2,
                                          .is_asynchronous = way == 4,
                                          .is_mixed = way == 5,
                                          .root = way % world_count(w)};
                    if (at.count > 1001 && (type + way + op + count) % 6 != 0)
                        continue; /* of the large ones a sixth */
                    run_case(c, &at);
                }
    communicator_destroy(c);
    return 0;
}

static void collectives_are_exact_for_every_type_size_and_number_of_ranks(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 4, 6};
    communicator_kind kind = COMMUNICATOR_SHARED;
    for (int i = 0; i < 5; i++)
        ranks_expect_ok(counts[i], run_all_cases, &kind);
}

/* ---- the order of sums ---- */

enum { ORDERED_COUNT = 10007 };

static float awkward(int rank, int64_t index) {
    uint32_t x = (uint32_t)(index * 2654435761u) ^ (uint32_t)(rank * 40503);
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return ((float)(x & 0xffffff) - 8388608.0f) * (1.0f / 1024) * (rank % 2 ? 1e-3f : 1.0f);
}

static int sum_awkward(world *w, void *context) {
    (void)context;
    communicator_options options = {.kind = COMMUNICATOR_SHARED};
    communicator *c;
    void *memory;
    static float ordinary[ORDERED_COUNT];
    RANK_OK(communicator_create(w, &options, &c));
    RANK_OK(communicator_memory_create(c, sizeof ordinary, &memory));
    float *mapped = memory;
    for (int repetition = 0; repetition < 3; repetition++) {
        for (int64_t i = 0; i < ORDERED_COUNT; i++)
            ordinary[i] = mapped[i] = awkward(world_rank(w), i);
        RANK_OK(communicator_all_reduce(c, mapped, mapped, ORDERED_COUNT, DTYPE_F32));
        RANK_OK(communicator_all_reduce(c, ordinary, ordinary, ORDERED_COUNT, DTYPE_F32));
        for (int64_t i = 0; i < ORDERED_COUNT; i++) {
            float sum = awkward(0, i);
            for (int r = 1; r < world_count(w); r++)
                sum += awkward(r, i);
            RANK_CHECK(memcmp(&mapped[i], &sum, sizeof sum) == 0);
            RANK_CHECK(memcmp(&ordinary[i], &sum, sizeof sum) == 0);
        }
    }
    communicator_destroy(c);
    return 0;
}

static void sums_are_taken_in_the_order_of_ranks_bit_for_bit(void **state) {
    (void)state;
    ranks_expect_ok(2, sum_awkward, NULL);
    ranks_expect_ok(3, sum_awkward, NULL);
    ranks_expect_ok(6, sum_awkward, NULL);
}

/* ---- several at once ---- */

static int start_many(world *w, void *context) {
    (void)context;
    enum { MANY = 40, EACH = 1000 };
    communicator_options options = {.kind = COMMUNICATOR_SHARED};
    communicator *c;
    static float data[MANY][EACH];
    collective_handle handles[MANY];
    RANK_OK(communicator_create(w, &options, &c));
    for (int k = 0; k < MANY; k++) {
        for (int i = 0; i < EACH; i++)
            data[k][i] = (float)(k + world_rank(w));
        collective what = {.op = COLLECTIVE_ALL_REDUCE,
                           .type = DTYPE_F32,
                           .from = data[k],
                           .to = data[k],
                           .count = EACH};
        RANK_OK(communicator_start(c, &what, &handles[k]));
    }
    float last = (float)world_rank(w);
    RANK_OK(communicator_all_reduce(c, &last, &last, 1, DTYPE_F32)); /* after all of them */
    int ranks = world_count(w), first = ranks * (ranks - 1) / 2;
    RANK_CHECK(communicator_is_complete(c, handles[MANY - 1]));
    RANK_CHECK(last == (float)first);
    for (int k = MANY - 1; k >= 0; k--) {
        RANK_OK(communicator_wait(c, handles[k]));
        for (int i = 0; i < EACH; i++)
            RANK_CHECK(data[k][i] == (float)(k * ranks + first));
    }
    communicator_destroy(c);
    return 0;
}

static void collectives_that_were_started_are_carried_out_in_order(void **state) {
    (void)state;
    ranks_expect_ok(1, start_many, NULL);
    ranks_expect_ok(4, start_many, NULL);
}

static int use_groups(world *w, void *context) {
    (void)context;
    for (int ranks = 1; ranks <= world_count(w); ranks++) {
        communicator_options options = {.kind = COMMUNICATOR_SHARED, .ranks = ranks};
        communicator *c;
        RANK_OK(communicator_create(w, &options, &c));
        RANK_CHECK((c != NULL) == (world_rank(w) < ranks));
        float one = 1;
        if (c)
            RANK_OK(communicator_all_reduce(c, &one, &one, 1, DTYPE_F32));
        RANK_CHECK(!c || one == (float)ranks);
        communicator_destroy(c);
    }
    return 0;
}

static void a_communicator_may_be_of_the_first_ranks_only(void **state) {
    (void)state;
    ranks_expect_ok(5, use_groups, NULL);
}

static int use_sixteen(world *w, void *context) {
    (void)context;
    enum { COUNT = 100003 };
    communicator_options options = {.kind = COMMUNICATOR_SHARED};
    communicator *c;
    static float data[COUNT];
    RANK_OK(communicator_create(w, &options, &c));
    for (int repetition = 0; repetition < 20; repetition++) {
        for (int i = 0; i < COUNT; i++)
            data[i] = (float)(world_rank(w) + i % 5);
        RANK_OK(communicator_all_reduce(c, data, data, COUNT, DTYPE_F32));
        for (int i = 0; i < COUNT; i++)
            RANK_CHECK(data[i] == (float)(120 + 16 * (i % 5)));
    }
    communicator_destroy(c);
    return 0;
}

static void sixteen_ranks_need_not_sixteen_cores(void **state) {
    (void)state;
    ranks_expect_ok(16, use_sixteen, NULL);
}

/* ---- what is refused ---- */

static int misuse(world *w, void *context) {
    (void)context;
    communicator_options options = {.kind = COMMUNICATOR_SHARED};
    communicator *c;
    void *memory;
    int64_t number = 0;
    float one = 1;
    RANK_OK(communicator_create(w, &options, &c));
    RANK_CHECK(communicator_all_reduce(c, &number, &number, 1, DTYPE_I64) == DYNO_UNSUPPORTED);
    RANK_CHECK(communicator_all_reduce(c, &one, &one, -1, DTYPE_F32) == DYNO_INVALID);
    RANK_CHECK(communicator_all_reduce(c, NULL, &one, 1, DTYPE_F32) == DYNO_INVALID);
    RANK_CHECK(communicator_all_reduce(c, &one, &one, INT64_MAX, DTYPE_F32) == DYNO_INVALID);
    RANK_CHECK(communicator_broadcast(c, &one, 1, DTYPE_F32, 2) == DYNO_INVALID);
    RANK_OK(communicator_all_reduce(c, NULL, NULL, 0, DTYPE_F32));
    RANK_CHECK(communicator_memory_create(c, 0, &memory) == DYNO_INVALID && !memory);
    RANK_CHECK(communicator_memory_create(c, (int64_t)1 << 45, &memory) == DYNO_OUT_OF_MEMORY);
    RANK_CHECK(strstr(dyno_error_message(), "use fewer ranks or fewer bytes"));
    /* It still works. */
    RANK_OK(communicator_all_reduce(c, &one, &one, 1, DTYPE_F32));
    RANK_CHECK(one == 2);
    /* Ranks that do not agree on what they do. */
    dyno_status status = communicator_all_reduce(c, &one, &one, 1, DTYPE_F32);
    RANK_CHECK(status == DYNO_OK);
    double wide[2] = {0};
    status = world_rank(w) ? communicator_all_reduce(c, wide, wide, 2, DTYPE_F32)
                           : communicator_all_reduce(c, wide, wide, 3, DTYPE_F32);
    RANK_CHECK(status == DYNO_INVALID);
    RANK_CHECK(strstr(dyno_error_message(),
                      "rank 0 all-reduce of 3 f32, root 0; rank 1 all-reduce of 2 f32"));
    options.ranks = 3;
    communicator *more;
    RANK_CHECK(communicator_create(w, &options, &more) == DYNO_INVALID && !more);
    communicator_destroy(c);
    return 0;
}

static void wrong_operands_are_refused_and_named(void **state) {
    (void)state;
    ranks_expect_ok(2, misuse, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_are_exact_for_every_type_size_and_number_of_ranks),
        cmocka_unit_test(sums_are_taken_in_the_order_of_ranks_bit_for_bit),
        cmocka_unit_test(collectives_that_were_started_are_carried_out_in_order),
        cmocka_unit_test(a_communicator_may_be_of_the_first_ranks_only),
        cmocka_unit_test(sixteen_ranks_need_not_sixteen_cores),
        cmocka_unit_test(wrong_operands_are_refused_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
