/* simulate.c - two clocks: one of launches, one of transfers.
 *
 * On a GPU each launch begins when its stream is free and what it waits for is done. On a CPU both sides
 * progress at the same time, at rates that change whenever one of them begins or ends: a launch or a
 * transfer is an amount of work that is used up piece by piece. */
#include "simulate/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "plan/hazards.h"
#include "plan/operand.h"
#include "runtime/step_order.h"

typedef struct simulation {
    const plan *p;
    const simulate_options *options;
    step_order order;
    simulated_step *out;
} simulation;

static bool is_transfer(const plan_launch *l) { return l->stream == PLAN_STREAM_COMMUNICATION; }

static double launch_ns(const simulation *s, int position) {
    return s->options->launch_ns[s->order.at[position].launch];
}

static const plan_launch *launch_at(const simulation *s, int position) {
    return &s->p->launches[s->order.at[position].launch];
}

static bool is_communication(const plan_launch *l) { return l->phase == PHASE_COMMUNICATION; }

static void set_span(simulation *s, int position, double begin_ns, double end_ns) {
    s->out->schedule[position].begin_ns = begin_ns;
    s->out->schedule[position].end_ns = end_ns;
}

static void prepare(simulation *s) {
    s->order = step_order_create(s->p);
    s->out->count = s->order.count;
    s->out->schedule = memory_allocate((size_t)s->order.count, sizeof *s->out->schedule);
    for (int i = 0; i < s->order.count; i++) {
        s->out->schedule[i].launch = s->order.at[i].launch;
        s->out->schedule[i].repetition = s->order.at[i].repetition;
        *(is_communication(launch_at(s, i)) ? &s->out->communication_ns : &s->out->compute_ns) +=
            launch_ns(s, i);
    }
}

/* ---- a host that runs launches in order ---- */

typedef struct host_clock {
    simulation *s;
    double now_ns;
    int *queue; /* positions of transfers, those from `head` to `tail` being under way or waiting */
    int head, tail;
    double left_ns; /* of the one at the head, by itself */
} host_clock;

/* Of a thread that could use a core for itself, when each rank has so many that can. */
static double core_share(const simulated_cores *c, int threads) {
    if (c->cores == 0 || threads == 0)
        return 1;
    return fmin(1, (double)c->cores / ((double)c->ranks * threads));
}

/* How fast the transfer at the head goes, compared with all ranks doing nothing else. */
static double transfer_rate(const host_clock *h, bool is_computing) {
    const simulated_cores *c = &h->s->options->cores;
    return core_share(c, 1 + (is_computing ? c->threads : 0)) / core_share(c, 1);
}

/* How fast launches go, compared with a rank that has its cores for itself. */
static double launch_rate(const host_clock *h) {
    const simulated_cores *c = &h->s->options->cores;
    return core_share(c, c->threads + (h->head < h->tail ? 1 : 0));
}

static void finish_transfer(host_clock *h) {
    h->s->out->schedule[h->queue[h->head++]].end_ns = h->now_ns;
    if (h->head < h->tail) {
        h->left_ns = launch_ns(h->s, h->queue[h->head]);
        h->s->out->schedule[h->queue[h->head]].begin_ns = h->now_ns;
    }
}

static void start_transfer(host_clock *h, int position) {
    h->queue[h->tail++] = position;
    if (h->tail - h->head == 1) {
        h->left_ns = launch_ns(h->s, position);
        h->s->out->schedule[position].begin_ns = h->now_ns;
    }
}

/* Computes for so long, undisturbed; transfers go on meanwhile. */
static void compute(host_clock *h, double work_ns) {
    for (;;) {
        double rate = launch_rate(h), span_ns = work_ns / rate;
        double transferring = transfer_rate(h, true), until_ns = h->left_ns / transferring;
        if (h->head == h->tail || until_ns > span_ns) {
            h->now_ns += span_ns;
            h->left_ns -= span_ns * transferring;
            return;
        }
        h->now_ns += until_ns;
        work_ns -= until_ns * rate;
        finish_transfer(h);
    }
}

/* Until the transfers before `until` in the queue are done. */
static void wait_for(host_clock *h, int until) {
    double begin_ns = h->now_ns;
    while (h->head < until) {
        h->now_ns += h->left_ns / transfer_rate(h, false);
        finish_transfer(h);
    }
    h->s->out->exposed_ns += h->now_ns - begin_ns;
}

/* Behind the last transfer in the queue that the launch shares memory with. */
static int find_wait(const host_clock *h, int position) {
    int launch = h->s->order.at[position].launch;
    for (int i = h->tail - 1; i >= h->head; i--) {
        int other = h->s->order.at[h->queue[i]].launch;
        if (plan_launches_conflict(h->s->p, other, launch))
            return i + 1;
    }
    return h->head;
}

static void run_on_host(simulation *s) {
    host_clock h = {.s = s, .queue = memory_allocate((size_t)s->order.count + 1, sizeof *h.queue)};
    for (int i = 0; i < s->order.count; i++) {
        const plan_launch *l = launch_at(s, i);
        wait_for(&h, find_wait(&h, i));
        if (is_transfer(l)) {
            start_transfer(&h, i);
        } else if (is_communication(l)) {
            wait_for(&h, h.tail); /* for its turn */
            set_span(s, i, h.now_ns, h.now_ns + launch_ns(s, i));
            h.now_ns += launch_ns(s, i);
            s->out->exposed_ns += launch_ns(s, i);
        } else {
            double begin_ns = h.now_ns;
            compute(&h, launch_ns(s, i));
            set_span(s, i, begin_ns, h.now_ns);
        }
        if (i + 1 == s->order.count || step_order_ends_repetition(&s->order, i))
            wait_for(&h, h.tail);
    }
    s->out->step_ns = h.now_ns;
    free(h.queue);
}

/* ---- streams ---- */

enum { COMPUTE, TRANSFER };

/* Where each buffer would lie: those of a static plan in its arena, all others apart. */
static int64_t *place_buffers(const plan *p) {
    enum { GAP = 256 };
    int64_t *place = memory_allocate((size_t)p->buffer_count + 1, sizeof *place);
    int64_t next = p->arena_bytes + GAP;
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        bool is_in_arena = p->memory_mode == PLAN_MEMORY_STATIC && !b->is_persistent;
        place[i] = is_in_arena ? b->offset : next;
        next += is_in_arena ? 0 : b->bytes + GAP;
    }
    return place;
}

static hazard_range range_of(const int64_t *place, const plan_operand *o, int repetition,
                             bool is_written) {
    byte_range range = plan_operand_range(o);
    int64_t at = place[o->buffer] + repetition * o->repeat_bytes;
    return (hazard_range){(uintptr_t)(at + range.begin), (uintptr_t)(at + range.end), is_written};
}

static hazard_launch *describe_hazards(const simulation *s, hazard_range **room) {
    const plan *p = s->p;
    size_t ranges = 0;
    for (int i = 0; i < s->order.count; i++)
        ranges += (size_t)(launch_at(s, i)->input_count + launch_at(s, i)->output_count) + 1;
    hazard_launch *all = memory_allocate((size_t)s->order.count + 1, sizeof *all);
    hazard_range *next = *room = memory_allocate(ranges + 1, sizeof *next);
    int64_t *place = place_buffers(p);
    for (int i = 0; i < s->order.count; i++) {
        const plan_launch *l = launch_at(s, i);
        int repetition = s->order.at[i].repetition;
        all[i] = (hazard_launch){.stream = is_transfer(l) ? TRANSFER : COMPUTE, .ranges = next};
        for (int j = 0; j < l->input_count; j++)
            *next++ = range_of(place, &l->inputs[j], repetition, false);
        for (int j = 0; j < l->output_count; j++)
            *next++ = range_of(place, &l->outputs[j], repetition, true);
        if (l->workspace >= 0) {
            int64_t at = place[l->workspace];
            *next++ = (hazard_range){(uintptr_t)at,
                                     (uintptr_t)(at + p->buffers[l->workspace].bytes), true};
        }
        all[i].range_count = (int)(next - all[i].ranges);
    }
    free(place);
    return all;
}

static void run_on_streams(simulation *s) {
    hazard_range *room;
    hazard_edge *edges;
    hazard_launch *launches = describe_hazards(s, &room);
    int edge_count = hazards_find(launches, s->order.count, &edges), edge = 0;
    double free_ns[] = {[COMPUTE] = 0, [TRANSFER] = 0};
    for (int i = 0; i < s->order.count; i++) {
        int stream = launches[i].stream;
        double begin_ns = free_ns[stream];
        for (; edge < edge_count && edges[edge].launch == i; edge++)
            begin_ns = fmax(begin_ns, s->out->schedule[edges[edge].waits_for].end_ns);
        bool is_exposed = stream == COMPUTE && is_communication(launch_at(s, i));
        if (is_exposed) /* a communicator carries out one collective at a time */
            begin_ns = fmax(begin_ns, free_ns[TRANSFER]);
        if (stream == COMPUTE)
            s->out->exposed_ns += begin_ns - free_ns[COMPUTE];
        set_span(s, i, begin_ns, begin_ns + launch_ns(s, i));
        free_ns[stream] = begin_ns + launch_ns(s, i);
        if (is_exposed) {
            free_ns[TRANSFER] = free_ns[COMPUTE];
            s->out->exposed_ns += launch_ns(s, i);
        }
    }
    s->out->step_ns = fmax(free_ns[COMPUTE], free_ns[TRANSFER]);
    s->out->exposed_ns += s->out->step_ns - free_ns[COMPUTE];
    free(launches);
    free(room);
    free(edges);
}

void simulate_step(const plan *p, const simulate_options *options, simulated_step *out) {
    *out = (simulated_step){0};
    simulation s = {.p = p, .options = options, .out = out};
    prepare(&s);
    if (options->issue == SIMULATE_HOST)
        run_on_host(&s);
    else
        run_on_streams(&s);
    step_order_release(&s.order);
}

void simulated_step_release(simulated_step *step) {
    free(step->schedule);
    *step = (simulated_step){0};
}
