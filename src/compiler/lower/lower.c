/* lower.c - decides which memory each value has and which kernel computes it.
 *
 * A value is placed in a buffer with a layout. Views share their input's buffer with other strides;
 * in-place outputs take over their input's; some are produced inside another value's buffer;
 * everything else gets a buffer of its own.
 * A buffer lives from the first launch that writes it to the last that uses any value in it. */
#include "compiler/lower/lower.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/codegen/fused_kernel.h"
#include "compiler/lower/lowering.h"
#include "graph/graph_parameter.h"
#include "graph/op.h"
#include "ops/op_list.h"

static int new_buffer(lowering *l, const value *v, int scope, int born) {
    tensor dense = tensor_contiguous(NULL, v->type, &v->shape);
    plan_buffer buffer = {.bytes = tensor_bytes(&dense),
                          .role = v->role,
                          .type = v->type,
                          .shape = v->shape,
                          .name = v->name ? arena_copy_string(l->p->memory, v->name) : NULL,
                          .scope = scope,
                          .born = born,
                          .last_used = born,
                          .is_persistent = born < 0};
    return plan_add_buffer(l->p, &buffer);
}

plan_operand lowering_place_dense(lowering *l, const value *v, int scope, int born) {
    return (plan_operand){.buffer = new_buffer(l, v, scope, born),
                          .layout = tensor_contiguous(NULL, v->type, &v->shape)};
}

plan_operand lowering_place_output(lowering *l, const value *v, int scope, int born) {
    const placement *at = l->wanted ? &l->wanted[v->id] : NULL;
    if (!at || !at->owner)
        return lowering_place_dense(l, v, scope, born);
    plan_operand *owner = &l->placed[at->owner->id];
    if (!l->is_begun[at->owner->id])
        *owner = lowering_place_dense(l, at->owner, scope, born);
    l->is_begun[at->owner->id] = true;
    return (plan_operand){
        .buffer = owner->buffer, .offset = at->offset * dtype_bytes(v->type), .layout = at->layout};
}

void lowering_adopt_role(lowering *l, const value *v) {
    plan_buffer *b = &l->p->buffers[l->placed[v->id].buffer];
    if (b->role == ROLE_ACTIVATION && (v->role == ROLE_SAVED || v->role == ROLE_GRADIENT))
        b->role = v->role;
    if (v->name && !b->name)
        b->name = arena_copy_string(l->p->memory, v->name);
}

bool lowering_place_view(lowering *l, const node *n) {
    plan_operand source = l->placed[n->inputs[0]->id];
    for (int i = 0; i < n->output_count; i++) {
        tensor view;
        int64_t offset = 0;
        if (!n->op->view(n, i, &source.layout, &view, &offset))
            return false;
        l->placed[n->outputs[i]->id] = (plan_operand){
            .buffer = source.buffer,
            .offset = source.offset + offset * dtype_bytes(view.type),
            .repeat_bytes = n->op->advances ? tensor_bytes(&view) : source.repeat_bytes,
            .layout = view};
        lowering_adopt_role(l, n->outputs[i]);
    }
    return true;
}

static uint64_t offset_bits(const plan_operand *operands, int count) {
    uint64_t bits = 0;
    for (int i = 0; i < count; i++)
        bits |= (uint64_t)operands[i].offset;
    return bits;
}

static void layouts(const plan_operand *operands, int count, tensor *out) {
    for (int i = 0; i < count; i++)
        out[i] = operands[i].layout;
}

static attributes copy_attributes(plan *p, const attributes *from) {
    attributes list = {from->count,
                       arena_allocate(p->memory, (size_t)from->count, sizeof(attribute))};
    for (int i = 0; i < from->count; i++) {
        list.items[i] = from->items[i];
        list.items[i].name = arena_copy_string(p->memory, from->items[i].name);
    }
    return list;
}

void lowering_touch(lowering *l, const plan_operand *operands, int count, int launch) {
    for (int i = 0; i < count; i++) {
        plan_buffer *b = &l->p->buffers[operands[i].buffer];
        if (!b->is_persistent && b->last_used < launch)
            b->last_used = launch;
    }
}

static void emit(lowering *l, const node *n, const kernel_choice *chosen, kernel_args *args,
                 const plan_operand *inputs, const plan_operand *outputs) {
    plan *p = l->p;
    const kernel *k = chosen->kernel;
    if (chosen->variant.name[0])
        args->variant = arena_copy_string(p->memory, chosen->variant.name);
    int index = p->launch_count;
    size_t scratch = k->workspace_bytes ? k->workspace_bytes(args) : 0;
    int workspace = -1;
    if (scratch) {
        plan_buffer buffer = {.bytes = (int64_t)scratch,
                              .role = ROLE_WORKSPACE,
                              .type = DTYPE_U8,
                              .shape = SHAPE((int64_t)scratch),
                              .scope = n->scope,
                              .born = index,
                              .last_used = index};
        workspace = plan_add_buffer(p, &buffer);
    }
    op_cost cost = n->op->cost(n);
    plan_launch *launch = plan_add_launch(p, args->input_count, args->output_count);
    if (args->input_count)
        memcpy(launch->inputs, inputs, (size_t)args->input_count * sizeof *inputs);
    memcpy(launch->outputs, outputs, (size_t)args->output_count * sizeof *outputs);
    launch->kernel = k;
    launch->kernel_name = k->name;
    launch->variant = args->variant;
    launch->op_name = n->op->name;
    launch->class_name = op_class_name(n->op->class);
    launch->attributes = copy_attributes(p, &n->attributes);
    launch->workspace = workspace;
    launch->scope = n->scope;
    launch->phase = n->phase;
    if (k->overwrites_input)
        launch->overwrites[k->overwrites_input - 1] = 1;
    launch->flops = cost.flops;
    launch->backward_flops = cost.backward_flops;
    launch->bytes_read = cost.bytes_read;
    launch->bytes_written = cost.bytes_written;
    launch->bytes_sent = cost.bytes_sent;
    launch->runs_once = attribute_find(&n->attributes, "once") != NULL;
    lowering_touch(l, launch->inputs, launch->input_count, index);
    lowering_touch(l, launch->outputs, launch->output_count, index);
}

/* One launch of `n` with these operands. */
static dyno_status launch_node(lowering *l, const node *n, const plan_operand *in, int input_count,
                               const plan_operand *out) {
    MEMORY_RESERVE(l->layouts, input_count + n->output_count, l->layout_capacity);
    tensor *in_layouts = l->layouts, *out_layouts = l->layouts + input_count;
    layouts(in, input_count, in_layouts);
    layouts(out, n->output_count, out_layouts);
    kernel_args args = {.input_count = input_count,
                        .output_count = n->output_count,
                        .inputs = in_layouts,
                        .outputs = out_layouts,
                        .attributes = &n->attributes,
                        .target = l->target,
                        .offset_bits =
                            offset_bits(in, input_count) | offset_bits(out, n->output_count)};
    kernel_choice chosen;
    dyno_status status =
        choose_kernel(n->op, &args, l->g->scopes[n->scope].path, l->kernels, &chosen);
    if (status == DYNO_OK)
        emit(l, n, &chosen, &args, in, out);
    return status;
}

static bool lies_at(const plan_operand *operand, int buffer, int64_t offset, const tensor *layout) {
    bool same = operand->buffer == buffer && operand->offset == offset;
    for (int i = 0; i < layout->shape.rank && same; i++)
        same = layout->shape.dim[i] == 1 || operand->layout.stride[i] == layout->stride[i];
    return same;
}

/* Where a concat's piece belongs in its result. */
static plan_operand place_of_piece(const node *n, int index, const plan_operand *whole) {
    int64_t offset;
    plan_operand place = {.buffer = whole->buffer};
    place.layout = n->op->piece(n, index, &whole->layout, &offset);
    place.offset = whole->offset + offset * dtype_bytes(whole->layout.type);
    return place;
}

/* How many of the concat's inputs are not yet inside its result. */
static int count_misplaced(const lowering *l, const node *n, const plan_operand *whole) {
    int count = 0;
    for (int i = 0; i < n->input_count; i++) {
        plan_operand place = place_of_piece(n, i, whole);
        count += !lies_at(&l->placed[n->inputs[i]->id], place.buffer, place.offset, &place.layout);
    }
    return count;
}

/* The launch that was added last copies one piece of the concat: what it moves is that piece. */
static void charge_piece(lowering *l, const value *piece) {
    plan_launch *launch = &l->p->launches[l->p->launch_count - 1];
    double bytes = (double)dtype_bytes(piece->type);
    launch->bytes_read = (double)value_stored_elements(piece) * bytes;
    launch->bytes_written = (double)shape_elements(&piece->shape) * bytes;
}

/* Inputs of a concat that were produced in place, or are contiguous as parameters of a family are,
 * cost nothing; the others are copied. */
static dyno_status lower_concat(lowering *l, const node *n) {
    const value *made = n->outputs[0];
    plan_operand *whole = &l->placed[made->id];
    if (!l->is_begun[made->id]) {
        *whole = l->placed[n->inputs[0]->id];
        whole->layout = tensor_contiguous(NULL, made->type, &made->shape);
        if (count_misplaced(l, n, whole) > 0)
            *whole = lowering_place_dense(l, made, n->scope, l->p->launch_count);
    }
    lowering_adopt_role(l, made);
    for (int i = 0; i < n->input_count; i++) {
        plan_operand place = place_of_piece(n, i, whole);
        const plan_operand *piece = &l->placed[n->inputs[i]->id];
        if (lies_at(piece, place.buffer, place.offset, &place.layout))
            continue;
        RETURN_IF_FAILED(launch_node(l, n, piece, 1, &place));
        charge_piece(l, n->inputs[i]);
    }
    return DYNO_OK;
}

/* An in-place op overwrites its input by definition; only so many inputs have a bit. */
static void promise_in_place(const node *n, plan_launch *launch) {
    for (int i = 0; i < n->output_count; i++) {
        int taken = op_inplace_input(n, i);
        if (taken >= 0 && taken < 64)
            launch->overwrites[i] |= (uint64_t)1 << taken;
    }
}

static dyno_status lower_node(lowering *l, const node *n) {
    if (n->op->view && lowering_place_view(l, n))
        return DYNO_OK;
    if (n->op->piece)
        return lower_concat(l, n);
    MEMORY_RESERVE(l->operands, n->input_count + n->output_count, l->operand_capacity);
    plan_operand *in = l->operands, *out = l->operands + n->input_count;
    for (int i = 0; i < n->input_count; i++)
        in[i] = l->placed[n->inputs[i]->id];
    for (int i = 0; i < n->output_count; i++) {
        const value *v = n->outputs[i];
        int taken = op_inplace_input(n, i);
        out[i] = taken >= 0 ? in[taken] : lowering_place_output(l, v, n->scope, l->p->launch_count);
        l->placed[v->id] = out[i];
        if (taken < 0)
            lowering_adopt_role(l, v);
    }
    dyno_status status = launch_node(l, n, in, n->input_count, out);
    if (status == DYNO_OK)
        promise_in_place(n, &l->p->launches[l->p->launch_count - 1]);
    return status;
}

/* The place of the value in plan.names. */
static int index_of(const value *v, const int *name_of) { return v ? name_of[v->id] : -1; }

/* The name of a parameter that lies in the whole list `leaf`; -1 where there is none. */
static int name_inside(lowering *l, const value *leaf, const char *name, const graph_shard *at) {
    if (!leaf)
        return -1;
    plan_operand place = l->placed[leaf->id];
    place.offset += at->offset * dtype_bytes(leaf->type);
    place.layout = tensor_contiguous(NULL, leaf->type, &at->shape);
    plan_add_name(l->p, name, &place);
    return l->p->name_count - 1;
}

/* The model's parameters where lists of several of them are the graph's. */
static void record_shards(lowering *l, const int *name_of) {
    plan *p = l->p;
    p->parameter_count = l->g->shard_count;
    p->parameters = arena_allocate(p->memory, (size_t)p->parameter_count, sizeof *p->parameters);
    for (int i = 0; i < p->parameter_count; i++) {
        const graph_shard *at = &l->g->shards[i];
        const graph_parameter *list = at->list;
        const char *low =
            arena_format(p->memory, "%s%s", parameter_part_prefix(PARAMETER_LOW_COPY), at->name);
        const char *name =
            list->is_split
                ? arena_format(p->memory, "%s%s", parameter_part_prefix(PARAMETER_REST), at->name)
                : at->name;
        bool is_whole = list->whole != NULL;
        p->parameters[i] = (plan_parameter){
            .name = arena_copy_string(p->memory, at->name),
            .value =
                is_whole ? name_inside(l, list->whole, name, at) : index_of(list->value, name_of),
            .low_copy = is_whole ? name_inside(l, list->whole_low, low, at)
                                 : index_of(list->low_copy, name_of),
            .gradient = -1,
            .first_moment = -1,
            .second_moment = -1,
            .is_split = list->is_split,
            .part = is_whole ? 0 : shape_elements(&list->value->shape),
            .offset = is_whole ? 0 : at->offset,
            .gradient_at.buffer = -1,
        };
    }
}

static void record_parameters(lowering *l, const int *name_of) {
    plan *p = l->p;
    if (l->g->shard_count) {
        record_shards(l, name_of);
        return;
    }
    size_t count = (size_t)l->g->parameter_count;
    p->parameter_count = l->g->parameter_count;
    p->parameters = arena_allocate(p->memory, count, sizeof *p->parameters);
    for (size_t i = 0; i < count; i++) {
        const graph_parameter *from = l->g->parameters[i];
        p->parameters[i] = (plan_parameter){
            .name = arena_copy_string(p->memory, from->name),
            .value = index_of(from->value, name_of),
            .low_copy = index_of(from->low_copy, name_of),
            .gradient = index_of(from->gradient, name_of),
            .first_moment = index_of(from->first_moment, name_of),
            .second_moment = index_of(from->second_moment, name_of),
            .is_split = from->is_split,
            .gradient_at.buffer = -1,
        };
        if (from->gradient)
            p->parameters[i].gradient_at = l->placed[from->gradient->id];
    }
}

static void name_values(lowering *l) {
    plan *p = l->p;
    int *name_of = memory_allocate((size_t)l->g->value_count, sizeof *name_of);
    for (int i = 0; i < l->g->value_count; i++) {
        const value *v = l->g->values[i];
        name_of[i] = -1;
        if (v->name && (!v->producer || v->is_output)) {
            name_of[i] = p->name_count;
            plan_add_name(p, v->name, &l->placed[i]);
        }
        if (v->is_output)
            p->buffers[l->placed[i].buffer].last_used = p->launch_count;
    }
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].is_persistent)
            p->buffers[i].last_used = p->launch_count;
    record_parameters(l, name_of);
    free(name_of);
}

/* Lowers nodes one by one, and each fused group, whose members are adjacent, as one launch. */
static dyno_status lower_nodes(lowering *l) {
    const graph *g = l->g;
    for (int i = 0; i < g->node_count;) {
        const node *n = g->nodes[i];
        if (!n->group) {
            if (!lower_is_inlined_constant(l, n))
                RETURN_IF_FAILED(lower_node(l, n));
            i++;
            continue;
        }
        int last = i;
        for (int j = i; j < g->node_count && (g->nodes[j]->group == n->group ||
                                              (!g->nodes[j]->group && g->nodes[j]->op->view));
             j++)
            if (g->nodes[j]->group == n->group)
                last = j;
        RETURN_IF_FAILED(lower_group(l, i, last + 1));
        i = last + 1;
    }
    return DYNO_OK;
}

/* Forward and backward are repeated where a micro_batch says so, with all that lies between them. */
static void find_repeated(lowering *l) {
    plan *p = l->p;
    for (int i = 0; i < l->g->node_count; i++)
        if (l->g->nodes[i]->op->advances)
            p->micro_batches = (int)attribute_integer(&l->g->nodes[i]->attributes, "count");
    for (int i = 0; p->micro_batches > 1 && i < p->launch_count; i++)
        if (p->launches[i].phase == PHASE_FORWARD || p->launches[i].phase == PHASE_BACKWARD)
            p->repeated_launches = i + 1;
}

/* Of leaves of one family, those of another role or type have a buffer of their own. */
static bool share_buffer(const value *v, const value *first) {
    return v->role == first->role && v->type == first->type;
}

/* One buffer for all leaves of the family of `first`, which comes before the others. */
static void place_family(lowering *l, const value *first, const int *next_of_family) {
    value whole = *first;
    whole.name = first->family;
    for (int i = next_of_family[first->id]; i >= 0; i = next_of_family[i]) {
        const value *v = l->g->values[i];
        if (!share_buffer(v, first))
            continue;
        bool fits = v->shape.rank == whole.shape.rank && v->shape.rank > 0;
        for (int d = 1; d < v->shape.rank && fits; d++)
            fits = v->shape.dim[d] == whole.shape.dim[d];
        if (fits)
            whole.shape.dim[0] += v->shape.dim[0];
        else /* no common shape: only the bytes count */
            whole.shape = SHAPE(shape_elements(&whole.shape) + shape_elements(&v->shape));
    }
    plan_operand place = lowering_place_dense(l, &whole, 0, -1);
    for (int i = first->id; i >= 0; i = next_of_family[i]) {
        const value *v = l->g->values[i];
        if (!share_buffer(v, first))
            continue;
        place.layout = tensor_contiguous(NULL, v->type, &v->shape);
        l->placed[i] = place;
        l->is_begun[i] = true;
        place.offset += tensor_bytes(&place.layout);
    }
}

/* Parameters come first, so that a pool that keeps them from plan to plan has no holes below them
 * when the rest changes, and reserves for each plan what an empty pool would. */
static void place_leaves(lowering *l, bool are_parameters, const int *next_of_family) {
    for (int i = 0; i < l->g->value_count; i++) {
        const value *v = l->g->values[i];
        if (v->producer || (v->role == ROLE_PARAMETER) != are_parameters || l->is_begun[i])
            continue;
        if (v->family)
            place_family(l, v, next_of_family);
        else
            l->placed[i] = lowering_place_dense(l, v, 0, -1);
    }
}

dyno_status lower_graph_with(const graph *g, const target *chip, const lower_options *options,
                             plan **out) {
    *out = NULL;
    lowering l = {.g = g, .target = chip, .kernels = options->kernels, .p = plan_create(g->name)};
    l.placed = memory_allocate((size_t)g->value_count, sizeof *l.placed);
    l.is_begun = memory_allocate((size_t)g->value_count, sizeof *l.is_begun);
    if (options->is_placed)
        l.wanted = lower_plan_placements(g, chip);
    l.p->memory_mode = PLAN_MEMORY_EAGER;
    l.p->target = *chip;
    l.p->scope_count = g->scope_count;
    l.p->scopes = arena_allocate(l.p->memory, (size_t)g->scope_count, sizeof(char *));
    for (int i = 0; i < g->scope_count; i++)
        l.p->scopes[i] = arena_copy_string(l.p->memory, g->scopes[i].path);
    int *next_of_family = graph_link_families(g);
    place_leaves(&l, true, next_of_family);
    place_leaves(&l, false, next_of_family);
    free(next_of_family);
    lower_find_escapes(&l);
    lower_find_memory_reads(&l);
    dyno_status status = lower_nodes(&l);
    if (l.source.length)
        l.p->source = arena_copy_string(l.p->memory, text_string(&l.source));
    if (status == DYNO_OK) {
        find_repeated(&l);
        name_values(&l);
        plan_finish(l.p);
        *out = l.p;
    } else {
        plan_destroy(l.p);
    }
    text_release(&l.source);
    kernel_memo_release(&l.kernels_made);
    free(l.placed);
    free(l.escapes);
    free(l.is_read_from_memory);
    free(l.wanted);
    free(l.is_begun);
    free(l.operands);
    free(l.layouts);
    return status;
}

dyno_status lower_graph(const graph *g, const target *chip, plan **out) {
    return lower_graph_with(g, chip, &(lower_options){0}, out);
}
