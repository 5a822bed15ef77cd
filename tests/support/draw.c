#include "support/draw.h"

draw draw_create(uint64_t seed, int64_t budget) {
    return (draw){.stream = rng_stream_init(seed, 0), .budget = budget};
}

double draw_uniform(draw *d, double low, double high) {
    return low + (high - low) * rng_uniform(d->stream, d->next++);
}

double draw_normal(draw *d) { return rng_truncated_normal(d->stream, d->next++); }

int64_t draw_below(draw *d, int64_t limit) {
    return (int64_t)(rng_bits(d->stream, d->next++) % (uint64_t)limit);
}

bool draw_chance(draw *d, double probability) { return draw_uniform(d, 0, 1) < probability; }

int64_t draw_size(draw *d, int64_t limit) {
    static const int64_t sizes[] = {1,  2,  3,  4,  5,  7,   8,   15,  16,  17,
                                    31, 32, 33, 63, 65, 127, 129, 255, 257, 1000};
    int count = 0;
    while (count < (int)(sizeof sizes / sizeof *sizes) && sizes[count] <= limit)
        count++;
    return draw_chance(d, 0.75) ? sizes[draw_below(d, count)] : 1 + draw_below(d, limit);
}

shape draw_shape(draw *d, int min_rank, int max_rank) {
    shape s = {.rank = min_rank + (int)draw_below(d, max_rank - min_rank + 1)};
    int64_t left = d->budget;
    int widest = s.rank ? (int)draw_below(d, s.rank) : 0;
    for (int i = 0; i < s.rank; i++)
        if (i != widest) {
            s.dim[i] = draw_size(d, left < 64 || !d->is_full ? left : 64);
            left /= s.dim[i];
        }
    if (s.rank)
        s.dim[widest] = d->is_full ? left : draw_size(d, left);
    return s;
}

shape draw_order(draw *d, int count) {
    shape order = {.rank = count};
    for (int i = 0; i < count; i++) {
        int at = (int)draw_below(d, i + 1);
        order.dim[i] = order.dim[at];
        order.dim[at] = i;
    }
    return order;
}

shape draw_subset(draw *d, int count, double probability) {
    shape subset = {0};
    for (int i = 0; i < count; i++)
        if (draw_chance(d, probability))
            subset.dim[subset.rank++] = i;
    return subset;
}
