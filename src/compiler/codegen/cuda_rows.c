/* cuda_rows.c - how a generated kernel that works on rows finds its row, and loads its operands
 * into registers.
 *
 * A block that processes several rows may prefetch the next row before it computes this one
 * (cuda_geometry.prefetches_rows). That is correct although outputs may alias operands: an output
 * aliases the same element of an operand, and no other row's. */
#include "compiler/codegen/cuda_renderer.h"

static const char *pragma(const cuda_renderer *r) {
    bool holds_columns = false;
    for (int i = 0; i < r->k->member_count; i++)
        holds_columns = holds_columns || r->k->members[i].kind == FUSION_BLOCK_REDUCE;
    return r->g.is_streamed && !holds_columns ? "#pragma unroll 2" : "#pragma unroll";
}

void cuda_open_chunks(const cuda_renderer *r, const char *indent) {
    const cuda_geometry *g = &r->g;
    const char *type = cuda_index_type(r->k->columns + (int64_t)g->lanes * g->vector);
    text_format(r->out,
                "%s\n%sfor (int i = 0; i < %lld; i++) {\n"
                "%s    const %s column = (i * (%s)%d + lane) * %d;\n"
                "%s    (void)column;\n",
                pragma(r), indent, (long long)g->chunks, indent, type, type, g->lanes, g->vector,
                indent);
    if (g->chunks * g->lanes * g->vector != r->k->columns)
        text_format(r->out, "%s    if (column >= %lld)\n%s        continue;\n", indent,
                    (long long)r->k->columns, indent);
}

/* ---- loads ---- */

static bool is_of_row(const cuda_renderer *r, int operand) {
    cuda_access a = cuda_operand_access(r, operand);
    return cuda_is_of_row(r, &a);
}

/* Row by row: the same operands serve every row of a block if no row is unlike another. */
static bool is_hoisted(const cuda_renderer *r, int operand) {
    cuda_access a = cuda_operand_access(r, operand);
    return r->g.rows_a_lane > 1 && !r->g.is_streamed && r->g.loads_early &&
           !cuda_is_of_row(r, &a) && cuda_is_same_in_rows(a.rank, a.dim, a.stride);
}

static bool is_loaded_at(const cuda_renderer *r, int operand, int stage, bool hoisted) {
    int first = cuda_first_stage(r->k, operand);
    return !is_of_row(r, operand) && is_hoisted(r, operand) == hoisted &&
           (r->g.loads_early ? stage == 0 : first == stage);
}

static void load_chunks(const cuda_renderer *r, int stage, bool hoisted, const char *indent) {
    bool any = false;
    for (int i = 0; i < r->k->operand_count; i++)
        any = any || is_loaded_at(r, i, stage, hoisted);
    if (!any)
        return;
    cuda_open_chunks(r, indent);
    for (int i = 0; i < r->k->operand_count; i++)
        if (is_loaded_at(r, i, stage, hoisted)) {
            text_append(r->out, indent);
            cuda_render_load(r, i, "    ");
        }
    text_format(r->out, "%s}\n", indent);
}

static void declare_raws(const cuda_renderer *r, int stage, bool hoisted, const char *indent) {
    for (int i = 0; i < r->k->operand_count; i++)
        if (is_loaded_at(r, i, stage, hoisted))
            cuda_declare_raw(r, i, r->g.chunks, indent);
}

void cuda_render_loads(const cuda_renderer *r, int stage) {
    if (r->g.is_streamed || r->g.prefetches_rows)
        return;
    declare_raws(r, stage, false, "        ");
    load_chunks(r, stage, false, "        ");
}

static void render_hoisted(const cuda_renderer *r) {
    for (int i = 0; i < r->k->operand_count; i++)
        if (is_hoisted(r, i))
            text_format(r->out, "    const %s *row%d = in%d;\n",
                        cuda_stored_type(cuda_operand_access(r, i).type), i, i);
    declare_raws(r, 0, true, "    ");
    load_chunks(r, 0, true, "    ");
}

/* ---- where the row is ---- */

static void render_place(const cuda_renderer *r, const char *step, const char *indent) {
    const cuda_geometry *g = &r->g;
    const char *type = cuda_index_type(g->units * g->groups * g->rows_a_lane);
    text_format(r->out, "%sconst %s r = (blockIdx.x * (%s)%lld + %s) * %d + group;\n%s(void)r;\n",
                indent, type, type, (long long)g->rows_a_lane, step, g->groups, indent);
}

static void render_which_row(const cuda_renderer *r) {
    const cuda_geometry *g = &r->g;
    const char *type = cuda_index_type(g->units * g->groups);
    long long rows = (long long)r->k->rows;
    text *out = r->out;
    if (g->rows_a_lane > 1) {
        text_format(out, "#pragma unroll 1\n    for (int step = 0; step < %lld; step++) {\n",
                    (long long)g->rows_a_lane);
        render_place(r, "step", "        ");
    } else if (r->is_guarded) {
        text_format(out,
                    "    {\n        const %s place = blockIdx.x * (%s)%d + group;\n"
                    "        const bool is_mine = place < %lld;\n"
                    "        const %s r = is_mine ? place : %lld;\n        (void)r;\n",
                    type, type, g->groups, rows, type, rows - 1);
    } else {
        text_format(out,
                    "    {\n        const %s r = blockIdx.x * (%s)%d + group;\n        (void)r;\n",
                    type, type, g->groups);
    }
    if (g->lanes > 32)
        text_append(out, g->rows_a_lane > 1
                             ? "        const unsigned slot = group * 2 + step % 2;\n"
                               "        (void)slot;\n"
                             : "        const unsigned slot = group;\n        (void)slot;\n");
}

/* Where the row begins in the operands' memory. */
static void render_row_operands(const cuda_renderer *r, const char *indent) {
    for (int i = 0; i < r->k->operand_count; i++) {
        if (is_hoisted(r, i))
            continue;
        cuda_access a = cuda_operand_access(r, i);
        text_format(r->out, "%sconst %s *row%d = in%d + (", indent, cuda_stored_type(a.type), i, i);
        cuda_append_row_offset(r, &a);
        text_append(r->out, ");\n");
    }
}

static void render_row_outputs(const cuda_renderer *r) {
    for (int i = 0; i < r->k->output_count; i++) {
        cuda_access a = cuda_output_access(r, i);
        if (!cuda_is_full(&r->k->members[r->k->outputs[i].member]))
            continue;
        text_format(r->out, "        %s *to%d = out%d + (", cuda_stored_type(a.type), i, i);
        cuda_append_row_offset(r, &a);
        text_append(r->out, ");\n");
    }
}

/* Numbers of the row that are read. */
static void render_row_numbers(const cuda_renderer *r) {
    for (int i = 0; i < r->k->operand_count; i++) {
        if (!is_of_row(r, i))
            continue;
        dtype type = r->k->operands[i].type;
        text_format(r->out, "        unsigned word%d[1];\n        ", i);
        if (r->g.prefetches_rows)
            text_format(r->out, "word%d[0] = ahead%d[0][0];\n", i, i);
        else
            text_format(r->out, "fetch<%d, %d>(word%d, row%d);\n", dtype_bytes(type),
                        dtype_bytes(type), i, i);
        text_format(r->out, "        const %s x%d = load_%s(word%d, 0);\n",
                    cuda_register_type(type), i, dtype_name(type), i);
    }
}

/* ---- prefetch of the next row ---- */

static bool is_ahead(const cuda_renderer *r, int operand) { return !is_hoisted(r, operand); }

static cuda_renderer with_raw(const cuda_renderer *r, const char *raw, const char *at) {
    cuda_renderer other = *r;
    other.raw = raw;
    other.at = at;
    return other;
}

/* The row of a step, in a scope of its own. */
static void load_ahead(const cuda_renderer *r, const char *step, const char *indent) {
    cuda_renderer ahead = with_raw(r, "ahead", "i"), single = with_raw(r, "ahead", "0");
    render_place(r, step, indent);
    render_row_operands(r, indent);
    for (int i = 0; i < r->k->operand_count; i++)
        if (is_of_row(r, i))
            cuda_render_load(&single, i, indent);
    load_chunks(&ahead, 0, false, indent);
}

static void begin_ahead(const cuda_renderer *r) {
    cuda_renderer ahead = with_raw(r, "ahead", "i");
    for (int i = 0; i < r->k->operand_count; i++)
        if (is_ahead(r, i))
            cuda_declare_raw(&ahead, i, is_of_row(r, i) ? 1 : r->g.chunks, "    ");
    text_append(r->out, "    {\n");
    load_ahead(r, "0", "        ");
    text_append(r->out, "    }\n");
}

static void take_ahead(const cuda_renderer *r) {
    declare_raws(r, 0, false, "        ");
    for (int i = 0; i < r->k->operand_count; i++)
        if (is_loaded_at(r, i, 0, false))
            text_format(r->out, "        take(raw%d, ahead%d);\n", i, i);
    render_row_numbers(r);
    text_format(r->out, "        if (step + 1 < %lld) {\n", (long long)r->g.rows_a_lane);
    load_ahead(r, "step + 1", "            ");
    text_append(r->out, "        }\n");
}

void cuda_open_rows(const cuda_renderer *r) {
    render_hoisted(r);
    if (r->g.prefetches_rows)
        begin_ahead(r);
    render_which_row(r);
    if (r->g.prefetches_rows) {
        take_ahead(r);
    } else {
        render_row_operands(r, "        ");
        render_row_numbers(r);
    }
    render_row_outputs(r);
}
