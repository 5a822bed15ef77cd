#include "measure/memory_stages.h"

#include <string.h>

#include "measure/keys.h"
#include "plan/memory_account.h"

enum { AFTER_INIT, BEFORE_OPTIMIZER, AT_PEAK, AFTER_STEP, STAGES };
static const char *const STAGE_NAMES[STAGES] = {"after init", "before the optimizer", "peak",
                                                "after the step"};

typedef struct stages {
    int64_t bytes[STAGES][ROLE_COUNT];
} stages;

/* The launch that the optimizer begins with; all of them where there is none. */
static int first_of_optimizer(const plan *p) {
    int launch = 0;
    while (launch < p->launch_count && p->launches[launch].phase != PHASE_OPTIMIZER)
        launch++;
    return launch;
}

static stages predict(const plan *p) {
    stages out = {0};
    int optimizer = first_of_optimizer(p);
    memory_account account = memory_account_plan(p);
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (b->is_persistent)
            out.bytes[AFTER_INIT][b->role] += b->bytes;
        if (b->is_persistent || (b->born < optimizer && b->last_used >= optimizer))
            out.bytes[BEFORE_OPTIMIZER][b->role] += b->bytes;
        if (b->is_persistent || b->last_used >= p->launch_count)
            out.bytes[AFTER_STEP][b->role] += b->bytes;
    }
    memcpy(out.bytes[AT_PEAK], account.at_peak, sizeof account.at_peak);
    return out;
}

/* Records are in the order of time. The launches of micro-batches come again and again, those of the
 * optimizer once, behind them. */
static stages measure(const plan *p, const memory_record *records, int count) {
    stages out = {0};
    int64_t alive[ROLE_COUNT] = {0}, total = 0, most = -1;
    int optimizer = first_of_optimizer(p);
    bool has_begun = false, is_past = false;
    for (int i = 0; i < count; i++) {
        const memory_record *r = &records[i];
        if (r->launch >= 0 && !has_begun)
            memcpy(out.bytes[AFTER_INIT], alive, sizeof alive);
        has_begun = has_begun || r->launch >= 0;
        if (r->launch >= optimizer && !is_past)
            memcpy(out.bytes[BEFORE_OPTIMIZER], alive, sizeof alive);
        is_past = is_past || r->launch >= optimizer;
        int64_t bytes = r->is_allocation ? r->tensor_bytes : -r->tensor_bytes;
        alive[r->role] += bytes;
        total += bytes;
        if (total > most) {
            most = total;
            memcpy(out.bytes[AT_PEAK], alive, sizeof alive);
        }
    }
    if (!is_past)
        memcpy(out.bytes[BEFORE_OPTIMIZER], alive, sizeof alive);
    memcpy(out.bytes[AFTER_STEP], alive, sizeof alive);
    return out;
}

dyno_status memory_stages_record(executor *e, const plan *p, const memory_pool *pool,
                                 results_cell *cell) {
    static const char *const keys[] = {KEY_STAGE, KEY_KIND};
    static const results_column columns[] = {{COLUMN_PREDICTED, "B"}, {COLUMN_MEASURED, "B"}};
    RETURN_IF_FAILED(executor_run(e, NULL, NULL));
    int count;
    const memory_record *records = memory_pool_records(pool, &count);
    stages predicted = predict(p), measured = measure(p, records, count);
    results_breakdown *table =
        cell_add_breakdown(cell, BREAKDOWN_MEMORY_STAGES, keys, 2, columns, 2);
    for (int s = 0; s < STAGES; s++)
        for (int r = 0; r < ROLE_COUNT; r++) {
            const char *row[] = {STAGE_NAMES[s], role_name((role)r)};
            results_value values[] = {results_integer(predicted.bytes[s][r]),
                                      results_integer(measured.bytes[s][r])};
            breakdown_add_row(table, row, values);
        }
    return DYNO_OK;
}
