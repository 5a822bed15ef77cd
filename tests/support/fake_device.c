#define _GNU_SOURCE
#include "support/fake_device.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/memory.h"

struct program {
    fake_device *f;
    program *on_cpu;
    const plan *p;
    const device_launch *steps; /* of the capture */
    int step_count;
    int *event_after;
    int event_count;
};

typedef enum work_kind { WORK_LAUNCH, WORK_REPLAY, WORK_CLEAR, WORK_WRITE, WORK_EVENT } work_kind;

/* One thing put off. Only what its kind needs is set. */
typedef struct fake_work {
    work_kind kind;
    program *code;
    int index; /* launch or slot */
    kernel_args args;
    tensor *operands;
    char *to, *data;
    int64_t bytes;
} fake_work;

static fake_device *from(device *d) { return (fake_device *)d; }

static char *real_address(const fake_device *f, const void *shown) {
    const char *at = shown;
    for (int i = 0; at && i < FAKE_MOST_RANGES; i++)
        if (f->ranges[i].shown && at >= f->ranges[i].shown &&
            at < f->ranges[i].shown + f->ranges[i].bytes)
            return f->ranges[i].real + (at - f->ranges[i].shown);
    assert_null(at); /* an address that is none of ours */
    return NULL;
}

/* ---- putting off and doing ---- */

static fake_work *put_off(fake_device *f, work_kind kind) {
    MEMORY_GROW(f->work, f->waiting, f->work_capacity);
    fake_work *w = &f->work[f->waiting++];
    memset(w, 0, sizeof *w);
    w->kind = kind;
    return w;
}

/* A copy whose tensors lie where the memory is. */
static kernel_args take_args(const fake_device *f, const kernel_args *args, tensor **operands) {
    int count = args->input_count + args->output_count;
    *operands = memory_allocate((size_t)count, sizeof **operands);
    for (int i = 0; i < count; i++) {
        (*operands)[i] =
            i < args->input_count ? args->inputs[i] : args->outputs[i - args->input_count];
        (*operands)[i].data = real_address(f, (*operands)[i].data);
    }
    kernel_args real = *args;
    real.inputs = *operands;
    real.outputs = *operands + args->input_count;
    real.workspace = real_address(f, args->workspace);
    return real;
}

static void record_now(fake_device *f, int slot) {
    if (slot >= f->event_capacity) {
        int capacity = 2 * slot + 16;
        f->event_ns = memory_resize(f->event_ns, (size_t)capacity, sizeof *f->event_ns);
        f->event_capacity = capacity;
    }
    f->event_ns[slot] = f->launch_ns ? f->now_ns : clock_now_ns();
}

/* The work of a launch in known time, where it is known. */
static void take_known_time(fake_device *f, int index, launch_record *record) {
    int64_t factor = f->observed && f->observed_steps == 1 && f->first_factor ? f->first_factor : 1;
    f->now_ns += index == 0 ? f->step_gap_ns : f->launch_gap_ns;
    record->begin_ns = f->now_ns;
    f->now_ns += f->launch_ns[index] * factor;
    record->end_ns = f->now_ns;
}

/* Runs a launch and, if somebody looks, records when. */
static void do_launch(program *r, int index, const kernel_args *args) {
    fake_device *f = r->f;
    launch_record record = {.launch = index, .begin_ns = clock_now_ns()};
    assert_int_equal(device_cpu()->functions->launch(r->on_cpu, index, args), DYNO_OK);
    f->observed_steps += f->observed == r && index == 0;
    record.end_ns = clock_now_ns();
    if (f->launch_ns)
        take_known_time(f, index, &record);
    if (f->observed != r)
        return;
    record.step = f->observed_steps - 1;
    record.correlation = f->seen.count + 1;
    if (index + 1 != f->hidden_launch)
        launch_log_add(&f->seen, &record);
    record.launch = LAUNCH_UNKNOWN;
    if (f->has_stranger && index == 0)
        launch_log_add(&f->seen, &record);
}

static void do_replay(program *r) {
    fake_device *f = r->f;
    int events = 0;
    record_now(f, 0);
    for (int i = 0; i < r->step_count; i++) {
        tensor *operands;
        kernel_args args = take_args(f, r->steps[i].args, &operands);
        do_launch(r, r->steps[i].launch, &args);
        free(operands);
        while (events < r->event_count && r->event_after[events] == i)
            record_now(f, ++events);
    }
    assert_int_equal(events, r->event_count);
    f->events = events;
}

static void do_work(fake_device *f, fake_work *w) {
    switch (w->kind) {
    case WORK_LAUNCH:
        do_launch(w->code, w->index, &w->args);
        break;
    case WORK_REPLAY:
        do_replay(w->code);
        break;
    case WORK_CLEAR:
        memset(w->to, 0, (size_t)w->bytes);
        break;
    case WORK_WRITE:
        memcpy(w->to, w->data, (size_t)w->bytes);
        break;
    case WORK_EVENT:
        record_now(f, w->index);
        break;
    }
    free(w->operands);
    free(w->data);
}

static void catch_up(fake_device *f) {
    for (int i = 0; i < f->waiting; i++)
        do_work(f, &f->work[i]);
    f->waiting = 0;
}

/* ---- memory ---- */

static int64_t available_bytes(device *d) { return from(d)->memory_bytes; }

static int64_t whole_granules(int64_t bytes) {
    return (bytes + FAKE_GRANULARITY - 1) / FAKE_GRANULARITY * FAKE_GRANULARITY;
}

static char *map_nothing(int64_t bytes) {
    void *at =
        mmap(NULL, (size_t)bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static dyno_status reserve(device *d, int64_t bytes, void **base) {
    fake_device *f = from(d);
    int at = 0;
    while (at < FAKE_MOST_RANGES && f->ranges[at].shown)
        at++;
    assert_true(at < FAKE_MOST_RANGES);
    bytes = whole_granules(bytes);
    f->ranges[at] = (fake_range){map_nothing(bytes), map_nothing(bytes), bytes};
    *base = f->ranges[at].shown;
    return DYNO_OK;
}

static dyno_status commit(device *d, void *base, int64_t have, int64_t want, int64_t *got) {
    fake_device *f = from(d);
    assert_int_equal(have % FAKE_GRANULARITY, 0);
    assert_true(want > have);
    int64_t more = whole_granules(want) - have;
    f->commits++;
    if (f->fails_commits)
        return dyno_fail(DYNO_DEVICE_FAILED, "the fake device broke down");
    if (f->committed_bytes + more > f->memory_bytes)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "the fake device has no more memory");
    char *real = real_address(f, base);
    assert_int_equal(mprotect(real + have, (size_t)more, PROT_READ | PROT_WRITE), 0);
    memset(real + have, 0xa5, (size_t)more); /* what was there before is anybody's */
    f->committed_bytes += more;
    *got = have + more;
    return DYNO_OK;
}

/* As a GPU: only the end goes. */
static void decommit(device *d, void *base, int64_t offset, int64_t bytes, int64_t *have) {
    fake_device *f = from(d);
    f->decommits++;
    assert_int_equal(f->waiting, 0);
    assert_true(offset >= 0 && bytes > 0 && offset + bytes <= *have);
    int64_t keep = whole_granules(offset);
    if (offset + bytes < *have || keep >= *have)
        return;
    assert_int_equal(mprotect(real_address(f, base) + keep, (size_t)(*have - keep), PROT_NONE), 0);
    f->committed_bytes -= *have - keep;
    *have = keep;
}

static void release(device *d, void *base, int64_t bytes, int64_t have) {
    fake_device *f = from(d);
    assert_int_equal(f->waiting, 0);
    for (int i = 0; i < FAKE_MOST_RANGES; i++) {
        fake_range *r = &f->ranges[i];
        if (r->shown != base)
            continue;
        assert_int_equal(r->bytes, whole_granules(bytes));
        munmap(r->shown, (size_t)r->bytes);
        munmap(r->real, (size_t)r->bytes);
        f->committed_bytes -= have;
        *r = (fake_range){0};
        return;
    }
    fail_msg("released what was not reserved");
}

static void clear(device *d, void *to, int64_t bytes) {
    from(d)->clears++;
    fake_work *w = put_off(from(d), WORK_CLEAR);
    w->to = real_address(from(d), to);
    w->bytes = bytes;
}

static void write_to(device *d, void *to, const void *data, int64_t bytes) {
    from(d)->writes++;
    fake_work *w = put_off(from(d), WORK_WRITE);
    w->to = real_address(from(d), to);
    w->bytes = bytes;
    w->data = memory_allocate((size_t)bytes, 1);
    memcpy(w->data, data, (size_t)bytes);
}

static void read_from(device *d, void *to, const void *at, int64_t bytes) {
    from(d)->reads++;
    catch_up(from(d));
    memcpy(to, real_address(from(d), at), (size_t)bytes);
}

static dyno_status finish(device *d) {
    fake_device *f = from(d);
    f->finishes++;
    catch_up(f);
    if (!f->fails_next_finish)
        return DYNO_OK;
    f->fails_next_finish = false;
    return dyno_fail(DYNO_UNSUPPORTED, "the fake device broke down");
}

/* ---- running ---- */

static dyno_status program_create(device *d, const plan *p, program **out) {
    *out = NULL;
    program *on_cpu;
    RETURN_IF_FAILED(device_cpu()->functions->program_create(device_cpu(), p, &on_cpu));
    *out = memory_allocate(1, sizeof **out);
    **out = (program){.f = from(d), .on_cpu = on_cpu, .p = p};
    from(d)->programs++;
    return DYNO_OK;
}

static void program_destroy(program *r) {
    for (int i = 0; i < r->f->waiting; i++)
        assert_ptr_not_equal(r->f->work[i].code, r);
    r->f->programs--;
    device_cpu()->functions->program_destroy(r->on_cpu);
    free(r->event_after);
    free(r);
}

static dyno_status launch(program *r, int index, const kernel_args *args) {
    r->f->launches++;
    tensor *operands;
    kernel_args real = take_args(r->f, args, &operands);
    fake_work *w = put_off(r->f, WORK_LAUNCH);
    w->code = r;
    w->index = index;
    w->args = real;
    w->operands = operands;
    return DYNO_OK;
}

static dyno_status capture(program *r, const device_launch *steps, int count,
                           const int *event_after, int event_count) {
    r->f->captures++;
    r->steps = steps;
    r->step_count = count;
    r->event_count = event_count;
    r->event_after = memory_resize(r->event_after, (size_t)event_count + 1, sizeof *event_after);
    memcpy(r->event_after, event_after, (size_t)event_count * sizeof *event_after);
    return DYNO_OK;
}

static dyno_status replay(program *r) {
    assert_non_null(r->steps);
    r->f->replays++;
    put_off(r->f, WORK_REPLAY)->code = r;
    return DYNO_OK;
}

/* ---- time ---- */

static void record_event(device *d, int slot) { put_off(from(d), WORK_EVENT)->index = slot; }

static int64_t elapsed_ns(device *d, int begin, int end) {
    fake_device *f = from(d);
    assert_int_equal(f->waiting, 0);
    assert_true(begin < f->event_capacity && end < f->event_capacity);
    return f->event_ns[end] - f->event_ns[begin];
}

static dyno_status observe_begin(program *r) {
    fake_device *f = r->f;
    if (!f->can_observe)
        return dyno_fail(DYNO_UNSUPPORTED, "the fake device keeps no records");
    assert_null(f->observed);
    f->observed = r;
    f->observed_steps = 0;
    return DYNO_OK;
}

/* The last record comes first. */
static dyno_status observe_end(program *r, launch_log *out) {
    fake_device *f = r->f;
    assert_ptr_equal(f->observed, r);
    assert_int_equal(f->waiting, 0);
    *out = (launch_log){.dropped = f->dropped_records};
    for (int64_t i = f->seen.count - 1; i >= 0; i--)
        launch_log_add(out, &f->seen.records[i]);
    launch_log_release(&f->seen);
    f->observed = NULL;
    return DYNO_OK;
}

static void close_fake(device *d) {
    fake_device *f = from(d);
    catch_up(f);
    assert_int_equal(f->programs, 0);
    assert_null(f->observed);
    assert_int_equal(f->committed_bytes, 0);
    for (int i = 0; i < FAKE_MOST_RANGES; i++)
        assert_null(f->ranges[i].shown);
    free(f->work);
    free(f->event_ns);
    free(f);
}

fake_device *fake_device_create(int64_t memory_bytes, bool can_capture) {
    static const device_functions plain = {.close = close_fake,
                                           .available_bytes = available_bytes,
                                           .reserve = reserve,
                                           .commit = commit,
                                           .decommit = decommit,
                                           .release = release,
                                           .clear = clear,
                                           .write = write_to,
                                           .read = read_from,
                                           .finish = finish,
                                           .program_create = program_create,
                                           .program_destroy = program_destroy,
                                           .launch = launch,
                                           .record_event = record_event,
                                           .elapsed_ns = elapsed_ns,
                                           .observe_begin = observe_begin,
                                           .observe_end = observe_end};
    static device_functions capturing;
    capturing = plain;
    capturing.capture = capture;
    capturing.replay = replay;
    fake_device *f = memory_allocate(1, sizeof *f);
    f->base = (device){.functions = can_capture ? &capturing : &plain,
                       .target = *target_this_cpu(),
                       .name = "fake",
                       .description = "memory out of reach",
                       .granularity = FAKE_GRANULARITY};
    f->memory_bytes = memory_bytes;
    return f;
}
