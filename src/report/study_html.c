/* study_html.c - a study as one HTML page that needs nothing else.
 *
 * The page is complete without its script: tables, plots and texts are written here. The script
 * (html/page.js) adds sorting, filtering, copying and the viewers, and reads the records from a block of
 * JSON. Whatever comes from a record is escaped: as text by html_append_text, as JSON so that no "<" is
 * left in it. */
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "measure/keys.h"
#include "report/figure.h"
#include "report/finding.h"
#include "report/markup.h"
#include "report/page_records.h"
#include "report/study.h"
#include "report/study_answers.h"
#include "report/view.h"
#include "report/view_parts.h"

/* What stands behind the records, but for the scripts. */
enum { END_BYTES = 1000 };

static void append_header(const report_table *table, text *out) {
    text_append(out, "<thead><tr>");
    for (int j = 0; j < table->column_count; j++) {
        text_format(out, "<th scope=\"col\"%s>",
                    table->columns[j].alignment == TABLE_RIGHT ? " class=\"number\"" : "");
        html_append_text(out, table->columns[j].header);
        text_append(out, "</th>");
    }
    text_append(out, "</tr></thead>");
}

static void append_cell(const table_column *column, const table_cell *cell, text *out) {
    text shown = {0};
    text_append(&shown, "");
    table_append_shown(&shown, cell);
    bool is_number = cell->kind == CELL_INTEGER || cell->kind == CELL_REAL;
    bool is_bad = strcmp(column->key, "status") == 0 && strcmp(text_string(&shown), "OK") != 0;
    text_append(out, "<td");
    if (is_number) {
        text_append(out, " class=\"number\" data-v=\"");
        table_append_exact(out, cell);
        text_append(out, "\"");
    } else if (is_bad) {
        text_append(out, " class=\"bad\"");
    } else if (column->alignment == TABLE_RIGHT) {
        text_append(out, " class=\"number\"");
    }
    text_append(out, ">");
    html_append_text(out, text_string(&shown));
    text_append(out, "</td>");
    text_release(&shown);
}

static void append_table(const report_table *table, int most_rows, text *out) {
    text_append(out, "<div class=\"table\"><table><caption>");
    html_append_text(out, table->title ? table->title : "");
    text_append(out, "</caption>");
    append_header(table, out);
    text_append(out, "<tbody>\n");
    for (int i = 0; i < table->row_count && i < most_rows; i++) {
        text_append(out, "<tr>");
        for (int j = 0; j < table->column_count; j++)
            append_cell(&table->columns[j], &table->rows[i].cells[j], out);
        text_append(out, "</tr>\n");
    }
    text_append(out, "</tbody></table></div>\n");
    if (table->row_count > most_rows)
        text_format(out,
                    "<p class=\"note\">%d rows of %d are shown; dyno show --format csv has all</p>",
                    most_rows, table->row_count);
    if (table->note_count)
        text_append(out, "<details class=\"note\"><summary>How to read this table</summary><ul>");
    for (int i = 0; i < table->note_count; i++) {
        text_append(out, "<li>");
        html_append_text(out, table->notes[i]);
        text_append(out, "</li>");
    }
    if (table->note_count)
        text_append(out, "</ul></details>\n");
}

static void append_document(const results *run, int most_rows, text *out) {
    report_document *document = view_create_document(run, false);
    int64_t tables = 0;
    for (int64_t i = 0; i < document->count; i++) {
        const document_block *block = &document->blocks[i];
        if (block->kind == BLOCK_TABLE) {
            if (tables++ == 1)
                text_append(out, "<details><summary>More tables</summary>\n");
            append_table(block->table, most_rows, out);
        } else if (block->kind == BLOCK_NOTE) {
            text_append(out, "<p class=\"note\">");
            html_append_text(out, block->note);
            text_append(out, "</p>\n");
        }
    }
    text_append(out, tables > 1 ? "</details>\n" : "");
    document_destroy(document);
}

static void append_commands(const study_section *section, text *out) {
    const results *run = section->run;
    text_append(out, "<details class=\"note\"><summary>Commands and environment</summary><pre>");
    for (int i = 0; i < section->command_count; i++) {
        text_append(out, i ? "\n" : "");
        html_append_text(out, section->commands[i]);
    }
    text_append(out, "</pre><dl>");
    for (int i = 0; i < run->environment.count; i++) {
        text value = {0};
        text_append(&value, "");
        view_append_value(&value, &run->environment.entries[i].value);
        text_append(out, "<div><dt>");
        html_append_text(out, run->environment.entries[i].key);
        text_append(out, "</dt><dd>");
        html_append_text(out, text_string(&value));
        text_append(out, "</dd></div>");
        text_release(&value);
    }
    text_append(out, "</dl></details>\n");
}

static bool has_breakdown(const results *run, const char *name) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (cell_find_breakdown(run->cells[i], name))
            return true;
    return false;
}

/* Filled by the script; hidden without it. */
static void append_viewers(const results *run, int index, text *out) {
    static const struct {
        const char *breakdown, *kind, *title;
    } viewers[] = {{BREAKDOWN_RECORDS, "timeline", "Launches over time"},
                   {BREAKDOWN_TIMELINE, "memory", "Bytes over the step, by role"},
                   {BREAKDOWN_BY_SCOPE, "flame", "Time by scope"}};
    for (size_t i = 0; i < sizeof viewers / sizeof *viewers; i++)
        if (has_breakdown(run, viewers[i].breakdown))
            text_format(out,
                        "<div class=\"viewer\" hidden data-viewer=\"%s\" data-run=\"%d\" "
                        "aria-label=\"%s\"></div>\n",
                        viewers[i].kind, index, viewers[i].title);
}

static void append_section(const study_section *section, int index, int most_rows, text *out) {
    text finding = {0};
    text_format(out, "<section id=\"s%d\" aria-labelledby=\"h%d\"><h2 id=\"h%d\">", index, index,
                index);
    if (section->number[0]) {
        text_append(out, "<span class=\"experiment\">");
        html_append_text(out, section->number);
        text_append(out, "</span> ");
    }
    html_append_text(out, section->title);
    text_append(out, "</h2>\n<p class=\"question\">");
    html_append_text(out, section->question);
    text_append(out, "</p>\n");
    if (section->skipped[0]) {
        text_append(out, "<p class=\"bad\">Not run: ");
        html_append_text(out, section->skipped);
        text_append(out, "</p>\n");
    }
    if (section->run) {
        figure_list figures = figure_list_create(section->run);
        finding_append(section->run, &finding);
        if (finding.length) {
            text_append(out, "<p class=\"finding\">");
            html_append_text(out, text_string(&finding));
            text_append(out, "</p>\n");
        }
        for (int i = 0; i < figures.count; i++)
            figure_append_svg(figures.figures[i], out);
        if (figures.is_cut)
            text_append(out, "<p>" FIGURES_ARE_CUT "</p>\n");
        figure_list_release(&figures);
        append_viewers(section->run, index, out);
        append_document(section->run, most_rows, out);
        append_commands(section, out);
    }
    text_append(out, "</section>\n");
    text_release(&finding);
}

/* ---- the first screen ---- */

/* The first answers are shown; the rest is folded, so that all questions are on the first screen. */
static void append_answer(const study *s, const study_question *question, text *out) {
    enum { SHOWN = 2 };
    text shown = {0}, folded = {0};
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        text answer = {0};
        study_append_answer(&s->sections[i], question, &answer);
        if (answer.length) {
            text *to = count++ < SHOWN ? &shown : &folded;
            text_format(to, "<li><a href=\"#s%d\">", i);
            html_append_text(to, s->sections[i].title);
            text_append(to, "</a>: ");
            html_append_text(to, text_string(&answer));
            text_append(to, "</li>");
        }
        text_release(&answer);
    }
    text_format(out, "<div><dt>%s</dt><dd>", question->text);
    if (shown.length)
        text_format(out, "<ul>%s</ul>", text_string(&shown));
    else
        text_append(out, question->otherwise);
    if (folded.length)
        text_format(out, "<details><summary>%d more</summary><ul>%s</ul></details>", count - SHOWN,
                    text_string(&folded));
    text_append(out, "</dd></div>\n");
    text_release(&shown);
    text_release(&folded);
}

static void append_summary(const study *s, text *out) {
    text machine = {0};
    study_append_machine(s, &machine);
    text_format(out,
                "<section id=\"summary\"><h2>The answers</h2><dl class=\"answers\">\n"
                "<div><dt>%s</dt><dd>",
                study_machine_question);
    html_append_text(out, text_string(&machine));
    text_append(out, "</dd></div>\n");
    text_release(&machine);
    for (int i = 0; i < STUDY_QUESTIONS; i++)
        append_answer(s, &study_questions[i], out);
    text_append(out, "</dl></section>\n");
}

/* The sections, with as many rows of long tables as leave half of the page to the records. */
static void append_sections(const study *s, size_t most_bytes, text *out) {
    static const int row_limits[] = {2000, 500, 100, 20};
    text sections = {0};
    for (size_t i = 0; i < sizeof row_limits / sizeof *row_limits; i++) {
        text_release(&sections);
        sections = (text){0};
        for (int j = 0; j < s->count; j++)
            append_section(&s->sections[j], j, row_limits[i], &sections);
        if (sections.length < most_bytes / 2)
            break;
    }
    text_append(out, text_string(&sections));
    text_release(&sections);
}

void study_append_html(const study *s, size_t most_bytes, text *out) {
    const char *style = embedded_find("src/report/html/page.css"),
               *timeline = embedded_find("src/report/html/timeline.js"),
               *script = embedded_find("src/report/html/page.js");
    text_append(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                     "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
                     "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    html_append_text(out, s->title);
    text_format(
        out,
        "</title>\n<style>\n%s</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">To "
        "the answers</a>\n<header><h1>",
        style ? style : "");
    html_append_text(out, s->title);
    text_append(out,
                "</h1></header>\n<nav aria-label=\"Experiments\"><ul><li><a href=\"#summary\">The "
                "answers</a></li>\n");
    for (int i = 0; i < s->count; i++) {
        text_format(out, "<li><a href=\"#s%d\">", i);
        html_append_text(out, s->sections[i].title);
        text_append(out, "</a></li>\n");
    }
    text_append(out, "</ul></nav>\n<main id=\"main\">\n");
    append_summary(s, out);
    append_sections(s, most_bytes, out);
    size_t used =
        out->length + strlen(timeline ? timeline : "") + strlen(script ? script : "") + END_BYTES;
    page_append_records(s, used < most_bytes ? most_bytes - used : 0, out);
    text_format(
        out,
        "</main>\n<footer>Made by dyno %s from the records that are in this page.</footer>\n"
        "<script>\n\"use strict\";\n%s%s</script>\n</body>\n</html>\n",
        dyno_version(), timeline ? timeline : "", script ? script : "");
}
