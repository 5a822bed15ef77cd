/* cpu_device.c - the CPU as a device: memory is the process's own, and a launch is a call.
 *
 * Pages become resident when they are first touched and stay so, which is what makes the second
 * step cheap: commit has nothing to do. Events belong to the thread that records them, because the
 * one CPU serves executors on any number of threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/system_memory.h"
#include "base/units.h"
#include "ops/levels.h"
#include "runtime/device.h"
#include "runtime/generated.h"

/* Kept free for the process itself: code, stacks, the libraries' own buffers. */
#define PROCESS_BYTES ((int64_t)256 << 20)

/* So that huge pages can back memory whole. */
#define HUGE_PAGE_BYTES ((int64_t)2 << 20)

struct program {
    device *d;
    const plan *p;
    const kernel **kernels;       /* of each launch, at the level of the plan's target */
    generated_kernels *generated; /* NULL when the plan has none */
};

static void close_cpu(device *d) {
    if (d != device_cpu())
        free(d);
}

/* ---- memory ---- */

static int64_t available_bytes(device *d) {
    (void)d;
    int64_t available = system_memory_read().available_bytes;
    if (available <= 0)
        available = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    available -= PROCESS_BYTES;
    return available > 0 ? available : 0;
}

static size_t whole_pages(int64_t bytes) {
    return (size_t)((bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
}

static dyno_status reserve(device *d, int64_t bytes, void **base) {
    (void)d;
    errno = ENOMEM;
    *base = memory_is_refused() ? MAP_FAILED
                                : mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*base == MAP_FAILED) {
        *base = NULL;
        return dyno_fail(DYNO_OUT_OF_MEMORY, "cannot reserve %s of address space: %s",
                         units_bytes(bytes).text, strerror(errno));
    }
    madvise(*base, whole_pages(bytes), MADV_HUGEPAGE); /* a hint; small pages work too */
    return DYNO_OK;
}

static dyno_status commit(device *d, void *base, int64_t have, int64_t want, int64_t *got) {
    (void)d;
    (void)base;
    *got = want > have ? want : have;
    return DYNO_OK;
}

static void decommit(device *d, void *base, int64_t offset, int64_t bytes, int64_t *have) {
    (void)d;
    (void)have; /* the pages are still mapped */
    int64_t page = sysconf(_SC_PAGESIZE);
    int64_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
    if (begin < end)
        madvise((char *)base + begin, (size_t)(end - begin), MADV_DONTNEED);
}

static void release(device *d, void *base, int64_t bytes, int64_t have) {
    (void)d;
    (void)have;
    munmap(base, whole_pages(bytes));
}

/* Gigabytes take seconds where the system has to find the pages. Cut short, the memory is not to be
 * used: whoever asked for it asks as well whether to stop. */
static void clear(device *d, void *to, int64_t bytes) {
    enum { PIECE = 16 << 20 };
    (void)d;
    for (int64_t at = 0; at < bytes && !stop_is_requested(); at += PIECE)
        memset((char *)to + at, 0, (size_t)(bytes - at < PIECE ? bytes - at : PIECE));
}

static void copy(device *d, void *to, const void *from, int64_t bytes) {
    (void)d;
    memmove(to, from, (size_t)bytes); /* may be the same place: see executor_read */
}

static dyno_status finish(device *d) {
    (void)d;
    return DYNO_OK;
}

/* ---- running ---- */

static dyno_status program_create(device *d, const plan *p, program **out) {
    *out = NULL;
    generated_kernels *generated = NULL;
    if (p->generated_count)
        RETURN_IF_FAILED(generated_load(p, &generated));
    *out = memory_allocate(1, sizeof **out);
    **out = (program){.d = d, .p = p, .generated = generated};
    (*out)->kernels = memory_allocate((size_t)p->launch_count, sizeof *(*out)->kernels);
    for (int i = 0; i < p->launch_count; i++)
        if (p->launches[i].generated < 0)
            (*out)->kernels[i] = level_kernel(p->launches[i].kernel, &p->target);
    return DYNO_OK;
}

static void program_destroy(program *r) {
    if (!r)
        return;
    generated_destroy(r->generated);
    free(r->kernels);
    free(r);
}

static dyno_status launch(program *r, int index, const kernel_args *args) {
    const plan_launch *l = &r->p->launches[index];
    if (l->generated >= 0) {
        generated_run(r->generated, l, args);
        return DYNO_OK;
    }
    launch_context context = args->context ? *args->context : (launch_context){0};
    context.device = r->d;
    kernel_args here = *args;
    here.context = &context;
    dyno_status status = r->kernels[index]->run(&here);
    if (status == DYNO_OK)
        return DYNO_OK;
    return dyno_fail_within(status, "'%s' in scope '%s'", l->kernel_name, r->p->scopes[l->scope]);
}

/* ---- time ---- */

/* The events of one thread. All are in a list, so that those of a thread that ended are freed. */
typedef struct thread_events {
    struct thread_events *next;
    int64_t *ns;
    int count, capacity;
} thread_events;

static thread_events *all_events;
static mtx_t events_lock;
static tss_t events_key;
static _Thread_local thread_events *own_events;

static void free_events(void *leaving) {
    mtx_lock(&events_lock);
    thread_events **at = &all_events;
    while (*at != leaving)
        at = &(*at)->next;
    *at = (*at)->next;
    mtx_unlock(&events_lock);
    free(((thread_events *)leaving)->ns);
    free(leaving);
}

static void make_events_key(void) {
    if (mtx_init(&events_lock, mtx_plain) != thrd_success ||
        tss_create(&events_key, free_events) != thrd_success)
        abort(); /* a process that has neither cannot go on */
}

static thread_events *make_own_events(void) {
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, make_events_key);
    own_events = memory_allocate(1, sizeof *own_events);
    tss_set(events_key, own_events);
    mtx_lock(&events_lock);
    own_events->next = all_events;
    all_events = own_events;
    mtx_unlock(&events_lock);
    return own_events;
}

/* This thread's events, with room for `slot`. */
static thread_events *find_events(int slot) {
    thread_events *m = own_events ? own_events : make_own_events();
    for (; m->count <= slot; m->count++) {
        MEMORY_GROW(m->ns, m->count, m->capacity);
        m->ns[m->count] = 0;
    }
    return m;
}

static void record_event(device *d, int slot) {
    (void)d;
    int64_t *ns = &find_events(slot)->ns[slot];
    *ns = clock_now_ns();
}

static int64_t elapsed_ns(device *d, int from, int to) {
    (void)d;
    const thread_events *m = find_events(from > to ? from : to);
    return m->ns[to] - m->ns[from];
}

static const device_functions FUNCTIONS = {.close = close_cpu,
                                           .available_bytes = available_bytes,
                                           .reserve = reserve,
                                           .commit = commit,
                                           .decommit = decommit,
                                           .release = release,
                                           .clear = clear,
                                           .write = copy,
                                           .read = copy,
                                           .finish = finish,
                                           .program_create = program_create,
                                           .program_destroy = program_destroy,
                                           .launch = launch,
                                           .record_event = record_event,
                                           .elapsed_ns = elapsed_ns};

static device cpu = {.functions = &FUNCTIONS,
                     .name = "cpu",
                     .description = "the CPU",
                     .granularity = HUGE_PAGE_BYTES};

static void set_target(void) { cpu.target = *target_this_cpu(); }

device *device_cpu(void) {
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, set_target);
    return &cpu;
}

bool device_is_host(const device *d) { return d->functions == &FUNCTIONS; }

dyno_status device_create_cpu(const target *chip, device **out) {
    *out = NULL;
    RETURN_IF_FAILED(target_check_is_runnable(chip));
    *out = memory_allocate(1, sizeof **out);
    **out = *device_cpu();
    (*out)->target = *chip;
    return DYNO_OK;
}
