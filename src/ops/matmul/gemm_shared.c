/* gemm_shared.c - the blocking around engines that multiply bf16 many times faster than it is packed.
 *
 * The smaller operand is packed whole into the workspace, once, by all threads: it is the shared
 * one. Then the result is cut into tiles. A task makes one tile: it walks K in panels, packs its
 * own lines of the larger operand for the panel onto its stack, and multiplies each strip of them
 * with the shared strips: one stays in L1 while those of the other operand stream from L2. So a
 * large matrix of weights is read once and never written to memory again. Sums between panels are
 * kept on the stack in blocks, in f32 whatever the result's type; the last panel's block goes to C.
 * A shared A' may be read in place instead of packed, see reads_a_in_place().
 *
 * Every tile reads the shared operand once. While that stays in the caches, small tiles over deep panels are best for
 * engines as slow as dot products: sums travel seldom. When it comes from memory, larger tiles read it less often.
 *
 * Products are added to a sum one after the other along K, however K is cut, so tiles and panels may be cut to suit
 * caches and the number of threads: no sum crosses tiles. */
#include "base/threads.h"
#include "ops/matmul/gemm_engine.h"

enum {
    ALIGNMENT = 64,
    MAX_BLOCK = 32 * 32,
    MAX_OWN_BYTES = 256 * 512 * 2,
    MAX_TILE = 768 * 256,
    /* Of a batch, so many bytes are packed at a time. */
    GROUP_BYTES = 16 << 20,
    PACKED_LINES = 128, /* by one task of packing */
    /* A packed operand up to this size stays in a cache of L3 that has four times as much. */
    NEAR_BYTES = 8 << 20
};

typedef struct side {
    int64_t lines;
    int width; /* of a strip */
    int64_t strips;
    int64_t tile, tiles; /* lines of a tile, their number */
} side;

typedef struct blocking {
    const gemm_problem *p;
    const gemm_engine *engine;
    bool shares_a;
    bool reads_a; /* in place, where it is the shared operand: nothing is packed beforehand */
    side shared, own;
    int64_t panel_depth, own_lines;
    int64_t packed_bytes;          /* of the shared operand of one product */
    int64_t batches, group, first; /* products, at a time, first of those now */
    unsigned char *packed;
} blocking;

/* The first lines of a task's tile. */
typedef struct tile {
    int64_t batch, own, shared;
} tile;

static int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }
static int64_t count_of(int64_t x, int64_t step) { return (x + step - 1) / step; }

static side make_side(int64_t lines, int width) {
    return (side){.lines = lines, .width = width, .strips = count_of(lines, width)};
}

/* Where B' has few columns, packing A' takes a large part of the time. Read in place, rows must be dense, and there are
 * whole strips only. On two cores of Xeons, by turns, against packing, m x n x k: 512 x 768 x 768, 2304, 3072 and 6144
 * 1.08 to 1.12, 1.16, 1.19 to 1.22 and 1.15 times as fast, 512 x 2304 x 768 0.97 to 1.0, 512 x 6144 x 768 0.95. */
static bool reads_a_in_place(const blocking *b) {
    enum { FEW_COLUMNS = 1024 };
    const gemm_operand *a = &b->p->a;
    return b->engine->reads_in_place && b->shares_a && b->p->n <= FEW_COLUMNS &&
           a->column_stride == 1 && b->p->m % b->shared.width == 0 &&
           b->p->k % b->engine->depth_step == 0;
}

static blocking make_blocking(const gemm_engine *e, const gemm_problem *p) {
    blocking b = {.p = p, .engine = e, .shares_a = p->m <= p->n};
    side rows = make_side(p->m, e->rows), columns = make_side(p->n, e->columns);
    b.shared = b.shares_a ? rows : columns;
    b.own = b.shares_a ? columns : rows;
    b.reads_a = reads_a_in_place(&b);
    b.packed_bytes = round_up(b.shared.strips * b.shared.width * round_up(p->k, e->depth_step) *
                                  e->element_bytes,
                              ALIGNMENT);
    bool is_near = e->near_panel_depth > 0 && b.packed_bytes <= NEAR_BYTES;
    int64_t panels = count_of(p->k, is_near ? e->near_panel_depth : e->panel_depth);
    b.panel_depth = round_up(count_of(p->k, panels), e->depth_step);
    b.own_lines = is_near ? e->near_own_lines : e->own_lines;
    b.batches = p->batches > 1 ? p->batches : 1;
    b.group = GROUP_BYTES / b.packed_bytes;
    if (b.group < 1)
        b.group = 1;
    if (b.group > b.batches)
        b.group = b.batches;
    return b;
}

static gemm_offsets offsets_of(const blocking *b, int64_t batch) {
    return b->p->locate ? b->p->locate(b->p->locate_context, batch) : (gemm_offsets){0};
}

/* The lines of A' or B' from `line` on, at depth k. */
static gemm_lines lines_of(const blocking *b, bool of_a, int64_t batch, int64_t line, int64_t k) {
    const gemm_operand *o = of_a ? &b->p->a : &b->p->b;
    gemm_offsets at = offsets_of(b, batch);
    gemm_lines lines = {.type = o->type,
                        .along = of_a ? o->row_stride : o->column_stride,
                        .deep = of_a ? o->column_stride : o->row_stride};
    int64_t offset = (of_a ? at.a : at.b) + line * lines.along + k * lines.deep;
    lines.data = (const char *)o->data + offset * dtype_bytes(o->type);
    return lines;
}

/* A panel's place in the packed operand, from a strip on. */
static unsigned char *packed_at(const blocking *b, int64_t batch, int64_t k, int64_t strip) {
    int64_t depth = b->p->k - k < b->panel_depth ? b->p->k - k : b->panel_depth;
    depth = round_up(depth, b->engine->depth_step);
    int64_t elements = k * b->shared.strips * b->shared.width + strip * b->shared.width * depth;
    return b->packed + (batch - b->first) * b->packed_bytes + elements * b->engine->element_bytes;
}

static void pack_shared(void *context, int64_t begin, int64_t end) {
    const blocking *b = context;
    int64_t chunk = PACKED_LINES / b->shared.width, chunks = count_of(b->shared.strips, chunk);
    gemm_pack *pack = b->shares_a ? b->engine->pack_a : b->engine->pack_b;
    for (int64_t task = begin; task < end; task++) {
        int64_t batch = b->first + task / chunks, strip = task % chunks * chunk;
        int64_t line = strip * b->shared.width, count = b->shared.lines - line;
        if (count > chunk * b->shared.width)
            count = chunk * b->shared.width;
        for (int64_t k = 0; k < b->p->k; k += b->panel_depth) {
            gemm_lines from = lines_of(b, b->shares_a, batch, line, k);
            int64_t depth = b->p->k - k < b->panel_depth ? b->p->k - k : b->panel_depth;
            pack(&from, count, depth, b->shared.width, b->shared.width,
                 packed_at(b, batch, k, strip));
        }
    }
}

/* The lines of C that a block's sums go to. A result is rarely in a cache, and stores to lines that are not wait for
 * them, so they are prefetched while the sums are computed. Many prefetches at once would delay the operands' own
 * misses, so an engine that can does a few at a time. */
static gemm_prefetch prefetch_result(const gemm_engine *e, const gemm_target *to, int64_t rows,
                                     int64_t columns, int64_t depth) {
    gemm_lines lines = {.data = to->data, .type = to->type, .along = to->ld, .deep = 1};
    int passes = e->result_passes > 0 ? e->result_passes : 1;
    gemm_prefetch p = gemm_prefetch_begin(&lines, rows, columns, passes, depth);
    while (e->result_passes == 0 && p.rows_left > 0)
        gemm_prefetch_next(&p);
    return p;
}

/* A block's sums of the last panel: straight to C where the engine finishes them in registers, or C takes
 * them as they are. */
static void write_block(const blocking *b, const gemm_target *c, int64_t row, int64_t column,
                        gemm_block *block) {
    const gemm_engine *e = b->engine;
    gemm_target to = {.data = (char *)c->data + (row * c->ld + column) * dtype_bytes(c->type),
                      .type = c->type,
                      .ld = c->ld,
                      .alpha = c->alpha,
                      .accumulates = c->accumulates};
    int64_t rows = b->p->m - row < e->rows ? b->p->m - row : e->rows;
    int64_t columns = b->p->n - column < e->columns ? b->p->n - column : e->columns;
    bool is_whole = rows == e->rows && columns == e->columns;
    block->finish = is_whole && e->finishes_sums ? &to : NULL;
    if (block->finish) {
        e->multiply(block);
        return;
    }
    gemm_prefetch result = prefetch_result(e, &to, rows, columns, block->depth);
    block->result = &result;
    if (is_whole && to.type == DTYPE_F32 && to.alpha == 1 && !to.accumulates) {
        block->sum = to.data;
        block->sum_ld = to.ld;
        e->multiply(block);
        return;
    }
    _Alignas(ALIGNMENT) float sum[MAX_BLOCK];
    block->sum = sum;
    block->sum_ld = e->columns;
    e->multiply(block);
    e->finish(&to, sum, e->columns, rows, columns);
}

/* The lines that a task packs next, of the next panel or of the next tile: they come from memory while the blocks
 * of this one are multiplied. */
static gemm_prefetch prefetch_own(const blocking *b, tile at, int64_t k, int64_t blocks) {
    const side *own = &b->own;
    k += b->panel_depth;
    if (k >= b->p->k) {
        k = 0;
        at.own += own->tile;
    }
    int64_t count = own->lines - at.own < own->tile ? own->lines - at.own : own->tile;
    int64_t depth = b->p->k - k < b->panel_depth ? b->p->k - k : b->panel_depth;
    gemm_lines lines = lines_of(b, !b->shares_a, at.batch, at.own, k);
    return gemm_prefetch_begin(&lines, count, depth, blocks, depth);
}

/* The strips of a tile over one panel of K. */
typedef struct panel {
    tile at;
    int64_t own_strips, shared_strips;
    int64_t own_bytes, shared_bytes; /* from strip to strip */
    const unsigned char *own, *shared;
    float *sums; /* of all blocks; NULL where K is one panel */
    bool is_last;
} panel;

/* Multiplies all strips with each other. A strip's block is described in place: a copy of what was stored a moment
 * ago in smaller parts waits until these, and all stores of tiles before them, have reached the cache.
 *
 * Rows of A' that are read in place may lie at a multiple of 4 KiB, and all lines of a panel then meet in a part of
 * L2's sets. So a group of strips, for which there is room, serves all strips of the task before the next group does:
 * 512 x 768 x 6144 1.15 times as fast as packed, and 0.98 without groups. */
static void multiply_panel(const blocking *b, const panel *x, const gemm_target *c,
                           gemm_block *block) {
    enum { STRIPS_IN_PLACE = 8 };
    const gemm_engine *e = b->engine;
    bool keeps_own = !e->keeps_columns || b->shares_a;
    int64_t outer_strips = keeps_own ? x->own_strips : x->shared_strips;
    int64_t inner_strips = keeps_own ? x->shared_strips : x->own_strips;
    int64_t group = b->reads_a ? STRIPS_IN_PLACE : inner_strips;
    for (int64_t first = 0; first < inner_strips; first += group)
        for (int64_t outer = 0; outer < outer_strips; outer++)
            for (int64_t inner = first; inner < first + group && inner < inner_strips; inner++) {
                int64_t own = keeps_own ? outer : inner, shared = keeps_own ? inner : outer;
                const void *mine = x->own + own * x->own_bytes;
                const void *theirs = x->shared + shared * x->shared_bytes;
                block->a = b->shares_a ? theirs : mine;
                block->b = b->shares_a ? mine : theirs;
                if (x->sums) {
                    float *sum = x->sums + (outer * inner_strips + inner) * e->rows * e->columns;
                    block->start = block->start ? sum : NULL;
                    block->sum = sum;
                }
                if (!x->is_last) {
                    e->multiply(block);
                    continue;
                }
                int64_t own_line = x->at.own + own * b->own.width;
                int64_t shared_line = x->at.shared + shared * b->shared.width;
                write_block(b, c, b->shares_a ? shared_line : own_line,
                            b->shares_a ? own_line : shared_line, block);
            }
}

/* `sums` may be NULL where K is one panel. */
static void run_tile(const blocking *b, tile at, unsigned char *own_packed, float *sums) {
    const gemm_engine *e = b->engine;
    const gemm_problem *p = b->p;
    const side *own = &b->own, *shared = &b->shared;
    int64_t own_count = own->lines - at.own < own->tile ? own->lines - at.own : own->tile;
    int64_t shared_count =
        shared->lines - at.shared < shared->tile ? shared->lines - at.shared : shared->tile;
    panel x = {.at = at,
               .own_strips = count_of(own_count, own->width),
               .shared_strips = count_of(shared_count, shared->width),
               .own = own_packed,
               .sums = sums};
    gemm_pack *pack = b->shares_a ? e->pack_b : e->pack_a;
    gemm_target c = {.data = (char *)p->c + offsets_of(b, at.batch).c * dtype_bytes(p->c_type),
                     .type = p->c_type,
                     .ld = p->ldc,
                     .alpha = p->alpha,
                     .accumulates = p->accumulates};

    for (int64_t k = 0; k < p->k; k += b->panel_depth) {
        x.is_last = k + b->panel_depth >= p->k;
        int64_t depth = x.is_last ? p->k - k : b->panel_depth;
        gemm_lines from = lines_of(b, !b->shares_a, at.batch, at.own, k);
        pack(&from, own_count, depth, own->width, own->width, own_packed);
        depth = round_up(depth, e->depth_step);
        x.own_bytes = own->width * depth * e->element_bytes;
        x.shared_bytes = shared->width * depth * e->element_bytes;
        if (b->reads_a) {
            x.shared = lines_of(b, true, at.batch, at.shared, k).data;
            x.shared_bytes = shared->width * p->a.row_stride * dtype_bytes(p->a.type);
        } else {
            x.shared = packed_at(b, at.batch, k, at.shared / shared->width);
        }
        gemm_prefetch next = prefetch_own(b, at, k, x.own_strips * x.shared_strips);
        gemm_block block = {.depth = depth,
                            .rows = e->rows,
                            .columns = e->columns,
                            .start = k ? sums : NULL,
                            .start_ld = e->columns,
                            .sum_ld = e->columns,
                            .reads_a = b->reads_a,
                            .a_along = p->a.row_stride,
                            .streams_a = e->keeps_columns,
                            .next = &next};
        multiply_panel(b, &x, &c, &block);
    }
}

/* Two functions, so that the many small products of attention, whose K is one panel, do not pay
 * for a large stack: compilers may touch each page of it. */
__attribute__((noinline)) static void run_tile_of_one_panel(const blocking *b, tile at) {
    _Alignas(ALIGNMENT) unsigned char own_packed[MAX_OWN_BYTES];
    run_tile(b, at, own_packed, NULL);
}

__attribute__((noinline)) static void run_tile_of_panels(const blocking *b, tile at) {
    _Alignas(ALIGNMENT) unsigned char own_packed[MAX_OWN_BYTES];
    _Alignas(ALIGNMENT) float sums[MAX_TILE];
    run_tile(b, at, own_packed, sums);
}

static void run_tasks(void *context, int64_t begin, int64_t end) {
    const blocking *b = context;
    if (b->engine->begin)
        b->engine->begin();
    for (int64_t task = begin; task < end; task++) {
        int64_t tiles = b->own.tiles * b->shared.tiles, i = task % tiles;
        tile at = {.batch = b->first + task / tiles,
                   .own = i / b->shared.tiles * b->own.tile,
                   .shared = i % b->shared.tiles * b->shared.tile};
        if (b->p->k <= b->panel_depth)
            run_tile_of_one_panel(b, at);
        else
            run_tile_of_panels(b, at);
    }
    if (b->engine->end)
        b->engine->end();
}

/* Even tiles, about `wanted` of them. */
static void cut(side *s, int64_t wanted) {
    s->tile = round_up(count_of(s->lines, wanted), s->width);
    s->tiles = count_of(s->lines, s->tile);
}

/* The tiles with which the busiest thread has the least to do: to multiply, and to pack. */
static void choose_tiles(blocking *b) {
    enum { TRIES = 16 };
    const gemm_engine *e = b->engine;
    int64_t least_own = count_of(b->own.lines, b->own_lines / b->own.width * b->own.width);
    int64_t least_shared =
        count_of(b->shared.lines, e->shared_lines / b->shared.width * b->shared.width);
    int64_t threads = threads_count(), best = INT64_MAX;
    int64_t weight = b->shares_a ? e->b_weight : e->a_weight; /* of what a task packs itself */
    side own = b->own, shared = b->shared;
    int tries = b->group < 4 * threads ? TRIES : 1;
    for (int i = 0; i < tries; i++)
        for (int j = 0; j < tries; j++) {
            cut(&own, least_own + i);
            cut(&shared, least_shared + j);
            int64_t turns = count_of(b->group * own.tiles * shared.tiles, threads);
            int64_t time = turns * own.tile * (shared.tile + weight);
            if (time < best) {
                best = time;
                b->own = own;
                b->shared = shared;
            }
        }
}

/* Also where A' is read in place: who asks for many products plans for the largest, and smaller ones may be packed. */
size_t gemm_shared_workspace_bytes(const gemm_engine *e, const gemm_problem *p) {
    blocking b = make_blocking(e, p);
    return (size_t)(b.group * b.packed_bytes) + ALIGNMENT;
}

void gemm_run_shared(const gemm_engine *e, const gemm_problem *p, void *workspace) {
    blocking b = make_blocking(e, p);
    b.packed =
        (unsigned char *)(((uintptr_t)workspace + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    choose_tiles(&b);
    int64_t chunks = count_of(b.shared.strips, PACKED_LINES / b.shared.width);
    for (b.first = 0; b.first < b.batches; b.first += b.group) {
        int64_t now = b.batches - b.first < b.group ? b.batches - b.first : b.group;
        if (!b.reads_a)
            threads_for_each(now * chunks, pack_shared, &b);
        threads_for_each(now * b.own.tiles * b.shared.tiles, run_tasks, &b);
    }
}
