#include "plan/plan_text.h"

#include <string.h>

static void print_buffer(const plan *p, int index, text *out) {
    const plan_buffer *b = &p->buffers[index];
    text_format(out, "%s b%d %s[%s]", role_name(b->role), index, dtype_name(b->type),
                shape_format(&b->shape).text);
    if (!b->is_persistent)
        text_format(out, " %d..%d", b->born, b->last_used);
    if (!b->is_persistent && p->memory_mode == PLAN_MEMORY_STATIC)
        text_format(out, " at %lld", (long long)b->offset);
    if (b->name)
        text_format(out, " \"%s\"", b->name);
    text_append(out, "\n");
}

static void print_operand(const plan *p, const plan_operand *o, text *out) {
    const plan_buffer *b = &p->buffers[o->buffer];
    bool is_dense = tensor_is_contiguous(&o->layout);
    text_format(out, " b%d", o->buffer);
    if (o->offset == 0 && is_dense && o->layout.type == b->type &&
        shape_equal(&o->layout.shape, &b->shape))
        return;
    text_format(out, "+%lld:%s[%s]", (long long)o->offset, dtype_name(o->layout.type),
                shape_format(&o->layout.shape).text);
    if (o->repeat_bytes)
        text_format(out, "+%lld*micro-batch", (long long)o->repeat_bytes);
    if (!is_dense) {
        shape strides = shape_make(o->layout.shape.rank, o->layout.stride);
        text_format(out, ":[%s]", shape_format(&strides).text);
    }
}

static void print_launch(const plan *p, int index, text *out) {
    const plan_launch *l = &p->launches[index];
    text_format(out, "%d:", index);
    for (int i = 0; i < l->output_count; i++)
        print_operand(p, &l->outputs[i], out);
    text_format(out, " = %s (%s%s%s)", l->op_name, l->kernel_name, l->variant ? ":" : "",
                l->variant ? l->variant : "");
    for (int i = 0; i < l->input_count; i++)
        print_operand(p, &l->inputs[i], out);
    attributes_print(&l->attributes, out);
    text_format(out, " @%s %s", phase_name(l->phase), p->scopes[l->scope]);
    if (l->stream)
        text_format(out, " stream %d", l->stream);
    if (l->workspace >= 0)
        text_format(out, " work b%d", l->workspace);
    text_append(out, "\n");
}

void plan_print(const plan *p, text *out) {
    text_format(out, "plan %s", p->name);
    if (p->memory_mode == PLAN_MEMORY_STATIC)
        text_format(out, ", static, arena %lld B", (long long)p->arena_bytes);
    if (p->repeated_launches)
        text_format(out, ", %d micro-batches of launches 0 to %d", p->micro_batches,
                    p->repeated_launches - 1);
    text_append(out, "\n");
    for (int i = 0; i < p->buffer_count; i++)
        print_buffer(p, i, out);
    for (int i = 0; i < p->launch_count; i++)
        print_launch(p, i, out);
    for (int i = 0; i < p->name_count; i++) {
        const char *of_buffer = p->buffers[p->names[i].operand.buffer].name;
        if (of_buffer && strcmp(of_buffer, p->names[i].name) == 0)
            continue;
        text_format(out, "name \"%s\"", p->names[i].name);
        print_operand(p, &p->names[i].operand, out);
        text_append(out, "\n");
    }
}
