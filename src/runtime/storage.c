#include "runtime/storage.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/stop.h"

typedef struct entry {
    char *name;
    plan_buffer what; /* name and scope belong to a plan that may be gone: not used */
    block *memory;
    void *shared; /* memory that ranks share, in place of `memory`, whose pages stay untouched */
} entry;

/* A value inside an entry of another name: a member of a family. */
typedef struct part {
    char *name;
    block *memory; /* the entry's */
    int64_t offset;
    dtype type;
    shape shape;
} part;

/* The leaves by which any plan knew a parameter; they may be gone. */
typedef struct known_parameter {
    const char *name;
    stored_parameter leaves;
} known_parameter;

struct storage {
    memory_pool *pool;
    entry *entries;
    int count, capacity;
    part *parts;
    int part_count, part_capacity;
    known_parameter *known;
    int known_count, known_capacity;
    arena *names; /* of parameters and their leaves */
    communicator *ranks;
};

/* Entries outlive the plan that added them; this one stands in when they are released. */
static const plan no_plan = {.scopes = (const char *[]){""}, .scope_count = 1};

storage *storage_create(memory_pool *pool) {
    storage *s = memory_allocate(1, sizeof *s);
    s->pool = pool;
    s->names = arena_create();
    return s;
}

static void release_entry(storage *s, int index) {
    entry *e = &s->entries[index];
    for (int i = s->part_count - 1; i >= 0; i--)
        if (s->parts[i].memory == e->memory) {
            free(s->parts[i].name);
            s->parts[i] = s->parts[--s->part_count];
        }
    memory_pool_release(s->pool, &no_plan, &e->what, -1, e->memory);
    if (e->shared)
        communicator_memory_destroy(s->ranks, e->shared);
    free(e->name);
    *e = s->entries[--s->count];
}

void storage_destroy(storage *s) {
    if (!s)
        return;
    while (s->count)
        release_entry(s, s->count - 1);
    arena_destroy(s->names);
    free(s->known);
    free(s->entries);
    free(s->parts);
    free(s);
}

static entry *find_entry(const storage *s, const char *name) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->entries[i].name, name) == 0)
            return &s->entries[i];
    return NULL;
}

static void *address_of(const storage *s, const entry *e) {
    return e->shared ? e->shared : memory_pool_address(s->pool, e->memory);
}

/* Of the entry that has this block. */
static char *address_of_block(const storage *s, const block *memory) {
    for (int i = 0; i < s->count; i++)
        if (s->entries[i].memory == memory)
            return address_of(s, &s->entries[i]);
    return memory_pool_address(s->pool, memory);
}

static part *find_part(const storage *s, const char *name) {
    for (int i = 0; i < s->part_count; i++)
        if (strcmp(s->parts[i].name, name) == 0)
            return &s->parts[i];
    return NULL;
}

/* The plan's names for what lies inside entries. */
static void add_parts(storage *s, const plan *p) {
    for (int i = 0; i < p->name_count; i++) {
        const plan_operand *operand = &p->names[i].operand;
        const plan_buffer *b = &p->buffers[operand->buffer];
        if (!b->is_persistent || strcmp(b->name, p->names[i].name) == 0)
            continue;
        part *there = find_part(s, p->names[i].name);
        if (!there) {
            MEMORY_GROW(s->parts, s->part_count, s->part_capacity);
            there = &s->parts[s->part_count++];
            there->name = memory_copy_string(p->names[i].name);
        }
        there->memory = find_entry(s, b->name)->memory;
        there->offset = operand->offset;
        there->type = operand->layout.type;
        there->shape = operand->layout.shape;
    }
}

static known_parameter *find_known(const storage *s, const char *name) {
    for (int i = 0; i < s->known_count; i++)
        if (strcmp(s->known[i].name, name) == 0)
            return &s->known[i];
    return NULL;
}

/* As the plan added last has it: ways to be parallel keep a parameter in different leaves. */
static void keep_name(storage *s, const char **leaf, const char *name) {
    if (!*leaf || strcmp(*leaf, name) != 0)
        *leaf = arena_copy_string(s->names, name);
}

static void add_parameters(storage *s, const plan *p) {
    for (int i = 0; i < p->parameter_count; i++) {
        const plan_parameter *from = &p->parameters[i];
        known_parameter *there = find_known(s, from->name);
        if (!there) {
            MEMORY_GROW(s->known, s->known_count, s->known_capacity);
            there = &s->known[s->known_count++];
            *there = (known_parameter){.name = arena_copy_string(s->names, from->name)};
        }
        there->leaves.part = from->part;
        there->leaves.offset = from->offset;
        const char **leaf = from->is_split ? &there->leaves.rest : &there->leaves.whole;
        keep_name(s, leaf, p->names[from->value].name);
        if (from->low_copy >= 0)
            keep_name(s, &there->leaves.low_copy, p->names[from->low_copy].name);
    }
}

/* Sums of gradients lie where other ranks of the host can read them, so that collectives copy nothing.
 * Every rank comes here with the same entries in the same order. Where there is no such memory they stay
 * in the pool, which is right as well; a rank that is gone shows in the first collective. */
static void share_with_ranks(storage *s, entry *e) {
    bool is_shared = s->ranks && e->what.role == ROLE_GRADIENT && e->what.bytes > 0 &&
                     device_is_host(memory_pool_device(s->pool)) &&
                     communicator_kind_of(s->ranks) != COMMUNICATOR_NCCL;
    if (is_shared && communicator_memory_create(s->ranks, e->what.bytes, &e->shared) != DYNO_OK)
        e->shared = NULL;
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
        share_with_ranks(s, e);
        device *d = memory_pool_device(s->pool);
        if (!e->shared)
            d->functions->clear(d, memory_pool_address(s->pool, memory), b->bytes);
        status = stop_check("making room for weights");
    }
    if (status != DYNO_OK) {
        storage_shrink(s, before);
        return status;
    }
    add_parts(s, p);
    add_parameters(s, p);
    return DYNO_OK;
}

int storage_count(const storage *s) { return s->count; }

void storage_shrink(storage *s, int count) {
    while (s->count > count)
        release_entry(s, s->count - 1);
}

static bool has_parameter(const plan *p, const plan_buffer *what) {
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (b->is_persistent && b->bytes == what->bytes && strcmp(b->name, what->name) == 0)
            return true;
    }
    return false;
}

void storage_keep_parameters(storage *s, const plan *p) {
    for (int i = s->count - 1; i >= 0; i--)
        if (s->entries[i].what.role != ROLE_PARAMETER || !has_parameter(p, &s->entries[i].what))
            release_entry(s, i);
}

tensor storage_find_tensor(const storage *s, const char *name) {
    const part *inside = find_part(s, name);
    if (inside)
        return tensor_contiguous(address_of_block(s, inside->memory) + inside->offset, inside->type,
                                 &inside->shape);
    const entry *e = find_entry(s, name);
    return e ? tensor_contiguous(address_of(s, e), e->what.type, &e->what.shape) : (tensor){0};
}

void *storage_find(const storage *s, const char *name) { return storage_find_tensor(s, name).data; }

static const char *if_there(const storage *s, const char *name) {
    return name && storage_find(s, name) ? name : NULL;
}

stored_parameter storage_find_parameter(const storage *s, const char *name) {
    const known_parameter *known = find_known(s, name);
    stored_parameter leaves = known ? known->leaves : (stored_parameter){0};
    return (stored_parameter){.whole = if_there(s, leaves.whole),
                              .low_copy = if_there(s, leaves.low_copy),
                              .rest = if_there(s, leaves.rest),
                              .part = leaves.part,
                              .offset = leaves.offset};
}

static dyno_status check_access(const storage *s, const char *name, int64_t bytes, void **address) {
    tensor found = storage_find_tensor(s, name);
    *address = NULL;
    if (!found.data)
        return dyno_fail(DYNO_NOT_FOUND, "there is no '%s' in storage", name);
    if (tensor_bytes(&found) != bytes)
        return dyno_fail(DYNO_INVALID, "'%s' is %lld bytes in storage, not %lld", name,
                         (long long)tensor_bytes(&found), (long long)bytes);
    *address = found.data;
    return DYNO_OK;
}

dyno_status storage_read(const storage *s, const char *name, void *to, int64_t bytes) {
    void *address;
    RETURN_IF_FAILED(check_access(s, name, bytes, &address));
    device *d = memory_pool_device(s->pool);
    d->functions->read(d, to, address, bytes);
    return d->functions->finish(d);
}

dyno_status storage_write(storage *s, const char *name, const void *from, int64_t bytes) {
    void *address;
    RETURN_IF_FAILED(check_access(s, name, bytes, &address));
    device *d = memory_pool_device(s->pool);
    d->functions->write(d, address, from, bytes);
    return DYNO_OK;
}

dyno_status storage_write_part(storage *s, const char *name, int64_t offset, const void *from,
                               int64_t bytes) {
    tensor found = storage_find_tensor(s, name);
    if (!found.data)
        return dyno_fail(DYNO_NOT_FOUND, "there is no '%s' in storage", name);
    if (offset < 0 || bytes < 0 || bytes > tensor_bytes(&found) - offset)
        return dyno_fail(DYNO_INVALID,
                         "'%s' is %lld bytes in storage: %lld from %lld on are not inside", name,
                         (long long)tensor_bytes(&found), (long long)bytes, (long long)offset);
    device *d = memory_pool_device(s->pool);
    if (bytes)
        d->functions->write(d, (char *)found.data + offset, from, bytes);
    return DYNO_OK;
}

void storage_set_communicator(storage *s, communicator *c) { s->ranks = c; }
communicator *storage_communicator(const storage *s) { return s->ranks; }

device *storage_device(const storage *s) { return memory_pool_device(s->pool); }
