#include "report/study.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/figure.h"
#include "report/finding.h"
#include "report/markup.h"
#include "report/run_set.h"
#include "report/study_answers.h"
#include "report/view.h"

static study_section *add_section(study *s, const char *name) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->sections[i].name, name) == 0)
            return &s->sections[i];
    MEMORY_GROW(s->sections, s->count, s->capacity);
    s->sections[s->count] = (study_section){.name = arena_copy_string(s->memory, name),
                                            .title = "",
                                            .question = "",
                                            .number = "",
                                            .skipped = ""};
    return &s->sections[s->count++];
}

/* Where it was kept and how it was printed is not what was measured. */
static bool is_of_output(const char *word, bool *takes_value) {
    static const char *const flags[] = {"--out", "--format", "--trace", "--snapshot"};
    *takes_value = false;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        size_t length = strlen(flags[i]);
        if (strncmp(word, flags[i], length) == 0 && (!word[length] || word[length] == '=')) {
            *takes_value = !word[length];
            return true;
        }
    }
    return strcmp(word, "--force") == 0 || strcmp(word, "--wide") == 0;
}

static void add_command(study *s, const results *run, study_section *section) {
    text command = {0};
    text_append(&command, "dyno");
    for (int i = 0; i < run->argc; i++) {
        bool takes_value;
        if (is_of_output(run->argv[i], &takes_value))
            i += takes_value;
        else {
            text_append(&command, " ");
            text_append_shell_word(&command, run->argv[i]);
        }
    }
    MEMORY_GROW(section->commands, section->command_count, section->command_capacity);
    section->commands[section->command_count++] =
        arena_copy_string(s->memory, text_string(&command));
    text_release(&command);
}

/* An experiment whose parts were all skipped has no directory, or an empty one. */
static dyno_status read_section(study *s, const char *path, study_section *section) {
    text directory = {0};
    run_set runs;
    text_format(&directory, "%s/%s", path, section->name);
    dyno_status status = run_set_read(text_string(&directory), &runs);
    if (status == DYNO_OK)
        status = run_set_merge(&runs, text_string(&directory), &section->run);
    else if (status == DYNO_NOT_FOUND)
        status = DYNO_OK;
    for (int i = 0; i < runs.count && section->run; i++)
        add_command(s, runs.runs[i], section);
    run_set_release(&runs);
    text_release(&directory);
    return status;
}

/* Why a part was not run, or not to its end; which one it is, where the experiment has several. */
static void add_skips(study *s, const suite_part *part, study_section *section) {
    if (part->status == SUITE_OK || !part->reason[0])
        return;
    text which = {0};
    text_append(&which, "");
    if (part->parts > 1) {
        text_format(&which, " (dyno %s", part->verb);
        for (int i = 0; i < part->argument_count; i++)
            text_format(&which, " %s", part->arguments[i]);
        text_append(&which, ")");
    }
    section->skipped =
        arena_format(s->memory, "%s%s%s%s: %s", section->skipped, section->skipped[0] ? "; " : "",
                     suite_status_name(part->status), text_string(&which), part->reason);
    text_release(&which);
}

static dyno_status read_suite(const char *path, const suite *made, study *s) {
    s->title = arena_copy_string(s->memory, made->title);
    for (int i = 0; i < made->count; i++) {
        const suite_part *part = &made->parts[i];
        study_section *section = add_section(s, part->experiment);
        section->place = section->place ? section->place : i + 1;
        section->title = arena_copy_string(s->memory, part->title);
        section->question = arena_copy_string(s->memory, part->question);
        section->number = arena_copy_string(s->memory, part->number);
        suite_part found = *part;
        if (part->status == SUITE_OK && !suite_has_record(part, path)) {
            found.status = SUITE_PENDING;
            found.reason = SUITE_RECORD_IS_GONE;
        }
        add_skips(s, &found, section);
    }
    for (int i = 0; i < s->count; i++)
        RETURN_IF_FAILED(read_section(s, path, &s->sections[i]));
    return DYNO_OK;
}

static dyno_status read_runs(const char *path, study *s) {
    run_set runs;
    dyno_status status = run_set_read(path, &runs);
    s->title = arena_format(s->memory, "What dyno measured in %s", path);
    for (int i = 0; i < runs.count && status == DYNO_OK; i++) {
        study_section *section =
            add_section(s, *runs.names[i] ? runs.names[i] : runs.runs[i]->verb);
        section->title = arena_format(s->memory, *runs.names[i] ? "dyno %s: %s" : "dyno %s",
                                      runs.runs[i]->verb, runs.names[i]);
        section->run = runs.runs[i];
        runs.runs[i] = NULL;
        add_command(s, section->run, section);
    }
    run_set_release(&runs);
    return status;
}

/* By the number of the experiment, then as the suite has them, then by name. */
static int compare_sections(const void *a, const void *b) {
    const study_section *x = a, *y = b;
    long of_x = strtol(x->number, NULL, 10), of_y = strtol(y->number, NULL, 10);
    if (of_x != of_y)
        return (of_x > of_y) - (of_x < of_y);
    return x->place != y->place ? x->place - y->place : strcmp(x->name, y->name);
}

dyno_status study_read(const char *path, study **out) {
    suite *made;
    *out = NULL;
    study *s = memory_allocate(1, sizeof *s);
    s->memory = arena_create();
    dyno_status status = suite_read_record(path, &made);
    if (status == DYNO_OK)
        status = read_suite(path, made, s);
    else if (status == DYNO_NOT_FOUND)
        status = read_runs(path, s);
    suite_destroy(made);
    if (status == DYNO_OK) {
        qsort(s->sections, (size_t)s->count, sizeof *s->sections, compare_sections);
        *out = s;
    } else {
        study_destroy(s);
    }
    return status;
}

void study_destroy(study *s) {
    if (!s)
        return;
    for (int i = 0; i < s->count; i++) {
        results_destroy(s->sections[i].run);
        free(s->sections[i].commands);
    }
    free(s->sections);
    arena_destroy(s->memory);
    free(s);
}

/* ---- Markdown and LaTeX ---- */

static void append_heading(const study_section *section, text *out) {
    text_append(out, "\n## ");
    render_markdown_text(out, section->title);
    text_append(out, "\n\n");
    if (section->question[0]) {
        render_markdown_text(out, section->question);
        text_append(out, "\n\n");
    }
}

static void append_markdown_answer(const study *s, const study_question *question, text *out) {
    bool is_answered = false;
    text_format(out, "\n**%s**", question->text);
    for (int i = 0; i < s->count; i++) {
        text answer = {0};
        study_append_answer(&s->sections[i], question, &answer);
        if (answer.length) {
            text_append(out, is_answered ? "\n- " : "\n\n- ");
            render_markdown_text(out, s->sections[i].title);
            text_append(out, ": ");
            render_markdown_text(out, text_string(&answer));
            is_answered = true;
        }
        text_release(&answer);
    }
    if (!is_answered)
        text_format(out, " %s", question->otherwise);
    text_append(out, "\n");
}

static void append_markdown_answers(const study *s, text *out) {
    text machine = {0};
    study_append_machine(s, &machine);
    text_format(out, "\n**%s** ", study_machine_question);
    render_markdown_text(out, text_string(&machine));
    text_append(out, "\n");
    text_release(&machine);
    for (int i = 0; i < STUDY_QUESTIONS; i++)
        append_markdown_answer(s, &study_questions[i], out);
}

void study_append_markdown(const study *s, text *out) {
    text_append(out, "# ");
    render_markdown_text(out, s->title);
    text_append(out, "\n");
    append_markdown_answers(s, out);
    for (int i = 0; i < s->count; i++) {
        const study_section *section = &s->sections[i];
        text finding = {0};
        append_heading(section, out);
        if (section->skipped[0]) {
            text_append(out, "Not run: ");
            render_markdown_text(out, section->skipped);
            text_append(out, "\n\n");
        }
        if (!section->run)
            continue;
        finding_append(section->run, &finding);
        view_render(section->run, (view_options){.format = TABLE_MARKDOWN}, out);
        if (finding.length) {
            text_append(out, "\n");
            render_markdown_text(out, text_string(&finding));
            text_append(out, "\n");
        }
        text_append(out, "\nMeasured by\n\n");
        for (int j = 0; j < section->command_count; j++) {
            text_append(out, "- ");
            render_markdown_text(out, section->commands[j]);
            text_append(out, "\n");
        }
        text_release(&finding);
    }
}

static void append_tex_cell(const table_cell *cell, text *out) {
    text shown = {0};
    text_append(&shown, "");
    table_append_shown(&shown, cell);
    tex_append_text(out, text_string(&shown));
    text_release(&shown);
}

static void append_tex_table(const report_table *table, text *out) {
    text_append(out, "\\begin{table}[H]\\centering\n\\caption{");
    tex_append_text(out, table->title ? table->title : "");
    text_append(out, "}\n\\resizebox{\\linewidth}{!}{%\n\\begin{tabular}{");
    for (int j = 0; j < table->column_count; j++)
        text_append(out, table->columns[j].alignment == TABLE_RIGHT ? "r" : "l");
    text_append(out, "}\n\\toprule\n");
    for (int j = 0; j < table->column_count; j++) {
        text_append(out, j ? " & " : "");
        tex_append_text(out, table->columns[j].header);
    }
    text_append(out, " \\\\\n\\midrule\n");
    for (int i = 0; i < table->row_count; i++) {
        for (int j = 0; j < table->column_count; j++) {
            text_append(out, j ? " & " : "");
            append_tex_cell(&table->rows[i].cells[j], out);
        }
        text_append(out, " \\\\\n");
    }
    text_append(out, "\\bottomrule\n\\end{tabular}}\n\\end{table}\n\n");
}

static void append_tex_section(const study_section *section, text *out) {
    text finding = {0};
    text_append(out, "\\section{");
    tex_append_text(out, section->title);
    text_append(out, "}\n");
    tex_append_text(out, section->question);
    text_append(out, "\n\n");
    if (section->skipped[0]) {
        text_append(out, "Not run: ");
        tex_append_text(out, section->skipped);
        text_append(out, "\n\n");
    }
    if (!section->run)
        return;
    report_document *document = view_create_document(section->run, false);
    for (int64_t i = 0; i < document->count; i++)
        if (document->blocks[i].kind == BLOCK_TABLE)
            append_tex_table(document->blocks[i].table, out);
    document_destroy(document);
    figure_list figures = figure_list_create(section->run);
    for (int i = 0; i < figures.count; i++)
        figure_append_tex(figures.figures[i], out);
    if (figures.is_cut)
        text_append(out, FIGURES_ARE_CUT "\n\n");
    figure_list_release(&figures);
    finding_append(section->run, &finding);
    tex_append_text(out, text_string(&finding));
    text_append(out, "\n\n\\begin{flushleft}\\footnotesize\\ttfamily\n");
    for (int i = 0; i < section->command_count; i++) {
        tex_append_text(out, section->commands[i]);
        text_append(out, "\\par\n");
    }
    text_append(out, "\\end{flushleft}\n\n");
    text_release(&finding);
}

static void append_tex_answer(const study *s, const study_question *question, text *out) {
    bool is_answered = false;
    text_format(out, "\\item[%s]", question->text);
    for (int i = 0; i < s->count; i++) {
        text answer = {0};
        study_append_answer(&s->sections[i], question, &answer);
        if (answer.length) {
            text_append(out, is_answered ? "\\par\n" : "\n");
            tex_append_text(out, s->sections[i].title);
            text_append(out, ": ");
            tex_append_text(out, text_string(&answer));
            is_answered = true;
        }
        text_release(&answer);
    }
    if (!is_answered)
        text_format(out, "\n%s", question->otherwise);
    text_append(out, "\n");
}

static void append_tex_answers(const study *s, text *out) {
    text machine = {0};
    study_append_machine(s, &machine);
    text_format(out, "\\begin{description}\n\\item[%s]\n", study_machine_question);
    tex_append_text(out, text_string(&machine));
    text_append(out, "\n");
    text_release(&machine);
    for (int i = 0; i < STUDY_QUESTIONS; i++)
        append_tex_answer(s, &study_questions[i], out);
    text_append(out, "\\end{description}\n\\clearpage\n");
}

void study_append_tex(const study *s, text *out) {
    text_append(out, "\\documentclass{article}\n\\usepackage[margin=2cm]{geometry}\n"
                     "\\usepackage[T1]{fontenc}\n\\usepackage[utf8]{inputenc}\n"
                     "\\usepackage{textcomp,booktabs,float,graphicx,pgfplots}\n"
                     "\\pgfplotsset{compat=1.16}\n\\title{");
    tex_append_text(out, s->title);
    text_append(out, "}\n\\author{}\n\\begin{document}\n\\sloppy\n\\maketitle\n");
    append_tex_answers(s, out);
    for (int i = 0; i < s->count; i++) {
        append_tex_section(&s->sections[i], out);
        text_append(out, "\\clearpage\n");
    }
    text_append(out, "\\end{document}\n");
}
