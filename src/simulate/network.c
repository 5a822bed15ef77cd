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

static network_curve *find_curve(const network *n, const network_curve *which) {
    for (int i = 0; i < n->curve_count; i++)
        if (n->curves[i].op == which->op && n->curves[i].ranks == which->ranks &&
            n->curves[i].is_private == which->is_private)
            return &n->curves[i];
    return NULL;
}

void network_add_point(network *n, const network_curve *which, double bytes, double ns) {
    network_curve *curve = find_curve(n, which);
    if (!curve) {
        MEMORY_GROW(n->curves, n->curve_count, n->curve_capacity);
        curve = &n->curves[n->curve_count++];
        *curve = (network_curve){
            .op = which->op, .ranks = which->ranks, .is_private = which->is_private};
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
    double links = n->per_node > 1 ? (double)n->per_node : 1;
    return ranks <= n->per_node ? n->inside : fmin(n->inside, links * n->across);
}

network network_between_groups(const network *n, int64_t group) {
    network between = *n;
    between.per_node /= group;
    return between;
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

/* The curve itself, else that of operands which lie elsewhere, else that of another collective of as many
 * ranks: rings take time by the bytes that they send, of which *ratio is that of the two. */
static const network_curve *find_similar(const network *n, const network_curve *which,
                                         double *ratio) {
    static const collective_op others[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_REDUCE_SCATTER,
                                           COLLECTIVE_ALL_GATHER};
    network_curve wanted = *which;
    const network_curve *found = find_curve(n, &wanted);
    wanted.is_private = !wanted.is_private;
    if (!found)
        found = find_curve(n, &wanted);
    *ratio = 1;
    for (int i = 0; i < 6 && !found; i++) {
        wanted.op = others[i / 2];
        wanted.is_private = i % 2 ? !which->is_private : which->is_private;
        found = find_curve(n, &wanted);
        *ratio = collective_bus_factor(which->op, (int)which->ranks) /
                 collective_bus_factor(wanted.op, (int)which->ranks);
    }
    return found;
}

static double hops(collective_op op, int64_t ranks) {
    double depth = ceil(log2((double)ranks));
    return op == COLLECTIVE_ALL_REDUCE ? 2 * depth : depth;
}

static double time_of(const network *n, const network_curve *which, double bytes) {
    if (which->ranks <= 1)
        return 0;
    double ratio;
    const network_curve *curve = find_similar(n, which, &ratio);
    if (curve)
        return ratio * interpolate(curve, bytes);
    double sent = collective_bus_factor(which->op, (int)which->ranks) * bytes;
    return hops(which->op, which->ranks) * n->latency_ns +
           sent / network_bandwidth(n, which->ranks) * 1e9;
}

double network_collective_ns(const network *n, collective_op op, double bytes, int64_t ranks) {
    return time_of(n, &(network_curve){.op = op, .ranks = ranks}, bytes);
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

/* Sums of gradients lie in memory that the ranks of a host share (runtime/storage.c). */
static bool is_copied(const plan *p, const plan_launch *l) {
    const plan_operand *from = l->input_count ? &l->inputs[0] : &l->outputs[0];
    const plan_buffer *b = from->buffer < p->buffer_count ? &p->buffers[from->buffer] : NULL;
    return !b || !b->is_persistent || b->role != ROLE_GRADIENT;
}

double network_launch_ns(const network *n, const plan *p, int launch, double share) {
    const plan_launch *l = &p->launches[launch];
    network_curve which = {0};
    if (!network_launch_is_collective(l, &which.op))
        return 0;
    which.ranks = attribute_integer(&l->attributes, "ranks");
    which.is_private = is_copied(p, l);
    if (which.op == COLLECTIVE_ALL_GATHER)
        return time_of(n, &which, share * bytes_of(&l->outputs[0]));
    if (which.op == COLLECTIVE_REDUCE_SCATTER)
        return time_of(n, &which, share * bytes_of(&l->inputs[0]));
    double ns = 0;
    for (int i = 0; i < l->output_count;) {
        double bytes = bytes_of(&l->outputs[i]);
        for (i++; i < l->output_count && begins_at_the_end(&l->outputs[i], &l->outputs[i - 1]); i++)
            bytes += bytes_of(&l->outputs[i]);
        ns += time_of(n, &which, share * bytes);
    }
    return ns;
}
