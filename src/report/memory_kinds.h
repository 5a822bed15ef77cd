/* memory_kinds.h - the bytes of a rank by kind at the moments of a step: breakdown "memory_stages".
 *
 * Kinds are as a reader thinks of them; a record has roles, several of which may be one kind. */
#ifndef REPORT_MEMORY_KINDS_H
#define REPORT_MEMORY_KINDS_H

#include "measure/results.h"

typedef enum memory_kind {
    MEMORY_WEIGHTS,
    MEMORY_GRADIENTS,
    MEMORY_STATE,
    MEMORY_ACTIVATIONS,
    MEMORY_INPUTS,
    MEMORY_ALL,
    MEMORY_KIND_COUNT
} memory_kind;

/* "weights" */
const char *memory_kind_name(memory_kind kind);
/* Whether bytes of that role are of this kind. */
bool memory_kind_has_role(memory_kind kind, const char *role);

enum { MEMORY_PREDICTED, MEMORY_MEASURED };
/* NULL where the cell has none, or one of another form. */
const results_breakdown *memory_stages_of(const results_cell *cell);
double memory_stage_bytes(const results_breakdown *stages, const char *stage, memory_kind kind,
                          int column);
/* The moment with the most bytes, by measurement where there is one; NULL where there is no byte. */
const char *memory_fullest_stage(const results_breakdown *stages, int *column);

#endif
