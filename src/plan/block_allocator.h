/* block_allocator.h - which bytes of one large range are taken: the policy of the caching
 * allocator, without the memory.
 *
 *   0                                                    high_water
 *   | taken | free | taken | taken | free      | taken   |
 *
 * Best fit, lowest offset among equals; what is left of a block is split off, free neighbours
 * merge. Pure bookkeeping and deterministic, so a plan predicts exactly what a run reserves. */
#ifndef PLAN_BLOCK_ALLOCATOR_H
#define PLAN_BLOCK_ALLOCATOR_H

#include <stdint.h>

enum { BLOCK_ALIGNMENT = 256 };

typedef struct block_allocator block_allocator;
typedef struct block block;

block_allocator *block_allocator_create(void);
void block_allocator_destroy(block_allocator *a);

/* Never fails: the range grows without end. The size is rounded up to BLOCK_ALIGNMENT. */
block *block_allocate(block_allocator *a, int64_t bytes);
void block_release(block_allocator *a, block *b);

int64_t block_offset(const block *b);
int64_t block_bytes(const block *b); /* rounded up */

int64_t block_allocator_taken_bytes(const block_allocator *a);
/* The end of the highest block ever taken. */
int64_t block_allocator_high_water(const block_allocator *a);

/* Calls back for every free range below the high-water mark. */
void block_allocator_for_each_free(const block_allocator *a,
                                   void (*visit)(void *context, int64_t offset, int64_t bytes),
                                   void *context);

#endif
