#include "experiments/grid_size.h"

static const char WAY_OUT[] = "give fewer values, or divide them among several runs";

dyno_status grid_check_size(const flags *given, const char *const *names) {
    double cells = 1; /* lists of 10,000 items overflow every integer */
    text product = {0};
    for (int i = 0; names[i]; i++) {
        int count = flags_list_length(given, names[i]);
        if (count > 1) {
            cells *= count;
            text_format(&product, "%s--%s (%d)", product.length ? " x " : "", names[i], count);
        }
    }
    dyno_status status = DYNO_OK;
    if (cells > GRID_MOST_CELLS)
        status = dyno_fail(DYNO_INVALID, "%s make %.15g cells, the limit is %d; %s",
                           text_string(&product), cells, GRID_MOST_CELLS, WAY_OUT);
    text_release(&product);
    return status;
}

dyno_status grid_check_cells(int64_t cells) {
    if (cells <= GRID_MOST_CELLS)
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID, "the grid has %lld cells, the limit is %d; %s", (long long)cells,
                     GRID_MOST_CELLS, WAY_OUT);
}
