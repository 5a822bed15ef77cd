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

/* `rows` rows for each of so many heads, the last of a head at the tables' last position. `sign` is
 * -1 to rotate back. */
static void rotate(const node *n, const double *const *inputs, int64_t heads, int64_t rows,
                   double sign, const double *x, double *y) {
    int at = n->op->input_count;
    int64_t half = n->inputs[at]->shape.dim[1], first = n->inputs[at]->shape.dim[0] - rows;
    for (int64_t i = 0; i < heads * rows; i++)
        for (int64_t j = 0; j < half; j++) {
            double c = inputs[at][(first + i % rows) * half + j];
            double s = sign * inputs[at + 1][(first + i % rows) * half + j];
            double a = x[i * 2 * half + j], b = x[(i * 2 + 1) * half + j];
            y[i * 2 * half + j] = a * c - b * s;
            y[(i * 2 + 1) * half + j] = b * c + a * s;
        }
}

static bool has_tables(const node *n) { return n->input_count > n->op->input_count; }
static bool is_rotated(const node *n) {
    return has_tables(n) && !attribute_find(&n->attributes, "inverse_rope");
}

/* The inputs with Q and K rotated, where they are to be. */
typedef struct rotated {
    const double *inputs[ATTENTION_LSE + 1];
    double *made[2];
} rotated;

static rotated rotate_inputs(const node *n, const sizes *s, const double *const *inputs) {
    rotated t = {0};
    for (int i = 0; i < n->op->input_count; i++)
        t.inputs[i] = inputs[i];
    const int64_t heads[] = {s->B * s->H, s->B * s->K}, rows[] = {s->T, s->T2};
    for (int i = 0; i < 2 && is_rotated(n); i++) {
        t.made[i] = memory_allocate((size_t)(heads[i] * rows[i] * s->S), sizeof(double));
        rotate(n, inputs, heads[i], rows[i], 1, inputs[i], t.made[i]);
        t.inputs[i] = t.made[i];
    }
    return t;
}

static void rotated_release(rotated *t) {
    free(t->made[0]);
    free(t->made[1]);
}

void attention_reference(const node *n, const double *const *inputs, double *const *outputs) {
    sizes s = sizes_of(n);
    rotated t = rotate_inputs(n, &s, inputs);
    double *scores = memory_allocate((size_t)s.T2, sizeof *scores);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++)
            for (int64_t i = 0; i < s.T; i++) {
                int64_t row = query_row(&s, b, h, i), keys = key_row(&s, b, h);
                attend(&s, t.inputs[ATTENTION_Q] + row * s.S, t.inputs[ATTENTION_K] + keys * s.S,
                       t.inputs[ATTENTION_V] + keys * s.S, i, scores, outputs[0] + row * s.S,
                       outputs[1] + row);
            }
    free(scores);
    rotated_release(&t);
}

void attention_gradient_reference(const node *n, const double *const *inputs,
                                  double *const *outputs) {
    sizes s = sizes_of(n);
    rotated t = rotate_inputs(n, &s, inputs);
    for (int i = ATTENTION_Q; i <= ATTENTION_V; i++)
        for (int64_t j = 0; j < shape_elements(&n->outputs[i]->shape); j++)
            outputs[i][j] = 0;
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++)
            for (int64_t i = 0; i < s.T; i++) {
                int64_t row = query_row(&s, b, h, i), keys = key_row(&s, b, h);
                const double *q = t.inputs[ATTENTION_Q] + row * s.S;
                const double *dy = t.inputs[ATTENTION_DO] + row * s.S;
                double mean = dot(t.inputs[ATTENTION_O] + row * s.S, dy, s.S);
                for (int64_t j = 0; j < s.T2; j++) {
                    const double *k = t.inputs[ATTENTION_K] + (keys + j) * s.S;
                    const double *v = t.inputs[ATTENTION_V] + (keys + j) * s.S;
                    double hidden = score(&s, q, k, i, j);
                    if (hidden == -INFINITY)
                        continue;
                    double p = exp(hidden - t.inputs[ATTENTION_LSE][row]);
                    double ds = s.scale * p * (dot(dy, v, s.S) - mean);
                    for (int64_t d = 0; d < s.S; d++) {
                        outputs[ATTENTION_Q][row * s.S + d] += ds * k[d];
                        outputs[ATTENTION_K][(keys + j) * s.S + d] += ds * q[d];
                        outputs[ATTENTION_V][(keys + j) * s.S + d] += p * dy[d];
                    }
                }
            }
    if (has_tables(n)) {
        rotate(n, inputs, s.B * s.H, s.T, -1, outputs[ATTENTION_Q], outputs[ATTENTION_Q]);
        rotate(n, inputs, s.B * s.K, s.T2, -1, outputs[ATTENTION_K], outputs[ATTENTION_K]);
    }
    rotated_release(&t);
}
