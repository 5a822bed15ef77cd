#include "ops/attention/cpu/attention_cpu_rows.h"

#include "base/threads.h"

typedef struct turning {
    const tensor *from;
    const attention_turn *turn;
    float *room;
} turning;

static void turn_rows(void *context, int64_t begin, int64_t end) {
    const turning *t = context;
    const shape *s = &t->from->shape;
    for (int64_t row = begin; row < end; row++) {
        int64_t head = row / s->dim[2];
        attention_load_turned(t->from, t->turn, head / s->dim[1], head % s->dim[1], row % s->dim[2],
                              t->room + row * s->dim[3]);
    }
}

tensor attention_turn_all(const tensor *t, const attention_turn *turn, float *room) {
    turning all = {t, turn, room};
    threads_for(shape_elements(&t->shape) / t->shape.dim[3], 64, turn_rows, &all);
    return tensor_contiguous(room, DTYPE_F32, &t->shape);
}
