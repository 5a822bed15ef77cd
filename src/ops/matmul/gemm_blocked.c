/* gemm_blocked.c - the blocking around the engines.
 *
 * The smaller operand is packed whole into the workspace, once, by all threads: it is the shared
 * one. Then the result is cut into tiles. A task makes one tile: it walks K in panels, packs its
 * own lines of the larger operand for the panel onto its stack, and multiplies each strip of them
 * with the shared strips: one stays in L1 while those of the other operand stream from L2. So a
 * large matrix of weights is read once and never written to memory again. Sums between panels are
 * kept on the stack in blocks, in f32 whatever the result's type; the last panel's block goes to C.
 *
 * Where somebody takes the result there is no C. Lines of A' are the task's own then, and a strip
 * of them is kept: the parts that are taken are rows, long runs of memory to the taker. A task's
 * lines are packed for all of K if they fit, so that a part's sums are finished before the next
 * begins.
 *
 * How K is cut depends on K alone, so tiles may be cut to suit the number of threads: no sum
 * crosses tiles. */
#include "base/threads.h"
#include "ops/matmul/gemm_engine.h"

enum {
    ALIGNMENT = 64,
    CACHE_LINE = 64,
    MAX_BLOCK = 32 * 32,
    MAX_OWN_BYTES = 224 * 256 * 4,
    MAX_TILE = 768 * 256,
    /* Where the result is taken: its part, what it is made of, and the least lines of a task. */
    MAX_PART = 768 * 32,
    MAX_TAKEN_OWN_BYTES = 512 << 10,
    MAX_CHUNK_BYTES = 512 << 10,
    LEAST_TAKEN_LINES = 96,
    /* Of a batch, so many bytes are packed at a time. */
    GROUP_BYTES = 16 << 20,
    PACKED_LINES = 128 /* by one task of packing */
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
    side shared, own;
    int64_t own_lines, shared_lines; /* of a tile at most */
    int64_t panel_depth;
    int64_t at_once;               /* a task packs its lines so deep before it multiplies them */
    int64_t part_strips;           /* shared ones of a part that is taken */
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

/* Numbers can be taken as long as a part's product goes on, which is longest if all of K is there;
 * for that a task takes fewer lines, but not too few. */
static void plan_parts(blocking *b) {
    const gemm_engine *e = b->engine;
    int64_t whole = round_up(b->p->k, b->panel_depth);
    int64_t lines = MAX_TAKEN_OWN_BYTES / (whole * e->element_bytes);
    if (lines < LEAST_TAKEN_LINES) {
        int64_t depth = MAX_TAKEN_OWN_BYTES / (b->own_lines * e->element_bytes);
        b->at_once = depth / b->panel_depth * b->panel_depth;
    } else {
        b->at_once = whole;
        b->own_lines = lines < b->own_lines ? lines : b->own_lines;
        b->shared_lines = b->shared.lines; /* there are no sums of a whole tile to be kept */
    }
    b->part_strips = MAX_CHUNK_BYTES / (b->at_once * b->shared.width * e->element_bytes);
    if (b->part_strips > MAX_PART / (b->own.width * b->shared.width))
        b->part_strips = MAX_PART / (b->own.width * b->shared.width);
    if (b->part_strips < 1)
        b->part_strips = 1;
}

static blocking make_blocking(const gemm_engine *e, const gemm_problem *p) {
    blocking b = {.p = p, .engine = e, .shares_a = p->m <= p->n && !p->taker};
    side rows = make_side(p->m, e->rows), columns = make_side(p->n, e->columns);
    b.shared = b.shares_a ? rows : columns;
    b.own = b.shares_a ? columns : rows;
    int64_t panels = count_of(p->k, e->panel_depth);
    b.panel_depth = round_up(count_of(p->k, panels), e->depth_step);
    b.packed_bytes = round_up(b.shared.strips * b.shared.width * round_up(p->k, e->depth_step) *
                                  e->element_bytes,
                              ALIGNMENT);
    b.batches = p->batches > 1 ? p->batches : 1;
    b.group = GROUP_BYTES / b.packed_bytes;
    if (b.group < 1)
        b.group = 1;
    if (b.group > b.batches)
        b.group = b.batches;
    b.own_lines = e->own_lines / b.own.width * b.own.width;
    b.shared_lines = e->shared_lines / b.shared.width * b.shared.width;
    b.at_once = b.panel_depth;
    if (p->taker)
        plan_parts(&b);
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
            pack(&from, count, depth, packed_at(b, batch, k, strip));
        }
    }
}

/* Asks for a block's memory while its sums are computed: a result is rarely in a cache, and stores
 * to lines that are not wait for them. */
static void ask_for_block(const gemm_target *to, int64_t rows, int64_t columns) {
    const char *row = to->data;
    int64_t bytes = columns * dtype_bytes(to->type), stride = to->ld * dtype_bytes(to->type);
    for (int64_t i = 0; i < rows; i++, row += stride)
        for (int64_t at = 0; at < bytes; at += CACHE_LINE)
            __builtin_prefetch(row + at, 0, 2);
}

/* A block's sums of the last panel: straight to C where C takes them as they are. `to` is the
 * whole of C or, where numbers are taken, `part` of it. */
static void write_block(const blocking *b, const gemm_target *c, const gemm_part *at,
                        const gemm_part *part, int64_t depth, const void *left, const void *right,
                        const float *start) {
    const gemm_engine *e = b->engine;
    gemm_target to = *c;
    int64_t row = part ? at->row - part->row : at->row;
    int64_t column = part ? at->column - part->column : at->column;
    to.data = (char *)c->data + (row * c->ld + column) * dtype_bytes(c->type);
    if (!part)
        ask_for_block(&to, at->rows, at->columns);
    if (to.type == DTYPE_F32 && to.alpha == 1 && !to.accumulates && at->rows == e->rows &&
        at->columns == e->columns) {
        e->multiply(depth, left, right, start, e->columns, to.data, to.ld);
        return;
    }
    _Alignas(ALIGNMENT) float sum[MAX_BLOCK];
    e->multiply(depth, left, right, start, e->columns, sum, e->columns);
    e->finish(&to, sum, e->columns, at->rows, at->columns);
}

/* What a task has on its stack. */
typedef struct tile_memory {
    unsigned char *own;   /* its packed lines, b->at_once deep */
    float *sums;          /* blocks between panels; NULL where K is one panel */
    unsigned char *parts; /* two parts of the result, where somebody takes it */
} tile_memory;

typedef struct tile_work {
    const blocking *b;
    tile at;
    tile_memory memory;
    bool keeps_own; /* the strip that stays in L1 is an own one, and shared ones pass by; or not */
    int64_t own_count, own_strips, shared_count, shared_strips;
} tile_work;

static tile_work make_work(const blocking *b, tile at, tile_memory memory) {
    const side *own = &b->own, *shared = &b->shared;
    tile_work w = {.b = b,
                   .at = at,
                   .memory = memory,
                   .keeps_own = !b->engine->keeps_columns || b->shares_a || b->p->taker};
    w.own_count = own->lines - at.own < own->tile ? own->lines - at.own : own->tile;
    w.shared_count =
        shared->lines - at.shared < shared->tile ? shared->lines - at.shared : shared->tile;
    w.own_strips = count_of(w.own_count, own->width);
    w.shared_strips = count_of(w.shared_count, shared->width);
    return w;
}

/* What goes on beside the multiplications of a part: the numbers of the last one are taken, and
 * this one's memory is asked for, a few rows at a time. So memory, the taker's arithmetic and the
 * product's overlap. */
typedef struct company {
    gemm_part last, now;
    gemm_target last_numbers, now_numbers;
    int64_t step, steps;
} company;

static gemm_part rows_of(const gemm_part *part, int64_t begin, int64_t end) {
    return (gemm_part){part->row + begin, part->column, end - begin, part->columns};
}

static void take_rows(const gemm_problem *p, const gemm_part *part, const gemm_target *numbers,
                      int64_t begin, int64_t end) {
    gemm_part rows = rows_of(part, begin, end);
    const char *from =
        (const char *)numbers->data + begin * numbers->ld * dtype_bytes(numbers->type);
    if (begin < end)
        p->taker->take(p->taker->context, &rows, from, numbers->ld);
}

static void keep_company(const gemm_problem *p, company *c) {
    int64_t done = c->step++;
    gemm_part coming =
        rows_of(&c->now, c->now.rows * done / c->steps, c->now.rows * (done + 1) / c->steps);
    p->taker->ask(p->taker->context, &coming);
    take_rows(p, &c->last, &c->last_numbers, c->last.rows * done / c->steps,
              c->last.rows * (done + 1) / c->steps);
}

/* One strip that is kept, and those of the other side from `first` on, over K from `begin` to
 * `end`, which is packed. */
typedef struct part_work {
    int64_t kept, first, count, begin, end;
    float *sums;
} part_work;

/* The rows and columns of a part whose result is taken: own strips are kept there, which are rows.
 */
static gemm_part place_of(const tile_work *w, const part_work *part) {
    int64_t row = part->kept * w->b->own.width, column = part->first * w->b->shared.width;
    int64_t rows = w->own_count - row, columns = w->shared_count - column;
    int64_t most = part->count * w->b->shared.width;
    return (gemm_part){.row = w->at.own + row,
                       .column = w->at.shared + column,
                       .rows = rows < w->b->own.width ? rows : w->b->own.width,
                       .columns = columns < most ? columns : most};
}

/* `c` is NULL where nobody takes what is made; else `to` is only as large as the part. */
static void run_part(const tile_work *w, const part_work *part, const gemm_target *to, company *c) {
    const blocking *b = w->b;
    const gemm_engine *e = b->engine;
    for (int64_t k = part->begin; k < part->end; k += b->panel_depth) {
        bool is_last = k + b->panel_depth >= b->p->k;
        int64_t depth = round_up(is_last ? b->p->k - k : b->panel_depth, e->depth_step);
        int64_t own_bytes = b->own.width * depth * e->element_bytes;
        int64_t shared_bytes = b->shared.width * depth * e->element_bytes;
        const unsigned char *own_panel =
            w->memory.own + (k - part->begin) * w->own_strips * b->own.width * e->element_bytes;
        const unsigned char *panel = packed_at(b, w->at.batch, k, w->at.shared / b->shared.width);
        for (int64_t n = 0; n < part->count; n++) {
            int64_t i = w->keeps_own ? part->kept : part->first + n;
            int64_t j = w->keeps_own ? part->first + n : part->kept;
            const void *mine = own_panel + i * own_bytes, *theirs = panel + j * shared_bytes;
            const void *left = b->shares_a ? theirs : mine;
            const void *right = b->shares_a ? mine : theirs;
            int64_t own_at = w->at.own + i * b->own.width;
            int64_t shared_at = w->at.shared + j * b->shared.width;
            float *block = part->sums ? part->sums + n * e->rows * e->columns : NULL;
            const float *start = k ? block : NULL;
            gemm_part at = {.row = b->shares_a ? shared_at : own_at,
                            .column = b->shares_a ? own_at : shared_at};
            at.rows = b->p->m - at.row < e->rows ? b->p->m - at.row : e->rows;
            at.columns = b->p->n - at.column < e->columns ? b->p->n - at.column : e->columns;
            if (is_last)
                write_block(b, to, &at, c ? &c->now : NULL, depth, left, right, start);
            else
                e->multiply(depth, left, right, start, e->columns, block, e->columns);
            if (c)
                keep_company(b->p, c);
        }
    }
}

static void pack_own(const tile_work *w, int64_t begin, int64_t end) {
    const blocking *b = w->b;
    gemm_pack *pack = b->shares_a ? b->engine->pack_b : b->engine->pack_a;
    for (int64_t k = begin; k < end; k += b->panel_depth) {
        gemm_lines from = lines_of(b, !b->shares_a, w->at.batch, w->at.own, k);
        pack(&from, w->own_count, end - k < b->panel_depth ? end - k : b->panel_depth,
             w->memory.own + (k - begin) * w->own_strips * b->own.width * b->engine->element_bytes);
    }
}

static company next_part(const company *c, const tile_work *w, const part_work *part,
                         int64_t turn) {
    const gemm_problem *p = w->b->p;
    gemm_part now = place_of(w, part);
    return (company){
        .last = c->now,
        .last_numbers = c->now_numbers,
        .now = now,
        .now_numbers = {.data = w->memory.parts + turn % 2 * MAX_PART * (int64_t)sizeof(float),
                        .type = p->c_type,
                        .ld = round_up(now.columns, w->b->engine->columns),
                        .alpha = p->alpha},
        .steps = part->count * count_of(part->end - part->begin, w->b->panel_depth)};
}

static void run_tile(const blocking *b, tile at, tile_memory memory) {
    const gemm_problem *p = b->p;
    tile_work w = make_work(b, at, memory);
    int64_t kept = w.keeps_own ? w.own_strips : w.shared_strips;
    int64_t passing = w.keeps_own ? w.shared_strips : w.own_strips;
    int64_t chunk = p->taker ? b->part_strips : passing;
    gemm_target result = {.data = p->c,
                          .type = p->c_type,
                          .ld = p->ldc,
                          .alpha = p->alpha,
                          .accumulates = p->accumulates};
    if (!p->taker)
        result.data = (char *)p->c + offsets_of(b, at.batch).c * dtype_bytes(p->c_type);
    company c = {0};
    for (int64_t k = 0; k < p->k; k += b->at_once) {
        part_work part = {.begin = k, .end = p->k - k < b->at_once ? p->k : k + b->at_once};
        bool is_taken = p->taker && part.end == p->k;
        pack_own(&w, part.begin, part.end);
        for (int64_t i = 0; i < kept * count_of(passing, chunk); i++) {
            part.kept = i % kept;
            part.first = i / kept * chunk;
            part.count = passing - part.first < chunk ? passing - part.first : chunk;
            /* Blocks of one part are enough where all of K is gone through at once. */
            int64_t blocks = b->at_once < p->k ? part.kept * passing + part.first : 0;
            part.sums =
                memory.sums ? memory.sums + blocks * b->engine->rows * b->engine->columns : NULL;
            if (is_taken)
                c = next_part(&c, &w, &part, i);
            run_part(&w, &part, is_taken ? &c.now_numbers : &result, is_taken ? &c : NULL);
        }
    }
    if (p->taker)
        take_rows(p, &c.now, &c.now_numbers, 0, c.now.rows);
}

/* Several functions, so that the many small products of attention, whose K is one panel, do not pay
 * for a large stack: compilers may touch each page of it. */
__attribute__((noinline)) static void run_tile_of_one_panel(const blocking *b, tile at) {
    _Alignas(ALIGNMENT) unsigned char own[MAX_OWN_BYTES];
    run_tile(b, at, (tile_memory){.own = own});
}

__attribute__((noinline)) static void run_tile_of_panels(const blocking *b, tile at) {
    _Alignas(ALIGNMENT) unsigned char own[MAX_OWN_BYTES];
    _Alignas(ALIGNMENT) float sums[MAX_TILE];
    run_tile(b, at, (tile_memory){.own = own, .sums = sums});
}

__attribute__((noinline)) static void run_taken_tile(const blocking *b, tile at) {
    _Alignas(ALIGNMENT) unsigned char own[MAX_TAKEN_OWN_BYTES];
    _Alignas(ALIGNMENT) float sums[MAX_TILE];
    _Alignas(ALIGNMENT) unsigned char parts[2 * MAX_PART * sizeof(float)];
    run_tile(b, at, (tile_memory){.own = own, .sums = sums, .parts = parts});
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
        if (b->p->taker)
            run_taken_tile(b, at);
        else if (b->p->k <= b->panel_depth)
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
    int64_t least_shared = count_of(b->shared.lines, b->shared_lines);
    int64_t threads = threads_count(), best = INT64_MAX;
    side own = b->own, shared = b->shared;
    int tries = b->group < 4 * threads ? TRIES : 1;
    for (int i = 0; i < tries; i++)
        for (int j = 0; j < tries; j++) {
            cut(&own, least_own + i);
            cut(&shared, least_shared + j);
            int64_t turns = count_of(b->group * own.tiles * shared.tiles, threads);
            int64_t time = turns * own.tile * (shared.tile + e->packing_weight);
            if (time < best) {
                best = time;
                b->own = own;
                b->shared = shared;
            }
        }
}

size_t gemm_blocked_workspace_bytes(const gemm_engine *e, const gemm_problem *p) {
    blocking b = make_blocking(e, p);
    return (size_t)(b.group * b.packed_bytes) + ALIGNMENT;
}

void gemm_blocked_run(const gemm_engine *e, const gemm_problem *p, void *workspace) {
    blocking b = make_blocking(e, p);
    b.packed =
        (unsigned char *)(((uintptr_t)workspace + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    choose_tiles(&b);
    int64_t chunks = count_of(b.shared.strips, PACKED_LINES / b.shared.width);
    for (b.first = 0; b.first < b.batches; b.first += b.group) {
        int64_t now = b.batches - b.first < b.group ? b.batches - b.first : b.group;
        threads_for_each(now * chunks, pack_shared, &b);
        threads_for_each(now * b.own.tiles * b.shared.tiles, run_tasks, &b);
    }
}
