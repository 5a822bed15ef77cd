/* graph_text.c - the printer and a line-by-line parser of the form in graph_text.h. */
#include "graph/graph_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/op.h"

static void print_type(const value *v, int number, text *out) {
    text_format(out, "%%%d %s[%s]", number, dtype_name(v->type), shape_format(&v->shape).text);
}

void graph_print(const graph *g, text *out) {
    int *number = memory_allocate((size_t)g->value_count, sizeof *number), next = 0;
    text_format(out, "graph %s\n", g->name);
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        if (v->producer)
            continue;
        number[i] = next++;
        text_format(out, "%s ", role_name(v->role));
        print_type(v, number[i], out);
        text_format(out, " \"%s\"", v->name);
        if (v->family)
            text_format(out, " in \"%s\"", v->family);
        text_append(out, "\n");
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        for (int j = 0; j < n->output_count; j++) {
            number[n->outputs[j]->id] = next++;
            if (j)
                text_append(out, ", ");
            print_type(n->outputs[j], number[n->outputs[j]->id], out);
            text_format(out, " %s", role_name(n->outputs[j]->role));
        }
        text_format(out, " = %s", n->op->name);
        for (int j = 0; j < n->input_count; j++)
            text_format(out, " %%%d", number[n->inputs[j]->id]);
        attributes_print(&n->attributes, out);
        text_format(out, " @%s", phase_name(n->phase));
        if (n->scope)
            text_format(out, " %s", g->scopes[n->scope]);
        if (n->group)
            text_format(out, " #%d", n->group);
        text_append(out, "\n");
    }
    for (int i = 0; i < g->value_count; i++)
        if (g->values[i]->is_output)
            text_format(out, "output %%%d \"%s\"\n", number[i], g->values[i]->name);
    free(number);
}

/* ---- parsing ---- */

typedef struct parser {
    graph *g;
    const char *at;
    int line;
} parser;

enum { MAX_WORD = 128, MAX_OPERANDS = 8192, MAX_OUTPUTS = 4096, MAX_ATTRIBUTES = 16 };

static dyno_status complain(const parser *p, const char *expected) {
    int shown = (int)strcspn(p->at, "\n");
    return dyno_fail(DYNO_INVALID, "graph text, line %d: expected %s at '%.*s'", p->line, expected,
                     shown > 40 ? 40 : shown, p->at);
}

static void skip_blanks(parser *p) {
    while (*p->at == ' ')
        p->at++;
}

static bool accept(parser *p, const char *token) {
    skip_blanks(p);
    size_t length = strlen(token);
    if (strncmp(p->at, token, length) != 0)
        return false;
    p->at += length;
    return true;
}

static bool parse_word(parser *p, char word[MAX_WORD]) {
    skip_blanks(p);
    size_t length = 0;
    while (isalnum((unsigned char)p->at[length]) ||
           (p->at[length] && strchr("._-+", p->at[length])))
        length++;
    if (length == 0 || length >= MAX_WORD)
        return false;
    memcpy(word, p->at, length);
    word[length] = '\0';
    p->at += length;
    return true;
}

static bool parse_integer(parser *p, int64_t *number) {
    skip_blanks(p);
    char *end;
    errno = 0;
    long long parsed = strtoll(p->at, &end, 10);
    if (end == p->at || errno)
        return false;
    *number = parsed;
    p->at = end;
    return true;
}

static dyno_status parse_list(parser *p, shape *list) {
    *list = (shape){0};
    if (!accept(p, "["))
        return complain(p, "'['");
    while (!accept(p, "]")) {
        if (list->rank && !accept(p, ","))
            return complain(p, "',' or ']'");
        if (list->rank == SHAPE_MAX_RANK || !parse_integer(p, &list->dim[list->rank]))
            return complain(p, "an integer (at most 6 in a list)");
        list->rank++;
    }
    return DYNO_OK;
}

static dyno_status parse_quoted(parser *p, const char **name) {
    if (!accept(p, "\""))
        return complain(p, "a name in quotes");
    size_t length = strcspn(p->at, "\"\n");
    if (p->at[length] != '"')
        return complain(p, "a closing quote");
    char *copy = arena_allocate(p->g->memory, length + 1, 1);
    memcpy(copy, p->at, length);
    p->at += length + 1;
    *name = copy;
    return DYNO_OK;
}

/* "%3 f32[2,4]". Its number says nothing new, but a wrong one would mislead who reads the text. */
static dyno_status parse_typed(parser *p, int expected, dtype *type, shape *s) {
    int64_t number;
    char word[MAX_WORD];
    if (!accept(p, "%") || !parse_integer(p, &number))
        return complain(p, "a value such as %3");
    if (number != expected)
        return dyno_fail(DYNO_INVALID, "graph text, line %d: value %%%lld comes where %%%d is next",
                         p->line, (long long)number, expected);
    if (!parse_word(p, word) || !dtype_parse(word, type))
        return complain(p, "an element type such as f32");
    RETURN_IF_FAILED(parse_list(p, s));
    if (!shape_is_valid(s, dtype_bytes(*type)))
        return dyno_fail(DYNO_INVALID,
                         "graph text, line %d: shape [%s] has a size below 1 or overflows 64 bits",
                         p->line, shape_format(s).text);
    return DYNO_OK;
}

static dyno_status parse_reference(parser *p, value **v) {
    int64_t number;
    if (!accept(p, "%") || !parse_integer(p, &number))
        return complain(p, "a value such as %3");
    if (number < 0 || number >= p->g->value_count)
        return dyno_fail(DYNO_INVALID, "graph text, line %d: value %%%lld is not defined above",
                         p->line, (long long)number);
    *v = p->g->values[number];
    return DYNO_OK;
}

static bool parse_role(const char *word, role *r) {
    for (int i = 0; i < ROLE_COUNT; i++)
        if (strcmp(word, role_name((role)i)) == 0) {
            *r = (role)i;
            return true;
        }
    return false;
}

static dyno_status parse_attribute(parser *p, attribute *a) {
    char word[MAX_WORD];
    if (!parse_word(p, word) || !accept(p, "="))
        return complain(p, "an attribute such as axes=[1]");
    *a = (attribute){.name = arena_copy_string(p->g->memory, word)};
    skip_blanks(p);
    if (*p->at == '[') {
        a->kind = ATTRIBUTE_LIST;
        return parse_list(p, &a->list);
    }
    if (!parse_word(p, word))
        return complain(p, "an attribute's value");
    char *end;
    errno = 0;
    if (strpbrk(word, ".en")) {
        a->kind = ATTRIBUTE_REAL;
        a->real = strtod(word, &end);
    } else {
        a->kind = ATTRIBUTE_INTEGER;
        a->integer = strtoll(word, &end, 10);
    }
    bool overflows = a->kind == ATTRIBUTE_INTEGER && errno == ERANGE;
    return *end || overflows ? complain(p, "a number") : DYNO_OK;
}

static dyno_status parse_node(parser *p) {
    value_type declared[MAX_OUTPUTS];
    role roles[MAX_OUTPUTS];
    int outputs = 0;
    char word[MAX_WORD];
    do {
        if (outputs == MAX_OUTPUTS)
            return complain(p, "at most 4096 outputs");
        value_type *v = &declared[outputs];
        RETURN_IF_FAILED(parse_typed(p, p->g->value_count + outputs, &v->type, &v->shape));
        if (!parse_word(p, word) || !parse_role(word, &roles[outputs++]))
            return complain(p, "a role such as activation");
    } while (accept(p, ","));
    if (!accept(p, "=") || !parse_word(p, word))
        return complain(p, "'= op'");
    const op *kind = op_find(word);
    if (!kind)
        return dyno_fail(DYNO_INVALID, "graph text, line %d: there is no op '%s'", p->line, word);
    value *inputs[MAX_OPERANDS];
    int input_count = 0;
    skip_blanks(p);
    while (*p->at == '%' && input_count < MAX_OPERANDS) {
        RETURN_IF_FAILED(parse_reference(p, &inputs[input_count++]));
        skip_blanks(p);
    }
    attribute items[MAX_ATTRIBUTES];
    int attribute_count = 0;
    if (accept(p, "{"))
        do {
            if (attribute_count == MAX_ATTRIBUTES)
                return complain(p, "at most 16 attributes");
            RETURN_IF_FAILED(parse_attribute(p, &items[attribute_count++]));
        } while (accept(p, ","));
    if (attribute_count && !accept(p, "}"))
        return complain(p, "'}'");
    if (!accept(p, "@") || !parse_word(p, word))
        return complain(p, "a phase such as @forward");
    int ph = 0;
    while (ph < PHASE_COUNT && strcmp(word, phase_name((phase)ph)) != 0)
        ph++;
    if (ph == PHASE_COUNT)
        return dyno_fail(DYNO_INVALID, "graph text, line %d: there is no phase '%s'", p->line,
                         word);
    p->g->current_phase = (phase)ph;
    p->g->current_scope = parse_word(p, word) ? graph_intern_scope(p->g, word) : 0;
    int64_t group = 0;
    if (accept(p, "#") && (!parse_integer(p, &group) || group < 1 || group > INT32_MAX))
        return complain(p, "a group such as #1");
    value *first = graph_add_node(p->g, kind, inputs, input_count, items, attribute_count);
    if (graph_status(p->g) != DYNO_OK)
        return dyno_fail_within(DYNO_INVALID, "graph text, line %d", p->line);
    node *made = first->producer;
    made->group = (int)group;
    if (made->output_count != outputs)
        return dyno_fail(DYNO_INVALID, "graph text, line %d: %s has %d outputs, %d are named",
                         p->line, kind->name, made->output_count, outputs);
    for (int i = 0; i < outputs; i++) {
        value *v = made->outputs[i];
        v->type = declared[i].type; /* kept as written, so that the verifier can disagree */
        v->shape = declared[i].shape;
        v->role = roles[i];
    }
    return DYNO_OK;
}

static dyno_status parse_line(parser *p) {
    skip_blanks(p);
    if (*p->at == '%')
        return parse_node(p);
    char word[MAX_WORD];
    if (!parse_word(p, word))
        return complain(p, "a leaf, a node or an output");
    const char *name;
    if (strcmp(word, "output") == 0) {
        value *v;
        RETURN_IF_FAILED(parse_reference(p, &v));
        RETURN_IF_FAILED(parse_quoted(p, &name));
        graph_add_output(p->g, v, name);
        return DYNO_OK;
    }
    role r;
    if (!parse_role(word, &r))
        return dyno_fail(DYNO_INVALID, "graph text, line %d: '%s' is no role of a value", p->line,
                         word);
    dtype type;
    shape s;
    RETURN_IF_FAILED(parse_typed(p, p->g->value_count, &type, &s));
    RETURN_IF_FAILED(parse_quoted(p, &name));
    value *leaf = graph_add_leaf(p->g, r, type, &s, name);
    if (accept(p, "in")) {
        RETURN_IF_FAILED(parse_quoted(p, &name));
        graph_join_family(p->g, &leaf, 1, name);
    }
    return graph_status(p->g);
}

dyno_status graph_parse(const char *source, graph **out) {
    *out = NULL;
    parser p = {.at = source, .line = 1};
    char word[MAX_WORD];
    if (!accept(&p, "graph") || !parse_word(&p, word))
        return complain(&p, "'graph NAME'");
    p.g = graph_create(word);
    dyno_status status = DYNO_OK;
    while (status == DYNO_OK) {
        skip_blanks(&p);
        if (*p.at == '\n') {
            p.at++;
            p.line++;
        } else if (*p.at == '\0') {
            *out = p.g;
            return DYNO_OK;
        } else {
            status = parse_line(&p);
            skip_blanks(&p);
            if (status == DYNO_OK && *p.at && *p.at != '\n')
                status = complain(&p, "the end of the line");
        }
    }
    graph_destroy(p.g);
    return status;
}
