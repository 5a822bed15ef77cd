/* plan_verify.c - one walk over the launches in order, tracking for each buffer which bytes were
 * written; then one over births and deaths, with the live buffers sorted by offset.
 *
 * The written bytes of a buffer are one range from the first to the last, so that a gap between
 * two writes counts as written. That keeps the walk linear. */
#include "plan/plan_verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/ordered_set.h"
#include "plan/memory_plan.h"
#include "plan/operand.h"

enum { NOBODY = -1, MOST_PROMISES = 64 /* bits of plan_launch.overwrites */ };

typedef struct walk {
    const plan *p;
    byte_range *written, *updated; /* by buffer: so far, by any launch and by the optimizer */
    int *output_of;                /* by buffer: an output of this launch in it, or NOBODY */
    int *next_output;              /* by output of this launch: another in the same buffer */
    bool is_past_forward;
} walk;

/* ---- messages ---- */

typedef struct {
    char text[320];
} buffer_text;

static buffer_text describe(const plan *p, int buffer) {
    const plan_buffer *b = &p->buffers[buffer];
    buffer_text out;
    bool has_scope = b->scope >= 0 && b->scope < p->scope_count;
    snprintf(out.text, sizeof out.text, "buffer %d ('%.200s', %s, %lld B, launches %d to %d)",
             buffer,
             b->name     ? b->name
             : has_scope ? p->scopes[b->scope]
                         : "",
             role_name(b->role), (long long)b->bytes, b->born, b->last_used);
    return out;
}

static dyno_status broken(const plan *p, int launch, const char *rule, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* `launch` is NOBODY where no launch is at fault. */
static dyno_status broken(const plan *p, int launch, const char *rule, const char *format, ...) {
    char detail[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    if (launch == NOBODY)
        return dyno_fail(DYNO_INVALID, "plan '%s' breaks the rule '%s': %s", p->name, rule, detail);
    const plan_launch *l = &p->launches[launch];
    bool has_scope = l->scope >= 0 && l->scope < p->scope_count;
    return dyno_fail(DYNO_INVALID, "plan '%s', launch %d (%s, scope '%s') breaks the rule '%s': %s",
                     p->name, launch, l->op_name ? l->op_name : "?",
                     has_scope ? p->scopes[l->scope] : "?", rule, detail);
}

/* ---- ranges ---- */

static bool is_empty(byte_range r) { return r.end <= r.begin; }

static bool contains(byte_range outer, byte_range inner) {
    return is_empty(inner) || (outer.begin <= inner.begin && inner.end <= outer.end);
}

static bool meet(byte_range a, byte_range b) { return a.begin < b.end && b.begin < a.end; }

static void widen(byte_range *r, byte_range by) {
    if (is_empty(*r)) {
        *r = by;
    } else if (!is_empty(by)) {
        r->begin = by.begin < r->begin ? by.begin : r->begin;
        r->end = by.end > r->end ? by.end : r->end;
    }
}

/* ---- buffers, before any launch ---- */

static dyno_status check_life(const plan *p, int buffer) {
    const plan_buffer *b = &p->buffers[buffer];
    bool is_leaf = b->role <= ROLE_OPTIMIZER_STATE;
    bool may_stay = is_leaf || b->role == ROLE_GRADIENT; /* sums over micro-batches and ranks */
    bool is_right = b->is_persistent
                        ? may_stay && b->born == -1 && b->last_used == p->launch_count
                        : !is_leaf && b->born >= 0 && b->born < p->launch_count &&
                              b->last_used >= b->born && b->last_used <= p->launch_count;
    if (is_right)
        return DYNO_OK;
    return broken(p, NOBODY, "lifetime", "the %s %s of a plan of %d launches",
                  b->is_persistent ? "persistent" : "transient", describe(p, buffer).text,
                  p->launch_count);
}

static dyno_status check_buffers(const plan *p) {
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (b->scope < 0 || b->scope >= p->scope_count || b->bytes < 0)
            return broken(p, NOBODY, "index", "%s has the scope %d of %d", describe(p, i).text,
                          b->scope, p->scope_count);
        RETURN_IF_FAILED(check_life(p, i));
    }
    return DYNO_OK;
}

/* Checks that `items`, partitioned by `start`, are the transient buffers by the launch at which
 * they are born or die, in order. */
static dyno_status check_sorted(const plan *p, bool by_birth, const int *items, const int *start) {
    int expected = 0;
    for (int i = 0; i < p->buffer_count; i++)
        expected += !p->buffers[i].is_persistent &&
                    (by_birth ? p->buffers[i].born : p->buffers[i].last_used) < p->launch_count;
    const char *list = by_birth ? "births" : "deaths";
    if (!items || start[p->launch_count] != expected)
        return broken(p, NOBODY, "lifetime", "its %s list %d buffers, and there are %d", list,
                      items ? start[p->launch_count] : 0, expected);
    for (int launch = 0; launch < p->launch_count; launch++)
        for (int i = start[launch]; i < start[launch + 1]; i++) {
            const plan_buffer *b = &p->buffers[items[i]];
            if (b->is_persistent || (by_birth ? b->born : b->last_used) != launch ||
                (i > start[launch] && items[i - 1] >= items[i]))
                return broken(p, launch, "lifetime", "its %s list %s", list,
                              describe(p, items[i]).text);
        }
    return DYNO_OK;
}

/* ---- one launch ---- */

static dyno_status check_kernel(const plan *p, int launch) {
    const plan_launch *l = &p->launches[launch];
    if (l->scope < 0 || l->scope >= p->scope_count)
        return broken(p, launch, "index", "its scope is %d of %d", l->scope, p->scope_count);
    if (l->generated < -1 || l->generated >= p->generated_count)
        return broken(p, launch, "index", "its generated kernel is %d of %d", l->generated,
                      p->generated_count);
    if ((l->kernel != NULL) == (l->generated >= 0))
        return broken(p, launch, "index", "it has %s",
                      l->kernel ? "two kernels, one of them generated" : "no kernel");
    return DYNO_OK;
}

/* `what` and `number` say which operand it is: "input 2". */
static dyno_status check_operand(const plan *p, int launch, const char *what, int number,
                                 const plan_operand *o) {
    if (o->buffer < 0 || o->buffer >= p->buffer_count)
        return broken(p, launch, "index", "%s %d is in buffer %d of %d", what, number, o->buffer,
                      p->buffer_count);
    const plan_buffer *b = &p->buffers[o->buffer];
    byte_range range = plan_operand_range(o);
    if (!contains((byte_range){0, b->bytes}, range))
        return broken(p, launch, "bounds", "%s %d reaches from byte %lld to %lld of %s", what,
                      number, (long long)range.begin, (long long)range.end,
                      describe(p, o->buffer).text);
    int64_t reach = (int64_t)(p->micro_batches - 1) * o->repeat_bytes;
    byte_range last = {range.begin + reach, range.end + reach};
    if (o->repeat_bytes < 0 || (o->repeat_bytes && !b->is_persistent) ||
        !contains((byte_range){0, b->bytes}, last))
        return broken(p, launch, "repeat",
                      "%s %d moves by %lld bytes in each of %d micro-batches of %s", what, number,
                      (long long)o->repeat_bytes, p->micro_batches, describe(p, o->buffer).text);
    if (o->offset % dtype_bytes(o->layout.type) != 0)
        return broken(p, launch, "bounds", "%s %d, %s, begins at byte %lld of %s", what, number,
                      dtype_name(o->layout.type), (long long)o->offset,
                      describe(p, o->buffer).text);
    if (launch != NOBODY && (launch < b->born || launch > b->last_used))
        return broken(p, launch, "lifetime", "%s %d is in %s, which is not alive", what, number,
                      describe(p, o->buffer).text);
    if (b->role == ROLE_WORKSPACE)
        return broken(p, launch, "workspace", "%s %d is in %s", what, number,
                      describe(p, o->buffer).text);
    return DYNO_OK;
}

static dyno_status check_workspace(const plan *p, int launch) {
    int buffer = p->launches[launch].workspace;
    if (buffer == -1)
        return DYNO_OK;
    if (buffer < 0 || buffer >= p->buffer_count)
        return broken(p, launch, "index", "its workspace is buffer %d of %d", buffer,
                      p->buffer_count);
    if (p->buffers[buffer].role != ROLE_WORKSPACE || p->buffers[buffer].born != launch)
        return broken(p, launch, "workspace", "its workspace is %s", describe(p, buffer).text);
    return DYNO_OK;
}

static dyno_status check_phase(walk *w, int launch) {
    phase of_launch = w->p->launches[launch].phase;
    if (of_launch == PHASE_FORWARD && w->is_past_forward)
        return broken(w->p, launch, "phase",
                      "it is of the forward and comes behind a launch of the backward");
    w->is_past_forward = w->is_past_forward || of_launch == PHASE_BACKWARD;
    return DYNO_OK;
}

static dyno_status check_read(const walk *w, int launch, int input) {
    const plan *p = w->p;
    const plan_launch *l = &p->launches[launch];
    const plan_operand *o = &l->inputs[input];
    byte_range range = plan_operand_range(o), written = w->written[o->buffer];
    if (!p->buffers[o->buffer].is_persistent && !contains(written, range))
        return broken(p, launch, "write",
                      "input %d reads bytes %lld to %lld of %s, of which %lld to %lld are written",
                      input, (long long)range.begin, (long long)range.end,
                      describe(p, o->buffer).text, (long long)written.begin,
                      (long long)written.end);
    bool may_read_updates = l->phase == PHASE_OPTIMIZER || l->phase == PHASE_COMMUNICATION;
    if (!may_read_updates && meet(w->updated[o->buffer], range))
        return broken(p, launch, "phase", "input %d reads what the optimizer wrote to %s", input,
                      describe(p, o->buffer).text);
    return DYNO_OK;
}

static dyno_status check_overwrite(const walk *w, int launch, int input) {
    const plan *p = w->p;
    const plan_launch *l = &p->launches[launch];
    const plan_operand *in = &l->inputs[input];
    for (int i = w->output_of[in->buffer]; i != NOBODY; i = w->next_output[i]) {
        bool is_promised = input >= MOST_PROMISES || l->overwrites[i] >> input & 1;
        /* A rank's part of what it gathers lies where it belongs. */
        bool is_part = l->phase == PHASE_COMMUNICATION &&
                       contains(plan_operand_range(&l->outputs[i]), plan_operand_range(in));
        if ((is_promised && plan_operands_coincide(in, &l->outputs[i])) || is_part ||
            plan_operands_are_apart(in, &l->outputs[i]))
            continue;
        return broken(p, launch, "overwrite", "output %d shares bytes with input %d in %s%s", i,
                      input, describe(p, in->buffer).text,
                      is_promised ? " and lies otherwise" : ", which the kernel does not allow");
    }
    return DYNO_OK;
}

/* Indexes the launch's outputs by buffer, so that each is compared only with those in the same
 * buffer. */
static dyno_status enter_outputs(walk *w, int launch) {
    const plan_launch *l = &w->p->launches[launch];
    for (int i = 0; i < l->output_count; i++) {
        const plan_operand *o = &l->outputs[i];
        for (int j = w->output_of[o->buffer]; j != NOBODY; j = w->next_output[j])
            if (!plan_operands_are_apart(o, &l->outputs[j]))
                return broken(w->p, launch, "overwrite", "outputs %d and %d share bytes of %s", j,
                              i, describe(w->p, o->buffer).text);
        w->next_output[i] = w->output_of[o->buffer];
        w->output_of[o->buffer] = i;
    }
    return DYNO_OK;
}

static void note_writes(walk *w, int launch) {
    const plan_launch *l = &w->p->launches[launch];
    for (int i = 0; i < l->output_count; i++) {
        const plan_operand *o = &l->outputs[i];
        byte_range range = plan_operand_range(o);
        widen(&w->written[o->buffer], range);
        if (l->phase == PHASE_OPTIMIZER)
            widen(&w->updated[o->buffer], range);
        else if (contains(range, w->updated[o->buffer]))
            w->updated[o->buffer] = (byte_range){0}; /* reused for something else */
        w->output_of[o->buffer] = NOBODY;
    }
}

static dyno_status check_births(const walk *w, int launch) {
    const plan *p = w->p;
    for (int i = p->birth_start[launch]; i < p->birth_start[launch + 1]; i++) {
        int buffer = p->births[i];
        bool is_scratch = p->buffers[buffer].role == ROLE_WORKSPACE;
        if (is_scratch ? p->launches[launch].workspace != buffer
                       : p->buffers[buffer].bytes > 0 && is_empty(w->written[buffer]))
            return broken(p, launch, is_scratch ? "workspace" : "write", "it does not %s %s",
                          is_scratch ? "use" : "write", describe(p, buffer).text);
    }
    return DYNO_OK;
}

static dyno_status check_launch(walk *w, int launch) {
    const plan *p = w->p;
    const plan_launch *l = &p->launches[launch];
    RETURN_IF_FAILED(check_kernel(p, launch));
    for (int i = 0; i < l->input_count; i++)
        RETURN_IF_FAILED(check_operand(p, launch, "input", i, &l->inputs[i]));
    for (int i = 0; i < l->output_count; i++)
        RETURN_IF_FAILED(check_operand(p, launch, "output", i, &l->outputs[i]));
    RETURN_IF_FAILED(check_workspace(p, launch));
    RETURN_IF_FAILED(check_phase(w, launch));
    RETURN_IF_FAILED(enter_outputs(w, launch));
    for (int i = 0; i < l->input_count; i++) {
        RETURN_IF_FAILED(check_read(w, launch, i));
        RETURN_IF_FAILED(check_overwrite(w, launch, i));
    }
    note_writes(w, launch);
    return check_births(w, launch);
}

static dyno_status check_names(const walk *w) {
    const plan *p = w->p;
    for (int i = 0; i < p->name_count; i++) {
        const plan_operand *o = &p->names[i].operand;
        RETURN_IF_FAILED(check_operand(p, NOBODY, "name", i, o));
        const plan_buffer *b = &p->buffers[o->buffer];
        if (b->is_persistent || (b->last_used == p->launch_count &&
                                 contains(w->written[o->buffer], plan_operand_range(o))))
            continue;
        return broken(p, NOBODY, "name", "'%s' is in %s, which is %s", p->names[i].name,
                      describe(p, o->buffer).text,
                      b->last_used == p->launch_count ? "not written there"
                                                      : "gone when the caller reads it");
    }
    return DYNO_OK;
}

static dyno_status check_gradients(const plan *p) {
    for (int i = 0; i < p->parameter_count; i++) {
        const plan_operand *o = &p->parameters[i].gradient_at;
        if (o->buffer == -1)
            continue;
        RETURN_IF_FAILED(check_operand(p, NOBODY, "gradient", i, o));
        if (p->buffers[o->buffer].role != ROLE_GRADIENT)
            return broken(p, NOBODY, "gradient", "of '%s' is in %s, which is for something else",
                          p->parameters[i].name, describe(p, o->buffer).text);
    }
    return DYNO_OK;
}

/* ---- streams ----
 *
 * A launch on stream 1, `side`, runs concurrently with those that follow it up to the next one on
 * stream 1. It is compared with each of them through its buffers: no other buffer can have its
 * bytes, because its own stay alive that long. */

static dyno_status check_kept(const plan *p, int side, int next, int buffer) {
    if (p->buffers[buffer].last_used >= next)
        return DYNO_OK;
    return broken(p, side, "stream",
                  "it is on stream 1 and uses %s, which must live until launch %d, the next there",
                  describe(p, buffer).text, next);
}

static dyno_status check_beside(const plan *p, int side, int launch, const plan_operand *o,
                                bool is_written, const int *use) {
    const plan_launch *s = &p->launches[side];
    for (int i = 0; use[o->buffer] == side && i < s->input_count + s->output_count; i++) {
        bool side_writes = i >= s->input_count;
        const plan_operand *its = side_writes ? &s->outputs[i - s->input_count] : &s->inputs[i];
        if (its->buffer == o->buffer && (is_written || side_writes) &&
            !plan_operands_are_apart(its, o))
            return broken(p, launch, "stream", "it %s %s, which launch %d on stream 1 %s beside it",
                          is_written ? "writes" : "reads", describe(p, o->buffer).text, side,
                          side_writes ? "writes" : "reads");
    }
    return DYNO_OK;
}

static dyno_status check_side_launch(const plan *p, int side, int next, int *use) {
    const plan_launch *s = &p->launches[side];
    for (int i = 0; i < s->input_count; i++) {
        RETURN_IF_FAILED(check_kept(p, side, next, s->inputs[i].buffer));
        use[s->inputs[i].buffer] = side;
    }
    for (int i = 0; i < s->output_count; i++) {
        RETURN_IF_FAILED(check_kept(p, side, next, s->outputs[i].buffer));
        use[s->outputs[i].buffer] = side;
    }
    if (s->workspace >= 0)
        RETURN_IF_FAILED(check_kept(p, side, next, s->workspace));
    for (int i = side + 1; i < next; i++) {
        const plan_launch *l = &p->launches[i];
        for (int j = 0; j < l->input_count; j++)
            RETURN_IF_FAILED(check_beside(p, side, i, &l->inputs[j], false, use));
        for (int j = 0; j < l->output_count; j++)
            RETURN_IF_FAILED(check_beside(p, side, i, &l->outputs[j], true, use));
    }
    return DYNO_OK;
}

/* A collective beside other launches: its buffers live until the first launch that waits for it. */
static dyno_status check_overlapped(const plan *p, int side) {
    const plan_launch *s = &p->launches[side];
    int next = side + 1;
    while (next < p->launch_count && !plan_launches_conflict(p, side, next))
        next++;
    for (int i = 0; i < s->input_count + s->output_count; i++) {
        int buffer = (i < s->input_count ? &s->inputs[i] : &s->outputs[i - s->input_count])->buffer;
        if (p->buffers[buffer].last_used < next)
            return broken(p, side, "stream",
                          "it is a collective beside other launches and uses %s, which must live "
                          "until launch %d",
                          describe(p, buffer).text, next);
    }
    return DYNO_OK;
}

static dyno_status check_streams(const plan *p) {
    /* By buffer: the launch on stream 1 that was looked at last and uses it, or NOBODY. */
    int *use = memory_allocate((size_t)p->buffer_count, sizeof *use);
    dyno_status status = DYNO_OK;
    int next = p->launch_count;
    for (int i = 0; i < p->buffer_count; i++)
        use[i] = NOBODY;
    for (int i = p->launch_count - 1; i >= 0 && status == DYNO_OK; i--) {
        int stream = p->launches[i].stream;
        if (stream != 0 && stream != 1 && stream != PLAN_STREAM_COMMUNICATION)
            status = broken(p, i, "stream", "it is on stream %d; there are 0 to %d", stream,
                            PLAN_STREAM_COMMUNICATION);
        if (stream == PLAN_STREAM_COMMUNICATION)
            status =
                p->launches[i].phase == PHASE_COMMUNICATION
                    ? check_overlapped(p, i)
                    : broken(p, i, "stream", "it is on stream %d, that of collectives", stream);
        if (stream != 1 || status != DYNO_OK)
            continue;
        status = check_side_launch(p, i, next, use);
        next = i;
    }
    free(use);
    return status;
}

/* ---- micro-batches ---- */

/* What a launch of the last micro-batch makes is not there in those before it. */
static dyno_status check_single(const plan *p) {
    bool *is_single = memory_allocate((size_t)p->buffer_count, sizeof *is_single);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < p->repeated_launches && status == DYNO_OK; i++) {
        const plan_launch *l = &p->launches[i];
        for (int j = 0; j < l->output_count; j++)
            if (!p->buffers[l->outputs[j].buffer].is_persistent)
                is_single[l->outputs[j].buffer] = l->runs_once;
        for (int j = 0; j < l->input_count && !l->runs_once && status == DYNO_OK; j++)
            if (is_single[l->inputs[j].buffer])
                status = broken(p, i, "repeat",
                                "it runs %d times and reads %s, which is made in the last one only",
                                p->micro_batches, describe(p, l->inputs[j].buffer).text);
    }
    free(is_single);
    return status;
}

/* Launches that run again and again may change nothing that lives across steps but sums of
 * gradients. */
static dyno_status check_repeated(const plan *p) {
    bool is_repeated = p->micro_batches > 1;
    if (p->micro_batches < 1 || p->repeated_launches < 0 ||
        p->repeated_launches > p->launch_count || is_repeated != (p->repeated_launches > 0))
        return broken(p, NOBODY, "repeat", "%d micro-batches of %d launches, of %d",
                      p->micro_batches, p->repeated_launches, p->launch_count);
    for (int i = 0; i < p->repeated_launches; i++)
        for (int j = 0; j < p->launches[i].output_count; j++) {
            int buffer = p->launches[i].outputs[j].buffer;
            if (p->buffers[buffer].is_persistent && p->buffers[buffer].role != ROLE_GRADIENT)
                return broken(p, i, "repeat", "it runs %d times and writes %s", p->micro_batches,
                              describe(p, buffer).text);
        }
    return check_single(p);
}

/* ---- the arena ---- */

static bool share_bytes(const plan *p, int a, int b) {
    const plan_buffer *x = &p->buffers[a], *y = &p->buffers[b];
    return meet((byte_range){x->offset, x->offset + x->bytes},
                (byte_range){y->offset, y->offset + y->bytes});
}

/* `items`, by buffer, are those that `alive` consists of: sorted by offset, then by number. */
static dyno_status place_in_arena(const plan *p, int launch, int buffer, ordered_item *items,
                                  ordered_set *alive) {
    const plan_buffer *b = &p->buffers[buffer];
    if (b->offset < 0 || b->offset % MEMORY_PLAN_ALIGNMENT != 0 ||
        b->bytes > p->arena_bytes - b->offset)
        return broken(p, launch, "arena", "%s is at byte %lld of %lld; %d is the alignment",
                      describe(p, buffer).text, (long long)b->offset, (long long)p->arena_bytes,
                      MEMORY_PLAN_ALIGNMENT);
    const ordered_item *const neighbours[] = {ordered_set_last_before(alive, b->offset, 0),
                                              ordered_set_first_from(alive, b->offset, 0)};
    for (int i = 0; i < 2; i++) {
        int other = neighbours[i] ? (int)neighbours[i]->second : NOBODY;
        if (other != NOBODY && share_bytes(p, other, buffer))
            return broken(p, launch, "arena",
                          "%s, at byte %lld, shares bytes with %s, at byte %lld",
                          describe(p, buffer).text, (long long)b->offset, describe(p, other).text,
                          (long long)p->buffers[other].offset);
    }
    items[buffer] = (ordered_item){.key = b->offset, .second = buffer};
    ordered_set_add(alive, &items[buffer]);
    return DYNO_OK;
}

static dyno_status check_arena(const plan *p) {
    ordered_item *items = memory_allocate((size_t)p->buffer_count, sizeof *items);
    ordered_set alive = {0};
    dyno_status status = DYNO_OK;
    for (int launch = 0; launch < p->launch_count && status == DYNO_OK; launch++) {
        for (int i = p->birth_start[launch]; i < p->birth_start[launch + 1] && status == DYNO_OK;
             i++)
            if (p->buffers[p->births[i]].bytes > 0)
                status = place_in_arena(p, launch, p->births[i], items, &alive);
        for (int i = p->death_start[launch]; i < p->death_start[launch + 1] && status == DYNO_OK;
             i++)
            if (p->buffers[p->deaths[i]].bytes > 0)
                ordered_set_remove(&alive, &items[p->deaths[i]]);
    }
    free(items);
    return status;
}

/* ---- all of it ---- */

static dyno_status check_launches(const plan *p) {
    size_t buffers = (size_t)p->buffer_count;
    int most_outputs = 0;
    for (int i = 0; i < p->launch_count; i++)
        if (p->launches[i].output_count > most_outputs)
            most_outputs = p->launches[i].output_count;
    walk w = {.p = p,
              .written = memory_allocate(buffers, sizeof *w.written),
              .updated = memory_allocate(buffers, sizeof *w.updated),
              .output_of = memory_allocate(buffers, sizeof *w.output_of),
              .next_output = memory_allocate((size_t)most_outputs, sizeof *w.next_output)};
    for (int i = 0; i < p->buffer_count; i++)
        w.output_of[i] = NOBODY;
    dyno_status status = DYNO_OK;
    for (int i = 0; i < p->launch_count && status == DYNO_OK; i++)
        status = check_launch(&w, i);
    if (status == DYNO_OK)
        status = check_names(&w);
    if (status == DYNO_OK)
        status = check_gradients(p);
    free(w.written);
    free(w.updated);
    free(w.output_of);
    free(w.next_output);
    return status;
}

dyno_status plan_verify(const plan *p) {
    RETURN_IF_FAILED(check_buffers(p));
    RETURN_IF_FAILED(check_repeated(p));
    RETURN_IF_FAILED(check_sorted(p, true, p->births, p->birth_start));
    RETURN_IF_FAILED(check_sorted(p, false, p->deaths, p->death_start));
    RETURN_IF_FAILED(check_launches(p));
    RETURN_IF_FAILED(check_streams(p));
    return p->memory_mode == PLAN_MEMORY_STATIC ? check_arena(p) : DYNO_OK;
}
