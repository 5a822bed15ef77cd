#include "experiments/refusals.h"

#include <stdio.h>

bool refusals_are_of(dyno_status status) {
    return status == DYNO_INVALID || status == DYNO_UNSUPPORTED;
}

void refusals_add(refusals *r, dyno_status status) {
    if (r->count++ > 0)
        return;
    r->status = status;
    snprintf(r->reason, sizeof r->reason, "%s", dyno_error_message());
}

void refusals_record(results_cell *cell) {
    cell_set_status(cell, RESULTS_SKIP, dyno_error_message());
}

dyno_status refusals_conclude(const refusals *r, int64_t cells) {
    if (r->count == 0 || r->count < cells)
        return DYNO_OK;
    if (cells == 1)
        return dyno_fail(r->status, "%s", r->reason);
    return dyno_fail(r->status, "none of the %lld cells can be run as asked; the first: %s",
                     (long long)cells, r->reason);
}
