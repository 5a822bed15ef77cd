#include "ops/attention/cpu/attention_cpu_rows.h"

#include "base/threads.h"

typedef struct rotating {
    const tensor *from;
    const attention_rotation *rotation;
    float *room;
} rotating;

static void rotate_rows(void *context, int64_t begin, int64_t end) {
    const rotating *t = context;
    const shape *s = &t->from->shape;
    for (int64_t row = begin; row < end; row++) {
        int64_t head = row / s->dim[2];
        attention_load_rotated(t->from, t->rotation, head / s->dim[1], head % s->dim[1],
                               row % s->dim[2], t->room + row * s->dim[3]);
    }
}

tensor attention_rotate_all(const tensor *t, const attention_rotation *rotation, float *room) {
    rotating all = {t, rotation, room};
    threads_for(shape_elements(&t->shape) / t->shape.dim[3], 64, rotate_rows, &all);
    return tensor_contiguous(room, DTYPE_F32, &t->shape);
}
