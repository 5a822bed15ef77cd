/* cuda_geometry.c - launch geometry that fills the chip and fits its registers.
 *
 * Rows are kept in registers between stages, packed as they are in memory. A lane is given few
 * enough elements that this is the rule; in the exceptions each stage loads the row again. */
#include "compiler/codegen/cuda_geometry.h"

enum {
    ROW_VECTOR = 4,   /* elements: one access in f32 */
    FEW_ELEMENTS = 8, /* of a row, in one lane */
    MOST_ELEMENTS = 32,
    WARP_COLUMNS = 512, /* up to here a row fits one warp, and needs no barrier */
    USUAL_LANES = 512,  /* of a longer row */
    MOST_LANES = 1024,  /* a block */
    ROWS_THREADS = 128, /* of a block whose warps have rows of their own */
    FLAT_THREADS = 256,
    COLUMN_SUM_THREADS = 768,
    MOST_BARRIERS = 15,
    SHARED_BYTES = 40 << 10, /* of the 48 KiB that every kernel may use without an opt-in */
    MULTIPROCESSORS = 132,   /* that grids are sized for; on other chips only speed differs */
    FLAT_BLOCKS = 16 * MULTIPROCESSORS,
    EARLY_WORDS = 80,     /* registers for prefetched operands */
    FLAT_WORDS = 8,       /* in flight for each thread: 64 KiB for a full multiprocessor */
    REGISTERS = 65536,    /* of a multiprocessor */
    SPARE_REGISTERS = 40, /* for everything that is not a row */
    SPARE_AHEAD = 32      /* the same where the next row is prefetched */
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

bool cuda_is_same_in_rows(int rank, const int64_t *dim, const int64_t *stride) {
    for (int i = 0; i < rank; i++)
        if (dim[i] > 1 && stride[i] != 0)
            return false;
    return true;
}

bool cuda_is_uniform(int rank, const int64_t *dim, const int64_t *stride, int64_t column_stride) {
    return column_stride == 0 && cuda_is_same_in_rows(rank, dim, stride);
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
    int narrowest = 4, widest_output = 0, words = 0;
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
        int bytes = dtype_bytes(o->type);
        narrowest = bytes < narrowest ? bytes : narrowest;
        widest_output = bytes > widest_output ? bytes : widest_output;
        is_line = is_line && cuda_is_dense(k, o->row_rank, o->row_dim, o->row_stride, 1);
    }
    /* Not 8 where that leaves stores of half a sector each. */
    cuda_geometry g = {.is_flat = true,
                       .threads = FLAT_THREADS,
                       .vector = narrowest < 4 && widest_output < 4 ? 8 : 4};
    if (!is_line)
        g.vector = vector_dividing(k->columns, g.vector);
    for (int i = 0; i < k->operand_count; i++)
        words += cuda_words(g.vector, k->operands[i].type);
    int64_t vectors = divide_up(k->rows * k->columns, g.vector);
    /* More would leave fewer blocks to hide latency (SwiGLU at 2.7B on an H200: 7 % slower). */
    for (g.chunks = 1; g.chunks < 4 && words * g.chunks < FLAT_WORDS; g.chunks *= 2)
        if (vectors / (2 * g.chunks * g.threads) < FLAT_BLOCKS)
            break;
    g.units = divide_up(vectors, g.chunks * g.threads);
    return g;
}

/* ---- rows ---- */

/* Depends on the columns and nothing else. */
static void share_row(int64_t columns, cuda_geometry *g) {
    g->vector = vector_dividing(columns, ROW_VECTOR);
    int64_t vectors = columns / g->vector, best = INT64_MAX;
    if (columns <= WARP_COLUMNS) {
        for (g->lanes = 1; g->lanes < 32 && g->lanes < vectors;)
            g->lanes *= 2;
        g->chunks = divide_up(vectors, g->lanes);
        return;
    }
    /* The fewest vectors a lane that leave no more than an eighth of the lanes idle. */
    for (int most = USUAL_LANES; most <= MOST_LANES && best == INT64_MAX; most *= 2)
        for (int64_t chunks = FEW_ELEMENTS / g->vector; chunks * g->vector <= MOST_ELEMENTS;
             chunks++) {
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

/* Whether the operand is read in the loop of a stage after the first. */
static bool is_read_after_first(const fused_kernel *k, int operand) {
    for (int i = 0; i < k->member_count; i++)
        for (int j = 0; j < k->members[i].read_count; j++) {
            const fused_read *read = &k->members[i].reads[j];
            if (read->source == FUSED_OPERAND && read->index == operand && k->members[i].stage > 0)
                return true;
        }
    return false;
}

/* The most registers that rows take: those loaded when the first stage begins, or those kept for
 * later stages. */
static int64_t row_words(const fused_kernel *k, const cuda_geometry *g, bool early) {
    int64_t at_first = 0, later = 0, always = 0;
    for (int i = 0; i < k->operand_count; i++) {
        const fused_operand *o = &k->operands[i];
        int64_t words = o->column_stride ? g->chunks * cuda_words(g->vector, o->type) : 0;
        if (early || cuda_first_stage(k, i) == 0)
            at_first += words;
        if (is_read_after_first(k, i))
            later += words;
    }
    for (int i = 0; i < k->member_count; i++) {
        if (cuda_is_read_later(k, i))
            later += g->chunks * cuda_words(g->vector, k->members[i].type);
        if (k->members[i].kind == FUSION_BLOCK_REDUCE)
            always += g->chunks * g->vector;
    }
    return always + (at_first > later ? at_first : later);
}

static bool sums_columns(const fused_kernel *k) {
    for (int i = 0; i < k->member_count; i++)
        if (k->members[i].kind == FUSION_BLOCK_REDUCE)
            return true;
    return false;
}

/* Registers that a lane may have. */
static int64_t registers_of(const cuda_geometry *g) {
    int64_t registers = REGISTERS / (g->threads * g->blocks_at_once) / 8 * 8;
    return registers > 255 ? 255 : registers;
}

/* What a lane can keep of rows in registers, and whether it has to. */
static void fit_registers(const fused_kernel *k, cuda_geometry *g) {
    g->threads = g->lanes * g->groups;
    int64_t registers = registers_of(g) - SPARE_REGISTERS;
    g->loads_early = row_words(k, g, true) <= (registers < EARLY_WORDS ? registers : EARLY_WORDS);
    g->is_streamed = g->chunks * g->vector > MOST_ELEMENTS ||
                     (!g->loads_early && row_words(k, g, false) > registers);
}

/* Blocks of column sums are few, and memory latency shows unless each prefetches its next row while
 * it computes the current one. */
static bool can_load_ahead(const fused_kernel *k, const cuda_geometry *g) {
    int64_t ahead = 0;
    for (int i = 0; i < k->operand_count; i++) {
        const fused_operand *o = &k->operands[i];
        if (!cuda_is_same_in_rows(o->row_rank, o->row_dim, o->row_stride))
            ahead += o->column_stride ? g->chunks * cuda_words(g->vector, o->type) : 1;
    }
    return g->rows_a_lane > 1 && g->loads_early && !g->is_streamed &&
           row_words(k, g, true) + ahead <= registers_of(g) - SPARE_AHEAD;
}

/* Rows of a unit that a block processes at once: as many as threads, shared memory and registers
 * allow. */
static void share_column_sums(const fused_kernel *k, cuda_geometry *g) {
    int threads = g->lanes <= 32 ? FLAT_THREADS : COLUMN_SUM_THREADS;
    for (g->groups = threads / g->lanes; g->groups > 1; g->groups--) {
        if (k->rows_per_unit % g->groups != 0 || g->groups * k->columns * 4 > SHARED_BYTES ||
            (g->lanes > 32 && g->groups > MOST_BARRIERS))
            continue;
        fit_registers(k, g);
        if (!g->is_streamed)
            break;
    }
    g->groups = g->groups < 1 ? 1 : g->groups;
    g->rows_a_lane = k->rows_per_unit / g->groups;
    g->units = k->rows / k->rows_per_unit;
}

static cuda_geometry rows_geometry(const fused_kernel *k) {
    cuda_geometry g = {.rows_a_lane = 1, .groups = 1, .blocks_at_once = 1};
    share_row(k->columns, &g);
    if (sums_columns(k)) {
        g.blocks_at_once = g.lanes * 2 <= MOST_LANES ? 2 : 1; /* split_sums makes two */
        share_column_sums(k, &g);
    } else {
        if (g.lanes <= 32)
            g.groups = ROWS_THREADS / g.lanes;
        g.units = divide_up(k->rows, g.groups);
    }
    fit_registers(k, &g);
    g.prefetches_rows = can_load_ahead(k, &g);
    return g;
}

cuda_geometry cuda_geometry_of(const fused_kernel *k) {
    return is_flat(k) ? flat_geometry(k) : rows_geometry(k);
}
