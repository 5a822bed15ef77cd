/* lower_group.c - lowers a fused group to one generated launch.
 *
 * What the group reads from outside becomes an operand with the strides of its view; what is read
 * outside becomes an output; everything else stays in registers or in a row buffer. Groups that
 * render to the same source share one kernel: the layers of a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "compiler/codegen/fused_kernel.h"
#include "compiler/lower/lowering.h"
#include "graph/op.h"

void lower_find_escapes(lowering *l) {
    const graph *g = l->g;
    l->escapes = memory_allocate((size_t)g->value_count, sizeof *l->escapes);
    bool *is_read = memory_allocate((size_t)g->value_count, sizeof *is_read);
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        if (n->op->view)
            continue;
        for (int j = 0; j < n->input_count; j++) {
            const value *root = fusion_root_of(n->inputs[j]);
            is_read[root->id] = true;
            if (root->producer && root->producer->group != n->group)
                l->escapes[root->id] = true;
        }
    }
    /* Outputs without a reader are kept so that tests can inspect them, as in eager mode. */
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->group && !is_read[g->nodes[i]->outputs[0]->id])
            l->escapes[g->nodes[i]->outputs[0]->id] = true;
    free(is_read);
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        if (v->is_output || v->role == ROLE_GRADIENT)
            l->escapes[fusion_root_of(v)->id] = true;
    }
}

void lower_find_memory_reads(lowering *l) {
    const graph *g = l->g;
    l->is_read_from_memory = memory_allocate((size_t)g->value_count, sizeof(bool));
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        for (int j = 0; !n->op->view && !n->group && j < n->input_count; j++)
            l->is_read_from_memory[fusion_root_of(n->inputs[j])->id] = true;
    }
}

bool lower_is_inlined_constant(const lowering *l, const node *n) {
    if (n->op->view && !n->outputs[0]->is_output)
        n = fusion_root_of(n->outputs[0])->producer;
    if (!n || !n->op->is_literal || n->outputs[0]->is_output)
        return false;
    return !l->is_read_from_memory[n->outputs[0]->id];
}

/* ---- from nodes to a fused kernel ---- */

typedef struct group_builder {
    lowering *l;
    const node **members;
    int count;
    fusion_space space;
    fused_kernel k;
    plan_operand *operands; /* beside k.operands */
    int operand_capacity, kernel_operand_capacity;
} group_builder;

static int member_of(const group_builder *b, const value *v) {
    for (int i = 0; i < b->count; i++)
        if (b->members[i]->outputs[0] == v)
            return i;
    return -1;
}

/* How the rows lie, the last dimension being the columns. Returns the rank. */
static int describe_rows(const tensor *layout, int64_t *dim, int64_t *stride) {
    tensor rows = *layout;
    if (--rows.shape.rank <= 0)
        return 0;
    tensor_collapse(&rows, 1);
    for (int i = 0; i < rows.shape.rank; i++) {
        dim[i] = rows.shape.dim[i];
        stride[i] = rows.stride[i];
    }
    return rows.shape.rank;
}

static fused_operand describe_operand(const tensor *layout) {
    fused_operand o = {.type = layout->type};
    int rank = layout->shape.rank;
    if (rank && layout->shape.dim[rank - 1] > 1)
        o.column_stride = layout->stride[rank - 1];
    o.row_rank = describe_rows(layout, o.row_dim, o.row_stride);
    return o;
}

static bool same_operand(const fused_operand *a, const fused_operand *b) {
    if (a->type != b->type || a->row_rank != b->row_rank || a->column_stride != b->column_stride)
        return false;
    for (int i = 0; i < a->row_rank; i++)
        if (a->row_dim[i] != b->row_dim[i] || a->row_stride[i] != b->row_stride[i])
            return false;
    return true;
}

/* The alignment of an offset in a buffer: buffers themselves are aligned for every vector. */
static int alignment_of(int64_t offset) {
    int alignment = 16;
    while (offset % alignment != 0)
        alignment /= 2;
    return alignment;
}

static int add_operand(group_builder *b, const value *v) {
    const plan_operand *placed = &b->l->placed[v->id];
    fused_operand o = describe_operand(&placed->layout);
    o.alignment = alignment_of(placed->offset);
    for (int i = 0; i < b->k.operand_count; i++)
        if (b->operands[i].buffer == placed->buffer && b->operands[i].offset == placed->offset &&
            same_operand(&b->k.operands[i], &o))
            return i;
    MEMORY_GROW(b->operands, b->k.operand_count, b->operand_capacity);
    b->operands[b->k.operand_count] = *placed;
    MEMORY_GROW(b->k.operands, b->k.operand_count, b->kernel_operand_capacity);
    b->k.operands[b->k.operand_count] = o;
    return b->k.operand_count++;
}

static fused_read describe_read(group_builder *b, const node *n, int index) {
    const value *root = fusion_root_of(n->inputs[index]);
    if (root->producer && root->producer->op->is_literal)
        return (fused_read){.source = FUSED_LITERAL,
                            .literal = attribute_real(&root->producer->attributes, "number")};
    fusion_read read = fusion_read_of(n, index, b->space);
    int member = member_of(b, read.source);
    if (member >= 0)
        return (fused_read){.source = FUSED_MEMBER, .index = member};
    return (fused_read){.source = FUSED_OPERAND, .index = add_operand(b, n->inputs[index])};
}

static void describe_members(group_builder *b) {
    for (int i = 0; i < b->count; i++) {
        const node *n = b->members[i];
        const attribute *s = attribute_find(&n->attributes, "s");
        fused_member *m = &b->k.members[i];
        *m = (fused_member){.op_name = n->op->name,
                            .kind = fusion_kind_of(n),
                            .expression = n->op->expression,
                            .s = s && s->kind == ATTRIBUTE_REAL ? s->real : 0,
                            .reduction = n->op->reduction,
                            .type = n->outputs[0]->type,
                            .output = -1,
                            .read_count = n->input_count};
        m->is_row = m->kind == FUSION_ROW_REDUCE ||
                    (m->kind == FUSION_ELEMENTWISE && fusion_is_row_value(n->outputs[0], b->space));
        if (m->kind == FUSION_BLOCK_REDUCE)
            b->k.rows_per_unit = n->inputs[0]->shape.dim[1];
        for (int j = 0; j < n->input_count; j++)
            m->reads[j] = describe_read(b, n, j);
        if (b->l->escapes[n->outputs[0]->id]) {
            m->output = b->k.output_count;
            b->k.outputs[b->k.output_count++] = (fused_output){.type = m->type, .member = i};
        }
    }
}

/* ---- the launch ---- */

/* An op that is generated by itself, as in eager mode on a GPU, is not fused. */
static const char *class_of_group(const group_builder *b) {
    bool reduces = false;
    if (b->count == 1)
        return op_class_name(b->members[0]->op->class);
    for (int i = 0; i < b->count; i++)
        reduces = reduces || b->k.members[i].kind != FUSION_ELEMENTWISE;
    return reduces ? "fused rows" : "fused element-wise";
}

/* What a kernel is called until its source is known, of which its name is the hash. */
static const char NAMELESS[] = "KERNEL";

static void append_named(const char *body, const char *symbol, text *out) {
    for (const char *next; (next = strstr(body, NAMELESS)); body = next + strlen(NAMELESS)) {
        text_append_bytes(out, body, (size_t)(next - body));
        text_append(out, symbol);
    }
    text_append(out, body);
}

/* The index of the kernel with this source in the plan, to which a new one is appended. */
static int add_generated(group_builder *b, const renderer *language, const text *body) {
    lowering *l = b->l;
    plan *p = l->p;
    char symbol[HASH_TEXT_BYTES + 8];
    snprintf(symbol, sizeof symbol, "dyno_%s", hash_text(body->data, body->length).text);
    for (int i = 0; i < p->generated_count; i++)
        if (strcmp(p->generated[i].symbol, symbol) == 0)
            return i;
    if (l->source.length == 0)
        text_append(&l->source, language->prelude());
    append_named(text_string(body), symbol, &l->source);
    MEMORY_GROW(p->generated, p->generated_count, p->generated_capacity);
    fused_launch how = language->describe_launch(&b->k);
    p->generated[p->generated_count] = (plan_generated){
        .symbol = arena_copy_string(p->memory, symbol), .units = how.units, .threads = how.threads};
    return p->generated_count++;
}

/* "cast+multiply" */
static const char *name_ops(const group_builder *b) {
    text names = {0};
    for (int i = 0; i < b->count; i++) {
        text_append(&names, i ? "+" : "");
        text_append(&names, b->members[i]->op->name);
    }
    const char *kept = arena_copy_string(b->l->p->memory, text_string(&names));
    text_release(&names);
    return kept;
}

static const known_kernel *find_kernel(group_builder *b) {
    kernel_memo *memo = &b->l->kernels_made;
    const known_kernel *known = kernel_memo_find(memo, &b->k);
    if (known)
        return known;
    const renderer *language = renderer_of(b->l->target);
    text body = {0};
    language->render(&b->k, NAMELESS, &body);
    int generated = add_generated(b, language, &body);
    text_release(&body);
    return kernel_memo_add(memo, &b->k, generated, name_ops(b));
}

/* The last stage in which an operand is read. */
static int last_read(const fused_kernel *k, int operand) {
    int last = 0;
    for (int i = 0; i < k->member_count; i++)
        for (int j = 0; j < k->members[i].read_count; j++)
            if (k->members[i].reads[j].source == FUSED_OPERAND &&
                k->members[i].reads[j].index == operand && k->members[i].stage > last)
                last = k->members[i].stage;
    return last;
}

static bool same_rows(const fused_output *a, const fused_operand *b) {
    bool same = a->row_rank == b->row_rank;
    for (int i = 0; i < a->row_rank && same; i++)
        same = a->row_dim[i] == b->row_dim[i] &&
               (a->row_dim[i] == 1 || a->row_stride[i] == b->row_stride[i]);
    return same;
}

/* A full output may take over an operand of its type and layout that is not read any later. */
static uint64_t overwritable(const group_builder *b, int output) {
    const fused_kernel *k = &b->k;
    const fused_member *m = &k->members[k->outputs[output].member];
    uint64_t bits = 0;
    if (m->is_row || m->kind != FUSION_ELEMENTWISE)
        return 0;
    if (m->stage + 1 < k->stage_count && renderer_of(b->l->target)->describe_launch(k).reads_again)
        return 0;
    for (int i = 0; i < k->operand_count && i < 64; i++) {
        const fused_operand *o = &k->operands[i];
        bool is_full =
            (o->column_stride == 1 || k->columns == 1) && same_rows(&k->outputs[output], o);
        if (is_full && o->type == m->type && last_read(k, i) <= m->stage)
            bits |= (uint64_t)1 << i;
    }
    return bits;
}

static double stored_bytes(const tensor *t) {
    double elements = 1;
    for (int i = 0; i < t->shape.rank; i++)
        if (t->stride[i] != 0)
            elements *= (double)t->shape.dim[i];
    return elements * dtype_bytes(t->type);
}

static void emit_launch(group_builder *b, const plan_operand *outputs) {
    plan *p = b->l->p;
    const node *last = b->members[b->count - 1];
    const known_kernel *made = find_kernel(b);
    int index = p->launch_count;
    plan_launch *launch = plan_add_launch(p, b->k.operand_count, b->k.output_count);
    if (b->k.operand_count)
        memcpy(launch->inputs, b->operands, (size_t)b->k.operand_count * sizeof *b->operands);
    memcpy(launch->outputs, outputs, (size_t)b->k.output_count * sizeof *outputs);
    launch->generated = made->generated;
    launch->kernel_name = p->generated[made->generated].symbol;
    launch->op_name = made->op_name;
    launch->class_name = class_of_group(b);
    launch->scope = last->scope;
    launch->phase = last->phase;
    for (int i = 0; i < b->count; i++)
        launch->flops += b->members[i]->op->cost(b->members[i]).flops;
    for (int i = 0; i < b->k.operand_count; i++)
        launch->bytes_read += stored_bytes(&b->operands[i].layout);
    for (int i = 0; i < b->k.output_count; i++) {
        launch->bytes_written += stored_bytes(&outputs[i].layout);
        launch->overwrites[i] = overwritable(b, i);
    }
    lowering_touch(b->l, launch->inputs, launch->input_count, index);
    lowering_touch(b->l, launch->outputs, launch->output_count, index);
}

dyno_status lower_group(lowering *l, int begin, int end) {
    const graph *g = l->g;
    size_t most = (size_t)(end - begin);
    group_builder b = {.l = l, .members = memory_allocate(most, sizeof(node *))};
    for (int i = begin; i < end; i++) {
        const node *n = g->nodes[i];
        if (!n->group) { /* a view: of something outside it is placed now */
            const node *from = fusion_root_of(n->inputs[0])->producer;
            if (!from || from->group != g->nodes[begin]->group)
                lowering_place_view(l, n);
            continue;
        }
        b.members[b.count++] = n;
        fusion_space s = fusion_space_of(n);
        if (s.columns > b.space.columns || b.space.rows == 0)
            b.space = s;
    }
    b.k = (fused_kernel){.rows = b.space.rows,
                         .columns = b.space.columns,
                         .members = memory_allocate(most, sizeof(fused_member)),
                         .member_count = b.count,
                         .outputs = memory_allocate(most, sizeof(fused_output))};
    describe_members(&b);
    fused_kernel_arrange(&b.k);
    plan_operand *outputs = memory_allocate(most, sizeof *outputs);
    for (int i = 0; i < b.k.output_count; i++) {
        const value *v = b.members[b.k.outputs[i].member]->outputs[0];
        outputs[i] = lowering_place_output(l, v, b.members[b.count - 1]->scope, l->p->launch_count);
        l->placed[v->id] = outputs[i];
        lowering_adopt_role(l, v);
        fused_output *o = &b.k.outputs[i];
        o->row_rank = describe_rows(&outputs[i].layout, o->row_dim, o->row_stride);
        o->alignment = alignment_of(outputs[i].offset);
    }
    if (b.k.output_count)
        emit_launch(&b, outputs);
    for (int i = begin; i < end; i++) {
        const node *n = g->nodes[i];
        if (n->group)
            continue;
        const value *root = fusion_root_of(n->inputs[0]);
        if (root->producer && root->producer->group == g->nodes[begin]->group &&
            l->escapes[root->id])
            lowering_place_view(l, n);
    }
    free(outputs);
    free(b.members);
    free(b.operands);
    free(b.k.members);
    free(b.k.operands);
    free(b.k.outputs);
    return DYNO_OK;
}
