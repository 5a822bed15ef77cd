/* graph_text.c - the printer and a line-by-line parser of the form in graph_text.h. */
#include "graph/graph_text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/graph_parameter.h"
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
        if (graph_leaf_parameter(v) && v->parameter->block >= 0)
            text_format(out, " block %d", v->parameter->block);
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
            text_format(out, " %s", g->scopes[n->scope].path);
        if (n->group)
            text_format(out, " #%d", n->group);
        text_append(out, "\n");
    }
    for (int i = 0; i < g->value_count; i++)
        if (g->values[i]->is_output)
            text_format(out, "output %%%d \"%s\"\n", number[i], g->values[i]->name);
    for (int i = 0; i < g->parameter_count; i++) {
        const graph_parameter *p = g->parameters[i];
        if (p->gradient && !p->gradient->is_output)
            text_format(out, "gradient-of \"%s\" %%%d\n", p->name, number[p->gradient->id]);
    }
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

/* "%3 f32[2,4]". The number is redundant, but a wrong one would mislead the reader. */
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

/* What follows "layers.N" in the path, N in *block; NULL where it does not start so. */
static const char *after_block(const char *path, int *block) {
    static const char prefix[] = "layers.";
    if (strncmp(path, prefix, sizeof prefix - 1) != 0)
        return NULL;
    const char *digits = path + sizeof prefix - 1;
    char *end;
    if (*digits < '0' || *digits > '9')
        return NULL;
    long number = strtol(digits, &end, 10);
    if ((*end != '.' && *end != '\0') || number >= INT_MAX)
        return NULL;
    *block = (int)number;
    return end;
}

int graph_parse_scope(graph *g, const char *path) {
    static const char *const mlp_names[] = {".mlp", ".mlp_norm"};
    int index = graph_intern_scope(g, path, 0);
    graph_scope *scope = &g->scopes[index];
    const char *below = after_block(path, &scope->block);
    for (size_t i = 0; below && i < sizeof mlp_names / sizeof *mlp_names; i++) {
        size_t length = strlen(mlp_names[i]);
        if (strncmp(below, mlp_names[i], length) == 0 &&
            (below[length] == '.' || below[length] == '\0'))
            scope->part = BLOCK_MLP;
    }
    return index;
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
    p->g->current_scope = parse_word(p, word) ? graph_parse_scope(p->g, word) : 0;
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

static graph_parameter *find_parameter(const graph *g, const char *name) {
    for (int i = 0; i < g->parameter_count; i++)
        if (strcmp(g->parameters[i]->name, name) == 0)
            return g->parameters[i];
    return NULL;
}

/* What follows the part's prefix in the name; NULL where it does not start so. */
static const char *after_prefix(const char *name, parameter_part part) {
    const char *prefix = parameter_part_prefix(part);
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

/* Binds the value to the parameter that it is this part of, if its name says so. */
static bool bind_by_name(graph *g, value *v, parameter_part part) {
    const char *name = after_prefix(v->name, part);
    graph_parameter *p = name ? find_parameter(g, name) : NULL;
    if (p)
        graph_bind_part(p, part, v);
    return p != NULL;
}

static void record_leaf(graph *g, value *leaf) {
    if (leaf->role == ROLE_OPTIMIZER_STATE && !bind_by_name(g, leaf, PARAMETER_FIRST_MOMENT))
        bind_by_name(g, leaf, PARAMETER_SECOND_MOMENT);
    if (leaf->role != ROLE_PARAMETER || bind_by_name(g, leaf, PARAMETER_LOW_COPY))
        return;
    const char *whole = leaf->type == DTYPE_U16 ? after_prefix(leaf->name, PARAMETER_REST) : NULL;
    graph_record_parameter(g, leaf, whole ? whole : leaf->name, -1)->is_split = whole != NULL;
}

/* "block 3", of a parameter's leaf. */
static dyno_status parse_block(parser *p, const value *leaf) {
    int64_t block;
    if (!accept(p, "block"))
        return DYNO_OK;
    if (!graph_leaf_parameter(leaf))
        return complain(p, "no block of a leaf that is no parameter");
    if (!parse_integer(p, &block) || block < 0 || block >= INT_MAX)
        return complain(p, "a block such as 3");
    leaf->parameter->block = (int)block;
    return DYNO_OK;
}

static dyno_status parse_output(parser *p) {
    value *v;
    const char *name;
    RETURN_IF_FAILED(parse_reference(p, &v));
    RETURN_IF_FAILED(parse_quoted(p, &name));
    graph_add_output(p->g, v, name);
    if (v->role == ROLE_GRADIENT)
        bind_by_name(p->g, v, PARAMETER_GRADIENT);
    return DYNO_OK;
}

static dyno_status parse_gradient(parser *p) {
    value *v;
    const char *name;
    RETURN_IF_FAILED(parse_quoted(p, &name));
    RETURN_IF_FAILED(parse_reference(p, &v));
    graph_parameter *parameter = find_parameter(p->g, name);
    if (!parameter)
        return dyno_fail(DYNO_INVALID, "graph text, line %d: there is no parameter '%s'", p->line,
                         name);
    graph_set_gradient(p->g, parameter, v);
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
    if (strcmp(word, "output") == 0)
        return parse_output(p);
    if (strcmp(word, "gradient-of") == 0)
        return parse_gradient(p);
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
    record_leaf(p->g, leaf);
    RETURN_IF_FAILED(parse_block(p, leaf));
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
