#define _GNU_SOURCE
#include "support/foreign_groups.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"
#include "support/scratch.h"
#include "support/trace_text.h"

static const grouping GROUPINGS[FOREIGN_GROUPINGS] = {
    [BY_PHASE] = {"phase", {GROUP_PHASE}, 1},
    [BY_KERNEL] = {"kernel", {GROUP_KERNEL}, 1},
    [BY_OP] = {"op", {GROUP_OP}, 1},
    [BY_CLASS] = {"class", {GROUP_CLASS}, 1},
    [BY_SCOPE] = {"scope", {GROUP_SCOPE}, 1},
    [BY_KERNEL_AND_PHASE] = {"both", {GROUP_KERNEL, GROUP_PHASE}, 2},
};

static dyno_status take_record(void *caller, const launch_record *record) {
    foreign_groups *g = caller;
    g->last = *record;
    g->last.recorded = g->last.op = g->last.class_name = g->last.scope = g->last.phase = NULL;
    return kernel_groups_add(g->groups, record);
}

static dyno_status take_range(void *caller, const foreign_range *range) {
    foreign_groups *g = caller;
    if (range->phase) {
        g->range_count++;
        g->range_ns += range->end_ns - range->begin_ns;
    } else {
        g->step_ns += range->end_ns - range->begin_ns;
    }
    return DYNO_OK;
}

foreign_groups foreign_groups_read(const char *path, dyno_status expected) {
    foreign_groups g = {.groups = kernel_groups_create(GROUPINGS, FOREIGN_GROUPINGS)};
    kernel_classes *classes;
    expect_ok(kernel_classes_create(NULL, &classes));
    foreign_visitor visitor = {&g, classes, take_record, take_range, NULL};
    dyno_status status = foreign_trace_read(path, &visitor, &g.trace);
    kernel_classes_destroy(classes);
    if (status != expected)
        fail_msg("'%s' is %s: %s", path, dyno_status_name(status), dyno_error_message());
    return g;
}

void foreign_groups_release(foreign_groups *g) { kernel_groups_destroy(g->groups); }

foreign_groups foreign_groups_of_text(const char *document, dyno_status expected) {
    scratch place = scratch_create();
    scratch_write(&place, "trace.json", document, strlen(document));
    foreign_groups g = foreign_groups_read(scratch_join(&place, "trace.json").text, expected);
    scratch_remove(&place);
    return g;
}

void expect_group(const foreign_groups *g, int by, const char *key, int64_t count, int64_t ns) {
    const kernel_group *found = kernel_groups_find(g->groups, by, &key);
    if (!found && count)
        fail_msg("there is no %s '%s'", GROUPINGS[by].name, key);
    if (found && (found->count != count || llround(found->running_ns) != ns))
        fail_msg("the %s '%s' has %lld records of %.0f ns in all, not %lld of %lld",
                 GROUPINGS[by].name, key, (long long)found->count, found->running_ns,
                 (long long)count, (long long)ns);
}

const char *trace_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/traces/%s", DYNO_TEST_DIR, name);
    return path;
}

void expect_phase(const char *document, const char *phase, int64_t count) {
    foreign_groups g = foreign_groups_of_text(document, DYNO_OK);
    const kernel_group *found = kernel_groups_find(g.groups, BY_PHASE, &phase);
    if (!found || found->count != count)
        fail_msg("'%s' has %lld records, not %lld: %s", phase,
                 found ? (long long)found->count : 0LL, (long long)count, document);
    foreign_groups_release(&g);
}
