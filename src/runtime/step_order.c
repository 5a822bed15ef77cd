#include "runtime/step_order.h"

#include <stdlib.h>

#include "base/memory.h"

static void find_positions(const plan *p, step_order *order) {
    int64_t repeated = (int64_t)p->repeated_launches * p->micro_batches;
    int64_t count = repeated + p->launch_count - p->repeated_launches;
    order->at = memory_allocate((size_t)count, sizeof *order->at);
    order->first_of = memory_allocate((size_t)p->launch_count, sizeof *order->first_of);
    int last = p->micro_batches - 1;
    for (int r = 0; r <= last; r++)
        for (int i = 0; i < p->repeated_launches; i++)
            if (r == last || !p->launches[i].runs_once)
                order->at[order->count++] = (step_position){.launch = i, .repetition = r};
    for (int i = p->repeated_launches; i < p->launch_count; i++)
        order->at[order->count++] = (step_position){i, last};
    for (int i = order->count - 1; i >= 0; i--)
        order->first_of[order->at[i].launch] = i;
}

static void find_runs(const plan *p, step_order *order) {
    int capacity = 0;
    for (int i = 0; i < order->count; i++) {
        const plan_launch *l = &p->launches[order->at[i].launch];
        bool is_change = i > 0 && l->phase != p->launches[order->at[i - 1].launch].phase;
        if (i == 0 || is_change || l->backward_flops > 0) {
            MEMORY_GROW(order->runs, order->run_count, capacity);
            order->runs[order->run_count++] = (phase_run){.phase = l->phase, .first = i};
        }
        phase_run *run = &order->runs[order->run_count - 1];
        run->last = i;
        run->flops += l->flops;
        run->backward_flops += l->backward_flops;
        order->phase_changes += is_change;
    }
}

step_order step_order_create(const plan *p) {
    step_order order = {0};
    find_positions(p, &order);
    find_runs(p, &order);
    return order;
}

void step_order_release(step_order *order) {
    free(order->at);
    free(order->first_of);
    free(order->runs);
    *order = (step_order){0};
}

bool step_order_ends_repetition(const step_order *order, int position) {
    return position + 1 < order->count &&
           order->at[position + 1].repetition > order->at[position].repetition;
}
