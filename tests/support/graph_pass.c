#include "support/graph_pass.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "base/text.h"
#include "graph/graph_text.h"
#include "graph/verify.h"

graph *graph_from_text(const char *source) {
    graph *g;
    if (graph_parse(source, &g) != DYNO_OK || graph_verify(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return g;
}

void expect_graph_text(const graph *g, const char *wanted) {
    if (graph_verify(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    text printed = {0};
    graph_print(g, &printed);
    assert_string_equal(text_string(&printed), wanted);
    text_release(&printed);
}

int graph_count_ops(const graph *g, const op *kind) {
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->nodes[i]->op == kind;
    return count;
}

void expect_failure(dyno_status status, dyno_status code, const char *part) {
    const char *message = status == DYNO_OK ? "it succeeded" : dyno_error_message();
    if (status != code || !strstr(message, part))
        fail_msg("wanted status %d and '%s', got %d: %s", (int)code, part, (int)status, message);
}
