#include "experiments/memory_snapshot.h"

#include <stdlib.h>

#include "base/memory.h"
#include "formats/pickle_writer.h"
#include "plan/memory_walk.h"

/* Where the pool seems to begin: any address that is no offset, below 2^53, which JavaScript counts to. */
static const int64_t BASE = 0x7f0000000000;

/* ---- records of a plan ---- */

typedef struct prediction {
    const plan *p;
    memory_record *records;
    int count, capacity;
} prediction;

static void add_record(prediction *to, int buffer, int launch, int64_t offset, int64_t bytes,
                       bool is_allocation) {
    const plan_buffer *b = &to->p->buffers[buffer];
    MEMORY_GROW(to->records, to->count, to->capacity);
    to->records[to->count++] = (memory_record){.is_allocation = is_allocation,
                                               .launch = launch,
                                               .offset = offset,
                                               .bytes = bytes,
                                               .tensor_bytes = b->bytes,
                                               .role = b->role,
                                               .type = b->type,
                                               .shape = b->shape,
                                               .scope = to->p->scopes[b->scope],
                                               .name = b->name};
}

static void add_birth(void *to, int buffer, int launch, int64_t offset, int64_t bytes) {
    add_record(to, buffer, launch, offset, bytes, true);
}

static void add_death(void *to, int buffer, int launch, int64_t offset, int64_t bytes) {
    add_record(to, buffer, launch, offset, bytes, false);
}

void memory_snapshot_predict(const plan *p, memory_record **out, int *count) {
    prediction to = {.p = p};
    memory_walk(p, &(memory_visitor){.context = &to, .on_birth = add_birth, .on_death = add_death});
    *out = to.records;
    *count = to.count;
}

/* ---- events ---- */

typedef struct snapshot {
    const plan *p;
    pickle_writer *w;
    int stack_of_launch; /* the stack of this launch is remembered ... */
    int remembered;      /* ... here */
} snapshot;

static void add_frame(pickle_writer *w, const char *where, int line, const char *what) {
    pickle_begin_dict(w);
    pickle_set_text(w, "filename", where);
    pickle_set_integer(w, "line", line);
    pickle_set_text(w, "name", what);
    pickle_end(w);
}

/* Innermost first: what was made by which op, then the phase. */
static void add_stack_of_birth(snapshot *s, const memory_record *r) {
    text what = {0};
    bool is_launched = r->launch >= 0;
    const plan_launch *l = is_launched ? &s->p->launches[r->launch] : NULL;
    text_format(&what, "%s%s%s[%s] %s", l ? l->op_name : "", l ? " -> " : "", dtype_name(r->type),
                shape_format(&r->shape).text, role_name(r->role));
    pickle_begin_list(s->w);
    add_frame(s->w, r->name ? r->name : r->scope, is_launched ? r->launch : 0, text_string(&what));
    add_frame(s->w, "step", 0, l ? phase_name(l->phase) : "before the first launch");
    pickle_end(s->w);
    text_release(&what);
}

/* The launch that used it last. */
static void add_stack_of_death(snapshot *s, const memory_record *r) {
    if (s->remembered >= 0 && s->stack_of_launch == r->launch) {
        pickle_add_again(s->w, s->remembered);
        return;
    }
    const plan_launch *l = r->launch >= 0 ? &s->p->launches[r->launch] : NULL;
    pickle_begin_list(s->w);
    add_frame(s->w, l ? s->p->scopes[l->scope] : "step", l ? r->launch : 0,
              l ? l->op_name : "before the first launch");
    add_frame(s->w, "step", 0, l ? phase_name(l->phase) : "before the first launch");
    pickle_end(s->w);
    s->remembered = pickle_remember(s->w);
    s->stack_of_launch = r->launch;
}

/* An event is begun here and ended by the caller, who adds its frames. */
static void begin_event(pickle_writer *w, const char *action, int64_t offset, int64_t bytes,
                        int launch, const char *category) {
    pickle_begin_dict(w);
    pickle_set_text(w, "action", action);
    pickle_set_integer(w, "addr", BASE + offset);
    pickle_set_integer(w, "size", bytes);
    pickle_set_integer(w, "stream", 0);
    pickle_set_integer(w, "time_us", launch + 1);
    pickle_set_text(w, "category", category);
    pickle_add_text(w, "frames");
}

static void add_birth_event(snapshot *s, const memory_record *r) {
    begin_event(s->w, "alloc", r->offset, r->bytes, r->launch, role_name(r->role));
    add_stack_of_birth(s, r);
    pickle_end(s->w);
}

static void add_death_events(snapshot *s, const memory_record *r) {
    static const char *const actions[] = {"free_requested", "free_completed"};
    for (int i = 0; i < 2; i++) {
        begin_event(s->w, actions[i], r->offset, r->bytes, r->launch, role_name(r->role));
        add_stack_of_death(s, r);
        pickle_end(s->w);
    }
}

static void add_events(snapshot *s, const memory_record *records, int count, int64_t reserved) {
    pickle_begin_list(s->w);
    begin_event(s->w, "segment_alloc", 0, reserved, -1, "unknown");
    pickle_begin_list(s->w);
    pickle_end(s->w);
    pickle_end(s->w);
    for (int i = 0; i < count; i++)
        if (records[i].is_allocation)
            add_birth_event(s, &records[i]);
        else
            add_death_events(s, &records[i]);
    pickle_end(s->w);
}

/* ---- the segment at the end ---- */

static int by_offset(const void *a, const void *b) {
    const memory_record *x = *(const memory_record *const *)a,
                        *y = *(const memory_record *const *)b;
    if (x->offset != y->offset)
        return (x->offset > y->offset) - (x->offset < y->offset);
    return (x > y) - (x < y);
}

/* The allocations that were not released: of those at one offset, in order, all but the last were. */
static const memory_record **find_living(const memory_record *records, int count, int *living) {
    const memory_record **sorted = memory_allocate((size_t)count + 1, sizeof *sorted);
    for (int i = 0; i < count; i++)
        sorted[i] = &records[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_offset);
    *living = 0;
    for (int i = 0, end; i < count; i = end) {
        int balance = 0;
        const memory_record *last = NULL;
        for (end = i; end < count && sorted[end]->offset == sorted[i]->offset; end++) {
            balance += sorted[end]->is_allocation ? 1 : -1;
            last = sorted[end]->is_allocation ? sorted[end] : last;
        }
        if (balance > 0)
            sorted[(*living)++] = last;
    }
    return sorted;
}

static void add_block(snapshot *s, int64_t offset, int64_t bytes, const memory_record *r) {
    pickle_begin_dict(s->w);
    pickle_set_integer(s->w, "address", BASE + offset);
    pickle_set_integer(s->w, "size", bytes);
    pickle_set_integer(s->w, "requested_size", r ? r->tensor_bytes : 0);
    pickle_set_text(s->w, "state", r ? "active_allocated" : "inactive");
    pickle_add_text(s->w, "frames");
    if (r) {
        add_stack_of_birth(s, r);
    } else {
        pickle_begin_list(s->w);
        pickle_end(s->w);
    }
    pickle_end(s->w);
}

static void add_segment(snapshot *s, const memory_record *records, int count, int64_t reserved) {
    int living;
    const memory_record **alive = find_living(records, count, &living);
    int64_t allocated = 0, requested = 0, end = 0;
    for (int i = 0; i < living; i++) {
        allocated += alive[i]->bytes;
        requested += alive[i]->tensor_bytes;
    }
    pickle_begin_dict(s->w);
    pickle_set_integer(s->w, "device", 0);
    pickle_set_integer(s->w, "address", BASE);
    pickle_set_integer(s->w, "total_size", reserved);
    pickle_set_integer(s->w, "allocated_size", allocated);
    pickle_set_integer(s->w, "active_size", allocated);
    pickle_set_integer(s->w, "requested_size", requested);
    pickle_set_integer(s->w, "stream", 0);
    pickle_set_text(s->w, "segment_type", "large");
    pickle_add_text(s->w, "segment_pool_id");
    pickle_begin_list(s->w);
    pickle_add_integer(s->w, 0);
    pickle_add_integer(s->w, 0);
    pickle_end(s->w);
    pickle_set_boolean(s->w, "is_expandable", false);
    pickle_add_text(s->w, "frames");
    pickle_begin_list(s->w);
    pickle_end(s->w);
    pickle_add_text(s->w, "blocks");
    pickle_begin_list(s->w);
    for (int i = 0; i < living; i++) {
        if (alive[i]->offset > end)
            add_block(s, end, alive[i]->offset - end, NULL);
        add_block(s, alive[i]->offset, alive[i]->bytes, alive[i]);
        end = alive[i]->offset + alive[i]->bytes;
    }
    if (end < reserved)
        add_block(s, end, reserved - end, NULL);
    pickle_end(s->w);
    pickle_end(s->w);
    free(alive);
}

void memory_snapshot_append(const plan *p, const memory_record *records, int count,
                            int64_t reserved_bytes, text *out) {
    snapshot s = {.p = p, .w = pickle_writer_create(out), .remembered = -1};
    pickle_begin_dict(s.w);
    pickle_add_text(s.w, "segments");
    pickle_begin_list(s.w);
    add_segment(&s, records, count, reserved_bytes);
    pickle_end(s.w);
    pickle_add_text(s.w, "device_traces");
    pickle_begin_list(s.w);
    add_events(&s, records, count, reserved_bytes);
    pickle_end(s.w);
    pickle_end(s.w);
    pickle_writer_finish(s.w);
}
