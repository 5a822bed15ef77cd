#include "support/device_run.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/op.h"
#include "support/device_bench.h"
#include "support/expect.h"

enum { ALIGNMENT = 256, GUARD = 256, UNWRITTEN = 0xff, GUARD_BYTE = 0xa5 };
enum { LARGE_WORKSPACE = 1 << 20 }; /* not worth moving twice for each launch */

struct device_run {
    device *d;
    const plan *p;
    program *ready;
    char *base;                    /* on the device */
    int64_t *start;                /* by buffer */
    int64_t bytes;                 /* that have a copy here; large workspaces lie behind them */
    unsigned char *before, *after; /* the copy */
};

static int64_t round_up(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static bool is_large_workspace(const plan_buffer *b) {
    return b->role == ROLE_WORKSPACE && b->bytes >= LARGE_WORKSPACE;
}

device_run *device_run_create(device *d, const plan *p) {
    device_run *r = memory_allocate(1, sizeof *r);
    r->d = d;
    r->p = p;
    r->start = memory_allocate((size_t)p->buffer_count, sizeof *r->start);
    r->bytes = GUARD;
    for (int i = 0; i < p->buffer_count; i++)
        if (!is_large_workspace(&p->buffers[i])) {
            r->start[i] = r->bytes;
            r->bytes += round_up(p->buffers[i].bytes + GUARD);
        }
    int64_t total = r->bytes;
    for (int i = 0; i < p->buffer_count; i++)
        if (is_large_workspace(&p->buffers[i])) {
            r->start[i] = total;
            total += round_up(p->buffers[i].bytes);
        }
    r->base = device_bench_memory(d, total);
    r->before = memory_allocate((size_t)r->bytes, 1);
    r->after = memory_allocate((size_t)r->bytes, 1);
    memset(r->before, GUARD_BYTE, (size_t)r->bytes);
    for (int i = 0; i < p->buffer_count; i++)
        if (!is_large_workspace(&p->buffers[i]))
            memset(r->before + r->start[i], UNWRITTEN, (size_t)p->buffers[i].bytes);
    expect_ok(d->functions->program_create(d, p, &r->ready));
    return r;
}

void device_run_destroy(device_run *r) {
    r->d->functions->program_destroy(r->ready);
    free(r->start);
    free(r->before);
    free(r->after);
    free(r);
}

void device_run_fill(device_run *r, int buffer, int64_t offset, const void *from, int64_t bytes) {
    assert_true(offset >= 0 && offset + bytes <= r->p->buffers[buffer].bytes);
    memcpy(r->before + r->start[buffer] + offset, from, (size_t)bytes);
}

void device_run_fill_leaf(device_run *r, const char *name, const double *from) {
    const plan_operand *leaf = plan_find_name(r->p, name);
    assert_non_null(leaf);
    assert_true(tensor_is_contiguous(&leaf->layout) && leaf->offset == 0);
    for (int64_t i = 0; i < shape_elements(&leaf->layout.shape); i++)
        dtype_store(leaf->layout.type, r->before + r->start[leaf->buffer], i, from[i]);
}

static tensor resolve(const device_run *r, const plan_operand *operand, void *base) {
    tensor t = operand->layout;
    t.data = (char *)base + r->start[operand->buffer] + operand->offset;
    return t;
}

static void launch(const device_run *r, int index) {
    const plan_launch *l = &r->p->launches[index];
    size_t count = (size_t)(l->input_count + l->output_count);
    tensor *operands = memory_allocate(count, sizeof *operands);
    for (int i = 0; i < l->input_count; i++)
        operands[i] = resolve(r, &l->inputs[i], r->base);
    for (int i = 0; i < l->output_count; i++)
        operands[l->input_count + i] = resolve(r, &l->outputs[i], r->base);
    kernel_args args = {.input_count = l->input_count,
                        .output_count = l->output_count,
                        .inputs = operands,
                        .outputs = operands + l->input_count,
                        .attributes = &l->attributes,
                        .variant = l->variant,
                        .target = &r->d->target,
                        .workspace = l->workspace < 0 ? NULL : r->base + r->start[l->workspace]};
    assert_int_equal(r->d->functions->launch(r->ready, index, &args), DYNO_OK);
    free(operands);
}

/* 1 for every byte that some launch may write. */
static unsigned char *find_written(const device_run *r) {
    unsigned char *written = memory_allocate((size_t)r->bytes, 1);
    for (int i = 0; i < r->p->launch_count; i++) {
        const plan_launch *l = &r->p->launches[i];
        for (int j = 0; j < l->output_count; j++) {
            tensor t = resolve(r, &l->outputs[j], written);
            size_t size = (size_t)dtype_bytes(t.type);
            if (tensor_is_contiguous(&t)) {
                memset(t.data, 1, (size_t)tensor_bytes(&t));
                continue;
            }
            for (int64_t k = 0; k < shape_elements(&t.shape); k++) {
                int64_t at = 0;
                for (int64_t left = k, dim = t.shape.rank - 1; dim >= 0; dim--) {
                    at += left % t.shape.dim[dim] * t.stride[dim];
                    left /= t.shape.dim[dim];
                }
                memset((char *)t.data + (size_t)at * size, 1, size);
            }
        }
        if (l->workspace >= 0 && !is_large_workspace(&r->p->buffers[l->workspace]))
            memset(written + r->start[l->workspace], 1, (size_t)r->p->buffers[l->workspace].bytes);
    }
    return written;
}

static void expect_nothing_else_written(const device_run *r) {
    unsigned char *written = find_written(r);
    for (int64_t i = 0; i < r->bytes; i++) {
        if (written[i] || r->before[i] == r->after[i])
            continue;
        int buffer = -1;
        for (int j = 0; j < r->p->buffer_count; j++)
            if (r->start[j] <= i && (buffer < 0 || r->start[j] > r->start[buffer]))
                buffer = j;
        if (buffer < 0)
            fail_msg("'%s' wrote before its first buffer", r->p->name);
        const plan_launch *l = &r->p->launches[r->p->launch_count - 1];
        fail_msg("'%s' (%s, %d launches) wrote byte %lld of buffer %d, of %lld bytes, which is "
                 "nobody's output",
                 r->p->name, l->kernel_name, r->p->launch_count, (long long)(i - r->start[buffer]),
                 buffer, (long long)r->p->buffers[buffer].bytes);
    }
    free(written);
}

void device_run_launch(device_run *r) {
    r->d->functions->write(r->d, r->base, r->before, r->bytes);
    for (int i = 0; i < r->p->launch_count; i++)
        launch(r, i);
    device_bench_finish(r->d);
    r->d->functions->read(r->d, r->after, r->base, r->bytes);
    device_bench_finish(r->d);
    expect_nothing_else_written(r);
}

tensor device_run_find(const device_run *r, const plan_operand *operand) {
    return resolve(r, operand, r->after);
}

tensor device_run_find_name(const device_run *r, const char *name) {
    const plan_operand *operand = plan_find_name(r->p, name);
    if (!operand)
        fail_msg("'%s' has no '%s'", r->p->name, name);
    return device_run_find(r, operand);
}

/* ---- one kernel ---- */

/* Bytes from the first element to the last. */
static int64_t extent(const tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < t->shape.rank; i++)
        last += (t->shape.dim[i] - 1) * t->stride[i];
    return (last + 1) * dtype_bytes(t->type);
}

static int add_buffer(plan *p, int64_t bytes, role r) {
    bool is_input = r == ROLE_INPUT;
    plan_buffer buffer = {.bytes = bytes,
                          .role = r,
                          .type = DTYPE_U8,
                          .shape = SHAPE(bytes),
                          .born = is_input ? -1 : 0,
                          .last_used = is_input ? 1 : 0,
                          .is_persistent = is_input};
    return plan_add_buffer(p, &buffer);
}

/* What is not dense starts so many bytes into its buffer. */
static int64_t shift_of(const device_kernel *how, int operand, const tensor *t) {
    uint64_t shift = how->count + (uint64_t)operand;
    bool is_shifted = !how->is_aligned && !tensor_is_contiguous(t);
    return is_shifted ? (int64_t)(shift % 8) * dtype_bytes(t->type) : 0;
}

static plan_operand place(plan *p, const tensor *t, int64_t away, role r) {
    return (plan_operand){
        .buffer = add_buffer(p, away + extent(t), r), .offset = away, .layout = *t};
}

enum { OUTPUT_SHIFT = 5 };

static plan *plan_kernel(device_kernel *how, const node *n, const kernel *k,
                         const kernel_args *args) {
    static const char *scopes[] = {""};
    plan *p = plan_create(k->name);
    p->target = how->d->target;
    p->scopes = scopes;
    p->scope_count = 1;
    size_t scratch = k->workspace_bytes ? k->workspace_bytes(args) : 0;
    plan_launch *l = plan_add_launch(p, n->input_count, n->output_count);
    l->kernel = k;
    l->kernel_name = k->name;
    l->variant = args->variant;
    l->op_name = n->op->name;
    l->class_name = op_class_name(n->op->class);
    l->generated = -1;
    l->attributes = n->attributes;
    l->workspace = scratch ? add_buffer(p, (int64_t)scratch, ROLE_WORKSPACE) : -1;
    for (int i = 0; i < n->input_count; i++)
        l->inputs[i] = place(p, &args->inputs[i], shift_of(how, i, &args->inputs[i]), ROLE_INPUT);
    for (int i = 0; i < n->output_count; i++) {
        int taken = op_inplace_input(n, i);
        int64_t away = shift_of(how, OUTPUT_SHIFT, &args->outputs[i]);
        l->outputs[i] =
            taken >= 0 ? l->inputs[taken] : place(p, &args->outputs[i], away, ROLE_ACTIVATION);
    }
    plan_finish(p);
    return p;
}

/* Where place will put them, or-ed. */
static uint64_t offset_bits(const device_kernel *how, const kernel_args *args) {
    uint64_t bits = 0;
    for (int i = 0; i < args->input_count; i++)
        bits |= (uint64_t)shift_of(how, i, &args->inputs[i]);
    for (int i = 0; i < args->output_count; i++)
        bits |= (uint64_t)shift_of(how, OUTPUT_SHIFT, &args->outputs[i]);
    return bits;
}

/* Rows that do not touch. */
static tensor pad_rows(const tensor *dense) {
    tensor t = *dense;
    int64_t stride = 1;
    for (int i = t.shape.rank - 1; i >= 0; i--) {
        t.stride[i] = stride;
        stride = stride * t.shape.dim[i] + (i == t.shape.rank - 1 ? 3 : 0);
    }
    return t;
}

static tensor lay_out(const device_kernel *how, const node *n, const kernel *k, int output) {
    if (output == 0 && how->output)
        return *how->output;
    const value *v = n->outputs[output];
    tensor dense = tensor_contiguous(NULL, v->type, &v->shape);
    bool is_padded = output == 0 && how->pads_outputs && k->writes_strided && how->count % 2 &&
                     op_inplace_input(n, 0) < 0;
    return is_padded ? pad_rows(&dense) : dense;
}

const char *device_kernel_run(void *context, const node *n, const kernel *k, const tensor *inputs,
                              tensor *outputs) {
    device_kernel *how = context;
    how->count++;
    tensor *given = memory_allocate((size_t)n->input_count, sizeof *given);
    for (int i = 0; i < n->input_count; i++) {
        given[i] = inputs[i];
        given[i].data = NULL;
    }
    for (int i = 0; i < n->output_count; i++)
        outputs[i] = lay_out(how, n, k, i);
    kernel_args args = {.input_count = n->input_count,
                        .output_count = n->output_count,
                        .inputs = given,
                        .outputs = outputs,
                        .attributes = &n->attributes,
                        .variant = how->variant,
                        .target = &how->d->target};
    args.offset_bits = offset_bits(how, &args);
    const char *why = k->reject ? k->reject(&args) : NULL;
    if (!why) {
        plan *p = plan_kernel(how, n, k, &args);
        const plan_launch *l = &p->launches[0];
        device_run *r = device_run_create(how->d, p);
        for (int i = 0; i < n->input_count; i++)
            device_run_fill(r, l->inputs[i].buffer, l->inputs[i].offset, inputs[i].data,
                            extent(&inputs[i]));
        device_run_launch(r);
        for (int i = 0; i < n->output_count; i++) {
            size_t bytes = (size_t)extent(&outputs[i]);
            outputs[i].data =
                memcpy(memory_allocate(bytes, 1), device_run_find(r, &l->outputs[i]).data, bytes);
        }
        device_run_destroy(r);
        plan_destroy(p);
    }
    free(given);
    return why;
}
