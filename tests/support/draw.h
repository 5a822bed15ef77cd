/* draw.h - random sizes, shapes and numbers for tests: the same for a seed, on every machine. */
#ifndef TESTS_SUPPORT_DRAW_H
#define TESTS_SUPPORT_DRAW_H

#include "base/rng.h"
#include "tensor/shape.h"

typedef struct draw {
    rng_stream stream;
    uint64_t next;
    int64_t budget; /* elements a drawn shape may have */
    bool is_full;   /* shapes use the whole budget, nearly */
} draw;

draw draw_create(uint64_t seed, int64_t budget);

double draw_uniform(draw *d, double low, double high);
double draw_normal(draw *d); /* cut at three standard deviations */
/* An integer of [0, limit). */
int64_t draw_below(draw *d, int64_t limit);
bool draw_chance(draw *d, double probability);

/* A size of [1, limit], most often one at which loops go wrong: 1, 2, 3, 7, 17, 31, 33, ... */
int64_t draw_size(draw *d, int64_t limit);
/* A shape of at most `budget` elements. */
shape draw_shape(draw *d, int min_rank, int max_rank);
/* The numbers 0..count-1 in a random order. */
shape draw_order(draw *d, int count);
/* Each of 0..count-1 with the given probability, rising. */
shape draw_subset(draw *d, int count, double probability);

#endif
