#include "train/loss_scale.h"

loss_scale loss_scale_create(void) { return (loss_scale){.factor = LOSS_SCALE_START}; }

void loss_scale_adapt(loss_scale *s, bool overflowed) {
    if (overflowed) {
        s->skipped_steps++;
        s->good_steps = 0;
        s->factor = s->factor > 1 ? s->factor / 2 : 1;
    } else if (++s->good_steps == LOSS_SCALE_PATIENCE) {
        s->good_steps = 0;
        s->factor = s->factor < LOSS_SCALE_MOST ? s->factor * 2 : LOSS_SCALE_MOST;
    }
}
