#include "runtime/scope_ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

scope_ranges *scope_ranges_create(const range_listener *to, const plan *p) {
    scope_ranges *ranges = memory_allocate(1, sizeof *ranges);
    *ranges = (scope_ranges){.to = to, .p = p, .last = -1};
    return ranges;
}

void scope_ranges_destroy(scope_ranges *ranges) { free(ranges); }

/* The path of a launch: its phase, then the parts of its scope, which dots separate. The next part,
 * or 0 at the end; `at` is where the one after it begins. */
static int next_part(const char *scope, int at) { return (int)strcspn(scope + at, "."); }

static int count_parts(const char *scope) {
    int parts = 0;
    for (int at = 0; scope[at];) {
        int length = next_part(scope, at);
        parts++;
        at += length + (scope[at + length] == '.');
    }
    return parts;
}

/* How many parts two scopes have in common from the beginning. */
static int count_common(const char *a, const char *b) {
    int common = 0;
    for (int at = 0; a[at] && b[at];) {
        int length = next_part(a, at);
        if (length != next_part(b, at) || strncmp(a + at, b + at, (size_t)length) != 0)
            break;
        common++;
        at += length;
        if (a[at] != '.' || b[at] != '.')
            break;
        at++;
    }
    return common;
}

static void push(const scope_ranges *r, const char *name) { r->to->push(r->to->context, name); }

static void pop(const scope_ranges *r) { r->to->pop(r->to->context); }

static void push_parts(scope_ranges *r, const char *scope, int from) {
    int part = 0;
    for (int at = 0; scope[at]; part++) {
        int length = next_part(scope, at);
        char name[128];
        snprintf(name, sizeof name, "%.*s", length, scope + at);
        if (part >= from) {
            push(r, name);
            r->open++;
        }
        at += length + (scope[at + length] == '.');
    }
}

static void pop_to(scope_ranges *r, int open) {
    for (; r->open > open; r->open--)
        pop(r);
}

static const char *scope_of(const scope_ranges *r, int launch) {
    return r->p->scopes[r->p->launches[launch].scope];
}

void scope_ranges_begin_step(scope_ranges *r) {
    char name[32];
    if (!r)
        return;
    snprintf(name, sizeof name, "step %lld", (long long)r->steps++);
    push(r, name);
    r->last = -1;
    r->open = 0;
}

void scope_ranges_enter(scope_ranges *r, int launch) {
    if (!r)
        return;
    const plan_launch *l = &r->p->launches[launch];
    bool is_same_phase = r->last >= 0 && r->p->launches[r->last].phase == l->phase;
    int common = is_same_phase ? count_common(scope_of(r, r->last), scope_of(r, launch)) : 0;
    /* Two launches of the same scope stay in its range. */
    if (!is_same_phase || common < count_parts(scope_of(r, launch)) || r->open > 1 + common) {
        pop_to(r, is_same_phase ? 1 + common : 0);
        if (!is_same_phase) {
            push(r, phase_name(l->phase));
            r->open++;
        }
        push_parts(r, scope_of(r, launch), common);
    }
    r->last = launch;
}

void scope_ranges_end_launches(scope_ranges *r) {
    if (!r)
        return;
    pop_to(r, 0);
    r->last = -1;
}

void scope_ranges_end_step(scope_ranges *r) {
    if (!r)
        return;
    scope_ranges_end_launches(r);
    pop(r);
}
