/* cuda_geometry.c - sizes that fill the chip and fit its registers.
 *
 * Rows are kept in registers between stages, packed as they lie in memory. A lane is given few
 * enough elements that this is the rule; the exceptions are streamed through again. */
#include "compiler/codegen/cuda_geometry.h"

enum {
    MOST_ELEMENTS = 32,  /* of a row, in one lane */
    WARP_COLUMNS = 1024, /* up to here a warp has a row, and needs no barrier */
    USUAL_LANES = 512,   /* of a longer row */
    MOST_LANES = 1024,   /* a block */
    ROWS_THREADS = 128,  /* of a block whose warps have rows of their own */
    FLAT_THREADS = 256,
    COLUMN_SUM_THREADS = 768,
    MOST_BARRIERS = 15,
    SHARED_BYTES = 40 << 10, /* of the 48 KiB that every kernel may have */
    MULTIPROCESSORS = 132,   /* of the chip that grids are made for; others only differ in speed */
    FLAT_BLOCKS = 16 * MULTIPROCESSORS,
    EARLY_WORDS = 80, /* registers for what is loaded before it is needed */
    FLAT_WORDS = 48,
    SPARE_REGISTERS = 64 /* for everything that is not a kept row */
};

int cuda_words(int elements, dtype type) {
    int bytes = elements * dtype_bytes(type);
    return bytes < 4 ? 1 : bytes / 4;
}

bool cuda_is_read_later(const fused_kernel *k, int member) {
    const fused_member *from = &k->members[member];
    if (from->is_row || from->kind != FUSION_ELEMENTWISE)
        return false;
    for (int i = member + 1; i < k->member_count; i++)
        for (int j = 0; j < k->members[i].read_count; j++) {
            const fused_read *read = &k->members[i].reads[j];
            if (read->source == FUSED_MEMBER && read->index == member &&
                k->members[i].stage > from->stage)
                return true;
        }
    return false;
}

int cuda_first_stage(const fused_kernel *k, int operand) {
    int first = k->stage_count;
    for (int i = 0; i < k->member_count; i++)
        for (int j = 0; j < k->members[i].read_count; j++) {
            const fused_read *read = &k->members[i].reads[j];
            if (read->source == FUSED_OPERAND && read->index == operand &&
                k->members[i].stage < first)
                first = k->members[i].stage;
        }
    return first;
}

bool cuda_is_dense(const fused_kernel *k, int rank, const int64_t *dim, const int64_t *stride,
                   int64_t column_stride) {
    if (column_stride != 1 && k->columns != 1)
        return false;
    int64_t below = k->columns;
    for (int i = rank - 1; i >= 0; i--) {
        if (dim[i] > 1 && stride[i] != below)
            return false;
        below *= dim[i];
    }
    return below == k->rows * k->columns;
}

bool cuda_is_uniform(int rank, const int64_t *dim, const int64_t *stride, int64_t column_stride) {
    bool moves = column_stride != 0;
    for (int i = 0; i < rank; i++)
        moves = moves || (dim[i] > 1 && stride[i] != 0);
    return !moves;
}

static int vector_dividing(int64_t columns, int most) {
    while (columns % most != 0)
        most /= 2;
    return most;
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- flat ---- */

static bool is_flat(const fused_kernel *k) {
    for (int i = 0; i < k->member_count; i++)
        if (k->members[i].kind != FUSION_ELEMENTWISE || k->members[i].is_row)
            return false;
    return true;
}

static cuda_geometry flat_geometry(const fused_kernel *k) {
    int narrowest = 4, words = 0;
    bool is_line = true; /* rows and columns do not matter */
    for (int i = 0; i < k->operand_count; i++) {
        const fused_operand *o = &k->operands[i];
        bool is_dense = cuda_is_dense(k, o->row_rank, o->row_dim, o->row_stride, o->column_stride);
        is_line = is_line && (is_dense || cuda_is_uniform(o->row_rank, o->row_dim, o->row_stride,
                                                          o->column_stride));
        if (is_dense || o->column_stride)
            narrowest = dtype_bytes(o->type) < narrowest ? dtype_bytes(o->type) : narrowest;
    }
    for (int i = 0; i < k->output_count; i++) {
        const fused_output *o = &k->outputs[i];
        narrowest = dtype_bytes(o->type) < narrowest ? dtype_bytes(o->type) : narrowest;
        is_line = is_line && cuda_is_dense(k, o->row_rank, o->row_dim, o->row_stride, 1);
    }
    cuda_geometry g = {.is_flat = true, .threads = FLAT_THREADS, .vector = narrowest < 4 ? 8 : 4};
    if (!is_line)
        g.vector = vector_dividing(k->columns, g.vector);
    for (int i = 0; i < k->operand_count; i++)
        words += cuda_words(g.vector, k->operands[i].type);
    int64_t vectors = divide_up(k->rows * k->columns, g.vector);
    for (g.chunks = 4; g.chunks > 1; g.chunks /= 2)
        if (words * g.chunks <= FLAT_WORDS && vectors / (g.chunks * g.threads) >= FLAT_BLOCKS)
            break;
    g.units = divide_up(vectors, g.chunks * g.threads);
    return g;
}

/* ---- rows ---- */

/* Depends on the columns and nothing else. */
static void share_row(int64_t columns, cuda_geometry *g) {
    g->vector = vector_dividing(columns, 8);
    int64_t vectors = columns / g->vector, best = INT64_MAX;
    if (columns <= WARP_COLUMNS) {
        for (g->lanes = 1; g->lanes < 32 && g->lanes < vectors;)
            g->lanes *= 2;
        g->chunks = divide_up(vectors, g->lanes);
        return;
    }
    /* The fewest vectors a lane that leave no more than an eighth of the lanes idle. */
    for (int most = USUAL_LANES; most <= MOST_LANES && best == INT64_MAX; most *= 2)
        for (int64_t chunks = 1; chunks * g->vector <= MOST_ELEMENTS; chunks++) {
            int64_t lanes = divide_up(divide_up(vectors, chunks), 32) * 32;
            int64_t idle = lanes * chunks - vectors;
            if (lanes > most || idle >= best)
                continue;
            best = idle;
            g->lanes = (int)lanes;
            g->chunks = chunks;
            if (idle * 8 <= vectors)
                break;
        }
    if (best == INT64_MAX) {
        g->lanes = MOST_LANES;
        g->chunks = divide_up(vectors, MOST_LANES);
    }
}

/* Registers for rows: all that is loaded early, or only what a stage leaves to later ones. */
static int64_t kept_words(const fused_kernel *k, const cuda_geometry *g, bool early) {
    int64_t words = 0;
    for (int i = 0; i < k->operand_count; i++) {
        const fused_operand *o = &k->operands[i];
        int first = cuda_first_stage(k, i);
        if (o->column_stride != 0 && (early || first == 0 || first + 1 < k->stage_count))
            words += g->chunks * cuda_words(g->vector, o->type);
    }
    for (int i = 0; i < k->member_count; i++) {
        if (cuda_is_read_later(k, i))
            words += g->chunks * cuda_words(g->vector, k->members[i].type);
        if (k->members[i].kind == FUSION_BLOCK_REDUCE)
            words += g->chunks * g->vector;
    }
    return words;
}

static bool sums_columns(const fused_kernel *k) {
    for (int i = 0; i < k->member_count; i++)
        if (k->members[i].kind == FUSION_BLOCK_REDUCE)
            return true;
    return false;
}

/* Rows of a unit that a block does at once: as many as it has threads and shared memory for. */
static int column_sum_groups(const fused_kernel *k, int lanes) {
    int64_t threads = lanes <= 32 ? FLAT_THREADS : COLUMN_SUM_THREADS, best = 1;
    for (int64_t groups = 2; groups <= k->rows_per_unit && groups * lanes <= threads; groups++)
        if (k->rows_per_unit % groups == 0 && (lanes <= 32 || groups <= MOST_BARRIERS) &&
            groups * k->columns * 4 <= SHARED_BYTES)
            best = groups;
    return (int)best;
}

static cuda_geometry rows_geometry(const fused_kernel *k) {
    cuda_geometry g = {.rows_a_lane = 1, .groups = 1};
    share_row(k->columns, &g);
    if (sums_columns(k)) {
        g.groups = column_sum_groups(k, g.lanes);
        g.rows_a_lane = k->rows_per_unit / g.groups;
        g.units = k->rows / k->rows_per_unit;
    } else {
        if (g.lanes <= 32)
            g.groups = ROWS_THREADS / g.lanes;
        g.units = divide_up(k->rows, g.groups);
    }
    g.threads = g.lanes * g.groups;
    int64_t registers = 65536 / ((g.threads + 127) / 128 * 128);
    registers = (registers > 255 ? 255 : registers) - SPARE_REGISTERS;
    g.loads_early = kept_words(k, &g, true) <= (registers < EARLY_WORDS ? registers : EARLY_WORDS);
    g.is_streamed = g.chunks * g.vector > MOST_ELEMENTS ||
                    (!g.loads_early && kept_words(k, &g, false) > registers);
    return g;
}

cuda_geometry cuda_geometry_of(const fused_kernel *k) {
    return is_flat(k) ? flat_geometry(k) : rows_geometry(k);
}
