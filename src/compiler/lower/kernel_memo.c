#include "compiler/lower/kernel_memo.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Padding between members may differ where all else is the same; then the kernel is not found, is
 * rendered again, and has the same source. */
static bool same_bytes(const void *a, const void *b, int count, size_t size) {
    return count == 0 || memcmp(a, b, (size_t)count * size) == 0;
}

static bool same_kernel(const fused_kernel *a, const fused_kernel *b) {
    return a->rows == b->rows && a->columns == b->columns && a->rows_per_unit == b->rows_per_unit &&
           a->stage_count == b->stage_count && a->member_count == b->member_count &&
           a->operand_count == b->operand_count && a->output_count == b->output_count &&
           same_bytes(a->members, b->members, a->member_count, sizeof *a->members) &&
           same_bytes(a->operands, b->operands, a->operand_count, sizeof *a->operands) &&
           same_bytes(a->outputs, b->outputs, a->output_count, sizeof *a->outputs);
}

const known_kernel *kernel_memo_find(const kernel_memo *memo, const fused_kernel *k) {
    for (int i = 0; i < memo->count; i++)
        if (same_kernel(&memo->known[i].k, k))
            return &memo->known[i];
    return NULL;
}

static void *copy(const void *from, int count, size_t size) {
    void *to = memory_allocate((size_t)count, size);
    if (count)
        memcpy(to, from, (size_t)count * size);
    return to;
}

const known_kernel *kernel_memo_add(kernel_memo *memo, const fused_kernel *k, int generated,
                                    const char *op_name) {
    MEMORY_GROW(memo->known, memo->count, memo->capacity);
    known_kernel *added = &memo->known[memo->count++];
    *added = (known_kernel){.k = *k, .generated = generated, .op_name = op_name};
    added->k.members = copy(k->members, k->member_count, sizeof *k->members);
    added->k.operands = copy(k->operands, k->operand_count, sizeof *k->operands);
    added->k.outputs = copy(k->outputs, k->output_count, sizeof *k->outputs);
    return added;
}

void kernel_memo_release(kernel_memo *memo) {
    for (int i = 0; i < memo->count; i++) {
        free(memo->known[i].k.members);
        free(memo->known[i].k.operands);
        free(memo->known[i].k.outputs);
    }
    free(memo->known);
    *memo = (kernel_memo){0};
}
