/* storage.h - what lives across steps: inputs, parameters and optimizer state, by name.
 *
 * Plans of one model (its forward, its full step) share them: an executor binds to existing entries
 * and adds missing ones, zeroed. */
#ifndef RUNTIME_STORAGE_H
#define RUNTIME_STORAGE_H

#include "distributed/communicator.h"
#include "runtime/memory_pool.h"

typedef struct storage storage;

/* Borrows the pool, which must outlive it. */
storage *storage_create(memory_pool *pool);
void storage_destroy(storage *s);

/* Adds the persistent buffers of `p` that are missing. One of the same name and another size is an
 * error. On failure nothing was added. */
NODISCARD dyno_status storage_add_plan(storage *s, const plan *p);
/* The number of entries; shrinking to an earlier number releases those added since. */
int storage_count(const storage *s);
void storage_shrink(storage *s, int count);
/* Releases all but the parameters that `p` has, in the size it has them: what the plan adds then
 * has the offsets it would have in an empty pool, and is zero. */
void storage_keep_parameters(storage *s, const plan *p);

device *storage_device(const storage *s);

/* The address of the buffer, or of the leaf inside one, of that name; NULL when there is none. Not
 * for the host to touch unless device_is_host(storage_device(s)). */
void *storage_find(const storage *s, const char *name);
/* The same with type and shape, as the plan added last has them; data is NULL when there is
 * none. */
tensor storage_find_tensor(const storage *s, const char *name);

/* How a parameter is stored: the names of its leaves, NULL for those that are absent. */
typedef struct stored_parameter {
    const char *whole, *low_copy;
    const char *rest; /* the low 16 bits, which the bf16 copy lacks, in place of the whole */
    /* Of a parameter that lies in a list of which this rank has a part (plan_parameter): the leaves
     * are that part. part is 0 for all others. */
    int64_t part, offset;
} stored_parameter;

/* The parameter of that name in the plans that were added. The names belong to the storage. */
stored_parameter storage_find_parameter(const storage *s, const char *name);

/* All of a buffer, from the device and to it. `bytes` must be its size (DYNO_INVALID), and it must
 * be there (DYNO_NOT_FOUND). Reading waits for what is running, and fails when the device did. */
NODISCARD dyno_status storage_read(const storage *s, const char *name, void *to, int64_t bytes);
NODISCARD dyno_status storage_write(storage *s, const char *name, const void *from, int64_t bytes);
/* `bytes` of it from `offset` on. */
NODISCARD dyno_status storage_write_part(storage *s, const char *name, int64_t offset,
                                         const void *from, int64_t bytes);

/* The ranks that have the parts of such parameters; borrowed, until the storage is destroyed. Set before
 * plans are added: sums of gradients then lie in memory that the ranks of a host share, and every rank
 * adds the same plans. NULL: none are known. */
void storage_set_communicator(storage *s, communicator *c);
communicator *storage_communicator(const storage *s);

#endif
