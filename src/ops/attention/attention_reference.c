/* attention_reference.c - the formulas of attention.h, a query at a time. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "graph/op.h"
#include "ops/attention/attention.h"

typedef struct sizes {
    int64_t B, H, K, T, T2, S;
    bool is_causal;
    double scale;
} sizes;

static sizes sizes_of(const node *n) {
    const shape *q = &n->inputs[ATTENTION_Q]->shape, *k = &n->inputs[ATTENTION_K]->shape;
    return (sizes){q->dim[0],
                   q->dim[1],
                   k->dim[1],
                   q->dim[2],
                   k->dim[2],
                   q->dim[3],
                   attribute_integer(&n->attributes, "causal") != 0,
                   attribute_real(&n->attributes, "scale")};
}

/* The row of Q, O or LSE's element, and the first row of K and V, of query i of head h. */
static int64_t query_row(const sizes *s, int64_t b, int64_t h, int64_t i) {
    return (b * s->H + h) * s->T + i;
}
static int64_t key_row(const sizes *s, int64_t b, int64_t h) {
    return (b * s->K + h / (s->H / s->K)) * s->T2;
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* -infinity for keys that query i does not see. */
static double score(const sizes *s, const double *q, const double *k, int64_t i, int64_t j) {
    bool is_seen = !s->is_causal || j <= i + s->T2 - s->T;
    return is_seen ? s->scale * dot(q, k, s->S) : -INFINITY;
}

static void attend(const sizes *s, const double *q, const double *k, const double *v, int64_t i,
                   double *scores, double *o, double *lse) {
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->T2; j++) {
        scores[j] = score(s, q, k + j * s->S, i, j);
        largest = isnan(scores[j]) || isnan(largest) ? (double)NAN : fmax(largest, scores[j]);
    }
    for (int64_t d = 0; d < s->S; d++)
        o[d] = 0;
    *lse = largest;
    if (largest == -INFINITY)
        return;
    for (int64_t j = 0; j < s->T2; j++) {
        double p = exp(scores[j] - largest);
        sum += p;
        for (int64_t d = 0; p != 0 && d < s->S; d++)
            o[d] += p * v[j * s->S + d];
    }
    for (int64_t d = 0; d < s->S; d++)
        o[d] /= sum;
    *lse = largest + log(sum);
}

void attention_reference(const node *n, const double *const *inputs, double *const *outputs) {
    sizes s = sizes_of(n);
    double *scores = memory_allocate((size_t)s.T2, sizeof *scores);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++)
            for (int64_t i = 0; i < s.T; i++) {
                int64_t row = query_row(&s, b, h, i), keys = key_row(&s, b, h);
                attend(&s, inputs[ATTENTION_Q] + row * s.S, inputs[ATTENTION_K] + keys * s.S,
                       inputs[ATTENTION_V] + keys * s.S, i, scores, outputs[0] + row * s.S,
                       outputs[1] + row);
            }
    free(scores);
}

void attention_gradient_reference(const node *n, const double *const *inputs,
                                  double *const *outputs) {
    sizes s = sizes_of(n);
    for (int i = ATTENTION_Q; i <= ATTENTION_V; i++)
        for (int64_t j = 0; j < shape_elements(&n->outputs[i]->shape); j++)
            outputs[i][j] = 0;
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++)
            for (int64_t i = 0; i < s.T; i++) {
                int64_t row = query_row(&s, b, h, i), keys = key_row(&s, b, h);
                const double *q = inputs[ATTENTION_Q] + row * s.S;
                const double *dy = inputs[ATTENTION_DO] + row * s.S;
                double mean = dot(inputs[ATTENTION_O] + row * s.S, dy, s.S);
                for (int64_t j = 0; j < s.T2; j++) {
                    const double *k = inputs[ATTENTION_K] + (keys + j) * s.S;
                    const double *v = inputs[ATTENTION_V] + (keys + j) * s.S;
                    double hidden = score(&s, q, k, i, j);
                    if (hidden == -INFINITY)
                        continue;
                    double p = exp(hidden - inputs[ATTENTION_LSE][row]);
                    double ds = s.scale * p * (dot(dy, v, s.S) - mean);
                    for (int64_t d = 0; d < s.S; d++) {
                        outputs[ATTENTION_Q][row * s.S + d] += ds * k[d];
                        outputs[ATTENTION_K][(keys + j) * s.S + d] += ds * q[d];
                        outputs[ATTENTION_V][(keys + j) * s.S + d] += p * dy[d];
                    }
                }
            }
}
