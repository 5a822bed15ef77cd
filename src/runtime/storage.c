#include "runtime/storage.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef struct entry {
    char *name;
    plan_buffer what; /* name and scope belong to a plan that may be gone: not used */
    block *memory;
} entry;

struct storage {
    memory_pool *pool;
    entry *entries;
    int count, capacity;
};

/* Entries outlive the plan that asked for them; this one stands in when they are released. */
static const plan no_plan = {.scopes = (const char *[]){""}, .scope_count = 1};

storage *storage_create(memory_pool *pool) {
    storage *s = memory_allocate(1, sizeof *s);
    s->pool = pool;
    return s;
}

static void release_entry(storage *s, int index) {
    entry *e = &s->entries[index];
    memory_pool_release(s->pool, &no_plan, &e->what, -1, e->memory);
    free(e->name);
    *e = s->entries[--s->count];
}

void storage_destroy(storage *s) {
    if (!s)
        return;
    while (s->count)
        release_entry(s, s->count - 1);
    free(s->entries);
    free(s);
}

static entry *find_entry(const storage *s, const char *name) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->entries[i].name, name) == 0)
            return &s->entries[i];
    return NULL;
}

dyno_status storage_add_plan(storage *s, const plan *p) {
    int before = s->count;
    dyno_status status = DYNO_OK;
    for (int i = 0; i < p->buffer_count && status == DYNO_OK; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (!b->is_persistent)
            continue;
        entry *there = find_entry(s, b->name);
        if (there && there->what.bytes != b->bytes)
            status = dyno_fail(DYNO_INVALID, "'%s' is %lld bytes in storage and %lld in the plan",
                               b->name, (long long)there->what.bytes, (long long)b->bytes);
        if (there && status == DYNO_OK) { /* bf16 and f16 copies of a weight are as large */
            there->what.type = b->type;
            there->what.shape = b->shape;
        }
        if (there || status != DYNO_OK)
            continue;
        block *memory;
        status = memory_pool_allocate(s->pool, p, b, -1, &memory);
        if (status != DYNO_OK)
            break;
        MEMORY_GROW(s->entries, s->count, s->capacity);
        entry *e = &s->entries[s->count++];
        *e = (entry){.name = memory_copy_string(b->name), .what = *b, .memory = memory};
        e->what.name = e->name;
        e->what.scope = 0;
        device *d = memory_pool_device(s->pool);
        d->functions->clear(d, memory_pool_address(s->pool, memory), b->bytes);
    }
    if (status != DYNO_OK)
        storage_shrink(s, before);
    return status;
}

int storage_count(const storage *s) { return s->count; }

void storage_shrink(storage *s, int count) {
    while (s->count > count)
        release_entry(s, s->count - 1);
}

void storage_keep_parameters(storage *s, const plan *p) {
    for (int i = s->count - 1; i >= 0; i--) {
        const plan_operand *wanted = plan_find_name(p, s->entries[i].name);
        if (s->entries[i].what.role != ROLE_PARAMETER || !wanted ||
            p->buffers[wanted->buffer].bytes != s->entries[i].what.bytes)
            release_entry(s, i);
    }
}

tensor storage_find_tensor(const storage *s, const char *name) {
    const entry *e = find_entry(s, name);
    return e ? tensor_contiguous(memory_pool_address(s->pool, e->memory), e->what.type,
                                 &e->what.shape)
             : (tensor){0};
}

void *storage_find(const storage *s, const char *name) {
    const entry *e = find_entry(s, name);
    return e ? memory_pool_address(s->pool, e->memory) : NULL;
}

static dyno_status check_access(const storage *s, const char *name, int64_t bytes, void **address) {
    const entry *e = find_entry(s, name);
    *address = NULL;
    if (!e)
        return dyno_fail(DYNO_NOT_FOUND, "there is no '%s' in storage", name);
    if (e->what.bytes != bytes)
        return dyno_fail(DYNO_INVALID, "'%s' is %lld bytes in storage, not %lld", name,
                         (long long)e->what.bytes, (long long)bytes);
    *address = memory_pool_address(s->pool, e->memory);
    return DYNO_OK;
}

dyno_status storage_read(const storage *s, const char *name, void *to, int64_t bytes) {
    void *address;
    RETURN_IF_FAILED(check_access(s, name, bytes, &address));
    device *d = memory_pool_device(s->pool);
    d->functions->read(d, to, address, bytes);
    return DYNO_OK;
}

dyno_status storage_write(storage *s, const char *name, const void *from, int64_t bytes) {
    void *address;
    RETURN_IF_FAILED(check_access(s, name, bytes, &address));
    device *d = memory_pool_device(s->pool);
    d->functions->write(d, address, from, bytes);
    return DYNO_OK;
}

device *storage_device(const storage *s) { return memory_pool_device(s->pool); }
