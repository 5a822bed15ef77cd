/* gemm_regions.c - the blocking around engines that compute in f32, where packing is cheap beside
 * multiplying: every task packs for itself, and threads share nothing.
 *
 * The result is cut into regions, one task each. A task walks K in panels. Of each it packs its rows
 * of A', which then stay in L2; goes over strips of B', of which one at a time is packed and stays
 * in L1; and multiplies the strip with every strip of A'. Sums between panels lie in C where C is
 * f32, and else in a tile on the stack.
 *
 * A result with few columns, such as a head of attention, uses each packed line of A' only a few times, and
 * packing A' would take a fifth of the time. There B' is packed whole, and A' is read in place, one strip at a
 * time while the next is prefetched. This needs rows of A' that are dense along K: a transposed A' would be
 * read one cache line in each row.
 *
 * Cores of a shared machine are never equally fast for long, and two large regions would leave the faster one
 * idle. So a thread that finds no region left steals: strips of B', from the last one on, of a region that another
 * thread is at, whose packed rows it reads from that thread's cache.
 *
 * How K is cut depends on the engine and on K alone, so regions may be cut to suit the caches and
 * the number of threads, and whoever multiplies a strip gets the same sums: none crosses strips. */
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/threads.h"
#include "ops/matmul/gemm_engine.h"

enum {
    ALIGNMENT = 64,
    MOST_A_BYTES = 640 << 10, /* of a panel, packed */
    MOST_B_BYTES = 64 << 10,  /* of a strip */
    FEW_COLUMNS = 128,        /* with at most so many A' is read in place */
    MOST_SUMS = 256 << 10,    /* of a tile, where C cannot hold them */
    MOST_BLOCK = 32 * 32,
    MOST_SHARED = 64, /* regions that others steal from; more of them are balanced well enough */
    USUAL_L2_BYTES = 1 << 20,
    NO_LIMIT = INT32_MAX
};

typedef struct shared_regions shared_regions;

typedef struct regions {
    const gemm_problem *p;
    const gemm_engine *engine;
    int64_t panel_depth;
    int64_t region_rows, region_columns; /* in lines; columns are whole strips */
    int64_t down, across;                /* regions */
    int64_t width;                       /* lines of a strip of A' */
    bool sums_in_c;
    bool reads_a;           /* in place */
    bool streams;           /* non-temporal stores, for a result that no cache holds */
    shared_regions *shared; /* NULL: nothing is stolen */
} regions;

typedef struct region {
    int64_t index, batch;
    int64_t row, column, rows, columns; /* in lines */
    gemm_offsets at;
} region;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t count_of(int64_t x, int64_t step) { return (x + step - 1) / step; }

static int64_t count_regions(const regions *g) {
    return larger(g->p->batches, 1) * g->down * g->across;
}

/* ---- one region ---- */

typedef struct place {
    float *sums; /* of the region's first element */
    int64_t ld;
} place;

static char *c_at(const regions *g, const region *r, int64_t row, int64_t column) {
    const gemm_problem *p = g->p;
    return (char *)p->c + (r->at.c + row * p->ldc + column) * dtype_bytes(p->c_type);
}

/* Whether the sums of blocks need alpha, another type or what C holds to be the result. */
static bool needs_finish(const regions *g) { return !g->sums_in_c || g->p->alpha != 1; }

/* Where the result goes. */
static gemm_target result_at(const regions *g, const region *r, int64_t row, int64_t column) {
    return (gemm_target){.data = c_at(g, r, row, column),
                         .type = g->p->c_type,
                         .ld = g->p->ldc,
                         .alpha = g->p->alpha,
                         .accumulates = g->p->accumulates && !g->sums_in_c};
}

/* Whether the engine can put the sums of so many columns where they belong. */
static bool takes_sums(const regions *g, int64_t columns, bool is_last) {
    return columns == g->engine->columns &&
           (!is_last || !needs_finish(g) || g->engine->finishes_sums);
}

/* The sums of one block by way of a tile, to where sums are kept, or to C in the type it has. */
static void finish_block(const regions *g, const region *r, gemm_block block, int64_t row,
                         int64_t column, bool is_last) {
    const gemm_engine *e = g->engine;
    _Alignas(ALIGNMENT) float sum[MOST_BLOCK], start[MOST_BLOCK];
    gemm_target out = {.data = block.sum, .type = DTYPE_F32, .ld = block.sum_ld, .alpha = 1};
    if (block.start && block.columns < e->columns) {
        for (int i = 0; i < block.rows; i++)
            memcpy(start + i * e->columns, block.start + i * block.start_ld,
                   (size_t)block.columns * sizeof *start);
        block.start = start;
        block.start_ld = e->columns;
    }
    block.sum = sum;
    block.sum_ld = e->columns;
    block.streams = false;
    e->multiply(&block);
    if (is_last)
        out = result_at(g, r, row, column);
    e->finish(&out, sum, e->columns, block.rows, block.columns);
}

typedef struct panel {
    int64_t k, depth;
    bool is_last;
    float *a, *b; /* room for the region's rows and for a strip of B', packed; see reads_a */
} panel;

static gemm_lines lines_of(const regions *g, const region *r, bool of_a, int64_t line, int64_t k) {
    const gemm_operand *o = of_a ? &g->p->a : &g->p->b;
    gemm_lines lines = {.type = o->type,
                        .along = of_a ? o->row_stride : o->column_stride,
                        .deep = of_a ? o->column_stride : o->row_stride};
    int64_t offset = (of_a ? r->at.a : r->at.b) + line * lines.along + k * lines.deep;
    lines.data = (const char *)o->data + offset * dtype_bytes(o->type);
    return lines;
}

/* Of the strip of A' or B' that begins at `line` of `end`, if it is a whole one, spread over so many blocks. */
static gemm_prefetch prefetch_strip(const regions *g, const region *r, bool of_a, const panel *now,
                                    int64_t line, int64_t end, int64_t blocks) {
    int64_t width = of_a ? g->width : g->engine->columns;
    if (line + width > end)
        return (gemm_prefetch){0};
    gemm_lines strip = lines_of(g, r, of_a, line, now->k);
    return gemm_prefetch_begin(&strip, width, now->depth, blocks, now->depth);
}

/* All rows of the region from `row` on times the strip of B' at a column, both packed at the beginning of
 * their room. */
static gemm_block block_at(const regions *g, const region *r, const panel *now, place sums,
                           int64_t row, int64_t column) {
    float *sum = sums.sums + row * sums.ld + column;
    return (gemm_block){.depth = now->depth,
                        .a = now->a,
                        .b = now->b,
                        .rows = (int)(r->rows - row),
                        .columns = (int)smaller(g->engine->columns, r->columns - column),
                        .width = (int)g->width,
                        .start = now->k || (g->sums_in_c && g->p->accumulates) ? sum : NULL,
                        .start_ld = sums.ld,
                        .sum = sum,
                        .sum_ld = sums.ld,
                        .streams = g->streams && (uintptr_t)sum % GEMM_CACHE_LINE == 0};
}

/* A strip of B' times all of the region's rows, while the one at next_column is prefetched. */
static void multiply_strip(const regions *g, const region *r, const panel *now, int64_t column,
                           int64_t next_column, place sums) {
    const gemm_engine *e = g->engine;
    gemm_block block = block_at(g, r, now, sums, 0, column);
    gemm_lines from = lines_of(g, r, false, r->column + column, now->k);
    if (e->packs_by_the_way && from.along == 1 && block.columns == e->columns) {
        block.packed = now->b;
        block.b = from.data;
        block.b_type = from.type;
        block.b_deep = from.deep;
    } else {
        e->pack_b(&from, block.columns, now->depth, e->columns, e->columns, now->b);
    }
    gemm_prefetch next = prefetch_strip(g, r, false, now, r->column + next_column,
                                        r->column + r->columns, count_of(r->rows, g->width));
    block.next = &next;
    if (takes_sums(g, block.columns, now->is_last)) {
        gemm_target result = result_at(g, r, r->row, r->column + column);
        if (now->is_last && needs_finish(g))
            block.finish = &result;
        e->multiply(&block);
        return;
    }
    for (int64_t row = 0; row < r->rows; row += g->width) {
        gemm_block one = block_at(g, r, now, sums, row, column);
        one.rows = (int)smaller(g->width, one.rows);
        one.a = now->a + row / g->width * now->depth * e->row_pitch;
        one.next = &next;
        if (row == 0) {
            one.b = block.b;
            one.b_type = block.b_type;
            one.b_deep = block.b_deep;
            one.packed = block.packed;
        }
        finish_block(g, r, one, r->row + row, r->column + column, now->is_last);
    }
}

/* A strip of A', in place, times all strips of B', which are packed. Strips whose sums need no tile on the way are
 * multiplied in one call. */
static void multiply_row_of_blocks(const regions *g, const region *r, const panel *now, int64_t row,
                                   place sums) {
    const gemm_engine *e = g->engine;
    gemm_lines from = lines_of(g, r, true, r->row + row, now->k);
    gemm_prefetch next = prefetch_strip(g, r, true, now, r->row + row + g->width, r->row + r->rows,
                                        count_of(r->columns, e->columns));
    for (int64_t column = 0, columns; column < r->columns; column += columns) {
        gemm_block block = block_at(g, r, now, sums, row, column);
        block.rows = (int)smaller(g->width, block.rows);
        block.a = from.data;
        block.a_along = from.along;
        block.reads_a = true;
        block.b = now->b + column * now->depth;
        block.next = &next;
        columns = block.columns;
        if (takes_sums(g, columns, now->is_last)) {
            gemm_target result = result_at(g, r, r->row + row, r->column + column);
            if (now->is_last && needs_finish(g))
                block.finish = &result;
            columns = (r->columns - column) / e->columns * e->columns;
            block.columns = (int)columns;
            e->multiply(&block);
        } else {
            finish_block(g, r, block, r->row + row, r->column + column, now->is_last);
        }
    }
}

/* ---- stealing ---- */

/* A region that a thread, its owner, is at. What is not atomic changes only while is_open is false and no thief
 * is counted. */
typedef struct shared_region {
    region r;
    panel now;
    place sums;
    int64_t strips;
    _Atomic uint64_t taken; /* strips of the panel: from the first on, and from the last on << 32 */
    atomic_bool is_open;
    _Alignas(ALIGNMENT) atomic_int thieves; /* that have begun to look */
} shared_region;

struct shared_regions {
    atomic_int begun, done;
    shared_region regions[MOST_SHARED];
};

/* The next strip from the front, or from the end; -1: none is left. */
static int64_t take_strip(shared_region *s, bool from_end) {
    uint64_t taken = atomic_load_explicit(&s->taken, memory_order_relaxed);
    for (;;) {
        int64_t front = (int64_t)(taken & UINT32_MAX), end = (int64_t)(taken >> 32);
        if (front + end >= s->strips)
            return -1;
        uint64_t more = taken + (from_end ? (uint64_t)1 << 32 : 1);
        if (atomic_compare_exchange_weak_explicit(&s->taken, &taken, more, memory_order_relaxed,
                                                  memory_order_relaxed))
            return from_end ? s->strips - 1 - end : front;
    }
}

/* The owner multiplies all strips but those that others steal. When this returns, nobody reads the panel any more. */
static void run_shared_panel(const regions *g, const region *r, const panel *now, place sums,
                             shared_region *s) {
    int64_t columns = g->engine->columns, strip;
    s->r = *r;
    s->now = *now;
    s->sums = sums;
    s->strips = count_of(r->columns, columns);
    atomic_store_explicit(&s->taken, 0, memory_order_relaxed);
    atomic_store(&s->is_open, true);
    while ((strip = take_strip(s, false)) >= 0)
        multiply_strip(g, r, now, strip * columns, (strip + 1) * columns, sums);
    atomic_store(&s->is_open, false);
    for (int turn = 0; atomic_load(&s->thieves) > 0; turn++)
        threads_wait(turn);
}

/* Whether there was a strip to steal. */
static bool steal_strips(const regions *g, shared_region *s, float *room) {
    int64_t columns = g->engine->columns, strip, stolen = 0;
    atomic_fetch_add(&s->thieves, 1);
    if (atomic_load(&s->is_open)) {
        panel now = s->now;
        now.b = room;
        for (; (strip = take_strip(s, true)) >= 0; stolen++)
            multiply_strip(g, &s->r, &now, strip * columns, larger(strip - 1, 0) * columns,
                           s->sums);
        if (g->streams && g->engine->end)
            g->engine->end();
    }
    atomic_fetch_sub(&s->thieves, 1);
    return stolen > 0;
}

/* Steals until every region is done. A thief waits for an owner that packs, but not for one that seems to have lost
 * its core: that owner might want the thief's. */
static void steal(const regions *g) {
    enum { MOST_TURNS = 20000 }; /* a third of a millisecond; packing takes a tenth */
    _Alignas(ALIGNMENT) float room[MOST_B_BYTES / sizeof(float)];
    int64_t count = count_regions(g);
    for (int turn = 0; turn < MOST_TURNS && atomic_load(&g->shared->done) < count; turn++) {
        for (int64_t i = 0; i < count; i++)
            if (atomic_load_explicit(&g->shared->regions[i].is_open, memory_order_relaxed) &&
                steal_strips(g, &g->shared->regions[i], room))
                turn = 0;
        threads_wait(0);
    }
}

static void run_panel(const regions *g, const region *r, const panel *now, place sums) {
    const gemm_engine *e = g->engine;
    if (g->reads_a) {
        gemm_lines columns = lines_of(g, r, false, r->column, now->k);
        e->pack_b(&columns, r->columns, now->depth, e->columns, e->columns, now->b);
        for (int64_t row = 0; row < r->rows; row += g->width)
            multiply_row_of_blocks(g, r, now, row, sums);
    } else {
        gemm_lines rows = lines_of(g, r, true, r->row, now->k);
        e->pack_a(&rows, r->rows, now->depth, g->width, e->row_pitch, now->a);
        if (g->shared) {
            run_shared_panel(g, r, now, sums, &g->shared->regions[r->index]);
            return;
        }
        for (int64_t column = 0; column < r->columns; column += e->columns)
            multiply_strip(g, r, now, column, column + e->columns, sums);
    }
}

/* `room` is for all strips of the operand of which more than one is packed at a time. */
static void run_panels(const regions *g, const region *r, float *room, place sums) {
    _Alignas(ALIGNMENT) float strip[MOST_B_BYTES / sizeof(float)];
    for (int64_t k = 0; k < g->p->k; k += g->panel_depth) {
        panel now = {.k = k,
                     .depth = smaller(g->panel_depth, g->p->k - k),
                     .is_last = k + g->panel_depth >= g->p->k,
                     .a = room,
                     .b = g->reads_a ? room : strip};
        run_panel(g, r, &now, sums);
    }
}

/* Three functions by what lies on the stack: small products must not pay for much of it, since
 * compilers may touch each page. */
enum { FEW_BYTES = 64 << 10 };

__attribute__((noinline)) static void run_small(const regions *g, const region *r, place sums) {
    _Alignas(ALIGNMENT) float room[FEW_BYTES / sizeof(float)];
    run_panels(g, r, room, sums);
}

__attribute__((noinline)) static void run_in_place(const regions *g, const region *r, place sums) {
    _Alignas(ALIGNMENT) float room[MOST_A_BYTES / sizeof(float)];
    run_panels(g, r, room, sums);
}

__attribute__((noinline)) static void run_with_sums(const regions *g, const region *r) {
    _Alignas(ALIGNMENT) float sums[MOST_SUMS];
    run_in_place(g, r,
                 (place){sums, count_of(r->columns, g->engine->columns) * g->engine->columns});
}

static void run_region(const regions *g, const region *r) {
    bool is_single = g->p->k <= g->panel_depth;
    const gemm_engine *e = g->engine;
    int64_t lines = g->reads_a ? count_of(r->columns, e->columns) * e->columns
                               : count_of(r->rows, g->width) * e->row_pitch;
    int64_t packed_bytes = lines * smaller(g->p->k, g->panel_depth) * (int64_t)sizeof(float);
    place in_c = {(float *)(void *)c_at(g, r, r->row, r->column), g->p->ldc};
    if (!g->sums_in_c && !is_single)
        run_with_sums(g, r);
    else if (packed_bytes <= FEW_BYTES)
        run_small(g, r, in_c);
    else
        run_in_place(g, r, in_c);
    if (g->streams && e->end)
        e->end();
}

static region region_at(const regions *g, int64_t index) {
    const gemm_problem *p = g->p;
    int64_t i = index % (g->down * g->across);
    region r = {.index = index,
                .batch = index / (g->down * g->across),
                .row = i / g->across * g->region_rows,
                .column = i % g->across * g->region_columns};
    r.rows = smaller(g->region_rows, p->m - r.row);
    r.columns = smaller(g->region_columns, p->n - r.column);
    if (p->locate)
        r.at = p->locate(p->locate_context, r.batch);
    return r;
}

static void run_regions(void *context, int64_t begin, int64_t end) {
    const regions *g = context;
    for (int64_t task = begin; task < end; task++) {
        region r = region_at(g, task);
        run_region(g, &r);
    }
}

static void run_shared_regions(void *context, int64_t begin, int64_t end) {
    const regions *g = context;
    for (int64_t index = begin; index < end; index++) {
        atomic_fetch_add(&g->shared->begun, 1);
        run_regions(context, index, index + 1);
        atomic_fetch_add(&g->shared->done, 1);
        if (atomic_load(&g->shared->begun) == count_regions(g))
            steal(g);
    }
}

__attribute__((noinline)) static void run_with_stealing(regions *g) {
    shared_regions shared;
    atomic_init(&shared.begun, 0);
    atomic_init(&shared.done, 0);
    for (int64_t i = 0; i < count_regions(g); i++) {
        atomic_init(&shared.regions[i].is_open, false);
        atomic_init(&shared.regions[i].thieves, 0);
    }
    g->shared = &shared;
    threads_for_each(count_regions(g), run_shared_regions, g);
}

/* ---- how the result is cut ---- */

/* Multiplications that the busiest thread has to do, packing counted as such. */
static int64_t time_of(const regions *g, int64_t rows, int64_t columns, int64_t threads) {
    int64_t tasks = larger(g->p->batches, 1) * count_of(g->p->m, rows) * count_of(g->p->n, columns);
    return count_of(tasks, threads) *
           (rows * columns + g->engine->a_weight * rows + g->engine->b_weight * columns);
}

/* A region has any number of rows, since a block computes no more than it has, and whole strips of columns. */
static void choose_regions(regions *g, int64_t most_rows, int64_t most_sums) {
    enum { TRIES = 16 };
    const gemm_problem *p = g->p;
    int64_t best = INT64_MAX, threads = threads_count(), strip = g->engine->columns;
    int64_t strips = count_of(p->n, strip);
    int64_t least_down = count_of(p->m, most_rows);
    /* A batch that keeps all threads busy is not cut further, and nothing into more than strips. */
    int64_t tries = p->batches < 4 * threads ? TRIES : 1;
    for (int64_t i = 0; i < tries && (i == 0 || (least_down + i) * g->engine->rows <= p->m); i++) {
        int64_t rows = count_of(p->m, least_down + i);
        int64_t least_across = count_of(strips, larger(most_sums / (rows * strip), 1));
        for (int64_t j = 0; j < tries && (j == 0 || least_across + j <= strips); j++) {
            int64_t columns = count_of(strips, least_across + j) * strip;
            int64_t time = time_of(g, rows, columns, threads);
            if (time < best) {
                best = time;
                g->region_rows = rows;
                g->region_columns = columns;
            }
        }
    }
    assert(g->region_rows * g->region_columns <= most_sums);
    g->down = count_of(p->m, g->region_rows);
    g->across = count_of(p->n, g->region_columns);
    g->width = count_of(g->region_rows, count_of(g->region_rows, g->engine->rows));
}

/* Rows that are read side by side stay in L1 only if they map to enough of its sets. A way of most L1 caches
 * has 4 KiB, so rows at a multiple of 4 KiB all map to one set, of 8 ways or more. */
static bool can_stay_in_l1(int64_t stride_bytes, int64_t rows) {
    enum { WAY_BYTES = 4096, WAYS = 7 }; /* and one for B' */
    int64_t apart = stride_bytes % WAY_BYTES;
    int64_t places = apart ? WAY_BYTES / (apart & -apart) : 1;
    return count_of(rows, places) <= WAYS;
}

static bool reads_a_in_place(const regions *g) {
    const gemm_operand *a = &g->p->a;
    return g->engine->reads_in_place && a->type == DTYPE_F32 && g->p->n <= FEW_COLUMNS &&
           a->column_stride == 1 &&
           can_stay_in_l1(a->row_stride * (int64_t)sizeof(float), g->engine->rows);
}

/* The result is written once and not read, and it is larger than the last-level cache: a line of it would be
 * read from memory only to be overwritten. */
static bool uses_streaming_stores(const regions *g, int64_t l3_bytes) {
    const gemm_problem *p = g->p;
    int64_t bytes = larger(p->batches, 1) * p->m * p->n * (int64_t)sizeof(float);
    return g->engine->streams && g->sums_in_c && p->k <= g->panel_depth && !p->accumulates &&
           l3_bytes > 0 && bytes > l3_bytes &&
           p->ldc * (int64_t)sizeof(float) % GEMM_CACHE_LINE == 0;
}

void gemm_run_regions(const gemm_engine *e, const gemm_problem *p) {
    const target *chip = p->target ? p->target : target_this_cpu();
    int64_t l2 = chip->l2_bytes > 0 ? chip->l2_bytes : USUAL_L2_BYTES;
    regions g = {.p = p,
                 .engine = e,
                 .sums_in_c = p->c_type == DTYPE_F32 && (p->alpha == 1 || !p->accumulates)};
    g.panel_depth = count_of(p->k, count_of(p->k, e->panel_depth));
    assert(g.panel_depth * e->columns * 4 <= MOST_B_BYTES);
    int64_t strip_bytes = g.panel_depth * e->row_pitch * 4;
    int64_t most_strips = smaller(MOST_A_BYTES, l2 * 5 / 8) / strip_bytes;
    g.reads_a = reads_a_in_place(&g);
    g.streams = uses_streaming_stores(&g, chip->l3_bytes);
    bool has_tile = !g.sums_in_c && p->k > g.panel_depth;
    choose_regions(&g, larger(most_strips, 1) * e->rows, has_tile ? MOST_SUMS : NO_LIMIT);
    if (threads_count() > 1 && count_regions(&g) <= MOST_SHARED && !g.reads_a)
        run_with_stealing(&g);
    else
        threads_for_each(count_regions(&g), run_regions, &g);
}
