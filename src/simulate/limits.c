#include "simulate/limits.h"

#include <math.h>

const char *limit_name(limit_kind kind) {
    static const char *const names[LIMIT_KIND_COUNT] = {
        [LIMIT_DDP] = "ddp", [LIMIT_FSDP] = "fsdp", [LIMIT_TP] = "tp", [LIMIT_FSDP_TP] = "fsdp+tp"};
    return names[kind];
}

const char *limit_formula(limit_kind kind) {
    static const char *const formulas[LIMIT_KIND_COUNT] = {
        [LIMIT_DDP] = "2(N-1)/N G/W <= K/(N C): N = 1 + floor(K W / (2 G C))",
        [LIMIT_FSDP] = "(N-1)/N P/W <= F/(N C) and (N-1)/N (P+G)/W <= K/(N C): N = 1 + "
                       "floor(min(F W / (P C), K W / ((P+G) C)))",
        [LIMIT_TP] = "4L (N-1)/N S/W <= F/(N C): N = 1 + floor(F W / (4 L S C))",
        [LIMIT_FSDP_TP] =
            "N = X Y, (X-1)/X P/Y/W + 4L (Y-1)/Y S/X/W <= F/(X Y C), and the same with P+G and K"};
    return formulas[kind];
}

/* More ranks than this are not worth a number. */
#define MOST 1e15

static int64_t whole(double ranks) {
    return ranks < 1 ? 1 : ranks > MOST ? (int64_t)MOST : (int64_t)ranks;
}

/* Of a limit 1 + floor(ratio x W): inside a node where that is less than a node, else across. */
static int64_t over_nodes(double ratio, const network *n) {
    int64_t inside = whole(1 + floor(ratio * network_bandwidth(n, 1)));
    if (inside < n->per_node)
        return inside;
    int64_t across = whole(1 + floor(ratio * network_bandwidth(n, n->per_node + 1)));
    return across > n->per_node ? across : n->per_node;
}

static limit limit_ddp(const limits_model *m, const network *n) {
    double ratio = m->backward_flops / (2 * m->gradient_bytes * m->flops_a_second);
    return (limit){over_nodes(ratio, n), 1};
}

static limit limit_fsdp(const limits_model *m, const network *n) {
    double forward = m->forward_flops / m->weight_bytes;
    double backward = m->backward_flops / (m->weight_bytes + m->gradient_bytes);
    return (limit){over_nodes(fmin(forward, backward) / m->flops_a_second, n), 1};
}

static limit limit_tp(const limits_model *m, const network *n) {
    double bytes = 4 * (double)m->layers * m->residual_bytes;
    int64_t ranks = over_nodes(m->forward_flops / (bytes * m->flops_a_second), n);
    return (limit){ranks < m->heads ? ranks : m->heads, 1};
}

/* The most groups of `group` ranks, at this bandwidth between them; 0: not one. */
static int64_t most_groups(const limits_model *m, const network *n, int64_t group,
                           double bandwidth) {
    double y = (double)group;
    double inside = 4 * (double)m->layers * (y - 1) / y * m->residual_bytes /
                    network_bandwidth(n, group); /* of all tokens, for a group that has them all */
    double forward = (m->forward_flops / (y * m->flops_a_second) - inside) / m->weight_bytes;
    double backward = (m->backward_flops / (y * m->flops_a_second) - inside) /
                      (m->weight_bytes + m->gradient_bytes);
    double ratio = fmin(forward, backward) * y;
    return ratio < 0 ? 0 : whole(1 + floor(ratio * bandwidth));
}

/* As over_nodes, for ranks of which each is in another group. */
static int64_t groups_over_nodes(const limits_model *m, const network *n, int64_t group) {
    network outer = network_between_groups(n, group);
    int64_t across = most_groups(m, n, group, network_bandwidth(&outer, outer.per_node + 1));
    if (across > outer.per_node)
        return across;
    int64_t inside = most_groups(m, n, group, n->inside);
    return inside < outer.per_node ? inside : outer.per_node;
}

static limit limit_fsdp_tp(const limits_model *m, const network *n) {
    limit best = {1, 1};
    for (int64_t group = 1; group <= m->heads; group *= 2) {
        int64_t ranks = groups_over_nodes(m, n, group) * group;
        if (ranks > best.ranks)
            best = (limit){ranks, group};
    }
    return best;
}

limit limit_find(limit_kind kind, const limits_model *m, const network *n) {
    switch (kind) {
    case LIMIT_DDP:
        return limit_ddp(m, n);
    case LIMIT_FSDP:
        return limit_fsdp(m, n);
    case LIMIT_TP:
        return limit_tp(m, n);
    case LIMIT_FSDP_TP:
        return limit_fsdp_tp(m, n);
    case LIMIT_KIND_COUNT:
        break;
    }
    return (limit){1, 1};
}
