#include "simulate/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/operand.h"

void network_release(network *n) {
    for (int i = 0; i < n->curve_count; i++)
        free(n->curves[i].points);
    free(n->curves);
    n->curves = NULL;
    n->curve_count = n->curve_capacity = 0;
}

static const network_curve *find_curve(const network *n, collective_op op, int64_t ranks) {
    for (int i = 0; i < n->curve_count; i++)
        if (n->curves[i].op == op && n->curves[i].ranks == ranks)
            return &n->curves[i];
    return NULL;
}

void network_add_point(network *n, collective_op op, int64_t ranks, double bytes, double ns) {
    network_curve *curve = (network_curve *)find_curve(n, op, ranks);
    if (!curve) {
        MEMORY_GROW(n->curves, n->curve_count, n->curve_capacity);
        curve = &n->curves[n->curve_count++];
        *curve = (network_curve){.op = op, .ranks = ranks};
    }
    int at = 0;
    while (at < curve->count && curve->points[at].bytes < bytes)
        at++;
    if (at < curve->count && curve->points[at].bytes == bytes) {
        curve->points[at].ns = fmin(curve->points[at].ns, ns);
        return;
    }
    MEMORY_GROW(curve->points, curve->count, curve->capacity);
    memmove(curve->points + at + 1, curve->points + at,
            (size_t)(curve->count - at) * sizeof *curve->points);
    curve->points[at] = (network_point){bytes, ns};
    curve->count++;
}

double network_bandwidth(const network *n, int64_t ranks) {
    return ranks <= n->per_node ? n->inside : fmin(n->inside, n->across);
}

/* Between two sizes a straight line; below the smallest its time, which is mostly latency; above the
 * largest at its rate. */
static double interpolate(const network_curve *c, double bytes) {
    const network_point *first = &c->points[0], *last = &c->points[c->count - 1];
    if (bytes <= first->bytes)
        return first->ns;
    if (bytes >= last->bytes)
        return last->ns * bytes / last->bytes;
    int at = 1;
    while (c->points[at].bytes < bytes)
        at++;
    const network_point *a = &c->points[at - 1], *b = &c->points[at];
    return a->ns + (b->ns - a->ns) * (bytes - a->bytes) / (b->bytes - a->bytes);
}

/* Of a collective that was not timed itself, from one of as many ranks that was: rings take time by the
 * bytes that they send. */
static const network_curve *find_similar(const network *n, collective_op op, int64_t ranks,
                                         double *ratio) {
    for (int other = 0; other < COLLECTIVE_OP_COUNT; other++) {
        const network_curve *c = find_curve(n, (collective_op)other, ranks);
        if (!c || other == COLLECTIVE_BROADCAST)
            continue;
        *ratio = collective_bus_factor(op, (int)ranks) /
                 collective_bus_factor((collective_op)other, (int)ranks);
        return c;
    }
    return NULL;
}

static double hops(collective_op op, int64_t ranks) {
    double depth = ceil(log2((double)ranks));
    return op == COLLECTIVE_ALL_REDUCE ? 2 * depth : depth;
}

double network_collective_ns(const network *n, collective_op op, double bytes, int64_t ranks) {
    if (ranks <= 1)
        return 0;
    double ratio = 1;
    const network_curve *curve = find_curve(n, op, ranks);
    if (!curve)
        curve = find_similar(n, op, ranks, &ratio);
    if (curve)
        return ratio * interpolate(curve, bytes);
    double sent = collective_bus_factor(op, (int)ranks) * bytes;
    return hops(op, ranks) * n->latency_ns + sent / network_bandwidth(n, ranks) * 1e9;
}

bool network_launch_is_collective(const plan_launch *l, collective_op *op) {
    static const struct {
        const char *name;
        collective_op op;
    } ops[] = {{"all_reduce", COLLECTIVE_ALL_REDUCE},
               {"reduce_scatter", COLLECTIVE_REDUCE_SCATTER},
               {"all_gather", COLLECTIVE_ALL_GATHER}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (l->op_name && strcmp(l->op_name, ops[i].name) == 0) {
            *op = ops[i].op;
            return true;
        }
    return false;
}

static double bytes_of(const plan_operand *o) {
    byte_range range = plan_operand_range(o);
    return (double)(range.end - range.begin);
}

static bool begins_at_the_end(const plan_operand *next, const plan_operand *before) {
    return next->buffer == before->buffer && next->layout.type == before->layout.type &&
           plan_operand_range(next).begin == plan_operand_range(before).end;
}

double network_launch_ns(const network *n, const plan *p, int launch, double share) {
    const plan_launch *l = &p->launches[launch];
    collective_op op;
    if (!network_launch_is_collective(l, &op))
        return 0;
    int64_t ranks = attribute_integer(&l->attributes, "ranks");
    if (op == COLLECTIVE_ALL_GATHER)
        return network_collective_ns(n, op, share * bytes_of(&l->outputs[0]), ranks);
    if (op == COLLECTIVE_REDUCE_SCATTER)
        return network_collective_ns(n, op, share * bytes_of(&l->inputs[0]), ranks);
    double ns = 0;
    for (int i = 0; i < l->output_count;) {
        double bytes = bytes_of(&l->outputs[i]);
        for (i++; i < l->output_count && begins_at_the_end(&l->outputs[i], &l->outputs[i - 1]); i++)
            bytes += bytes_of(&l->outputs[i]);
        ns += network_collective_ns(n, op, share * bytes, ranks);
    }
    return ns;
}
