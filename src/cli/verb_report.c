/* verb_report.c - `dyno report DIR -o study.html`: one file of everything that was measured. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/child.h"
#include "cli/cli.h"

static const flag_spec FLAGS[] = {
    {"out", "FILE", FLAG_TEXT, NULL,
     .help =
         "what is written; its ending says how: .html, .md, .tex, or .pdf, which takes Chromium. "
         "Not given: DIR/report.html; -o is short for it"},
    {"size", "SIZE", FLAG_TEXT, "3MB",
     .help = "how large a page may be; beyond that long tables end early and records lack tables"},
    {"force", NULL, FLAG_SWITCH, NULL, .help = "replaces a file that is there"},
};

static const flags_example EXAMPLES[] = {
    {"report runs/grid", "runs/grid/report.html: tables, plots, findings, every sample"},
    {"report runs/grid -o study.md", "the same as Markdown"},
    {"report runs/grid --out study.tex", "for a paper: booktabs and pgfplots"},
};

const flags_verb cli_report_table = {
    .name = "report",
    .positional = "DIR",
    .least_positionals = 1,
    .most_positionals = 1,
    .positional_path = "FILE", /* a directory, or the record in it */
    .summary =
        "Makes one file of a run, of several runs below DIR, or of the study that `dyno suite` "
        "made there. The HTML page needs no network and no other file: the answers first, then "
        "every experiment with its table (sort, filter, copy), its plot, a sentence that states "
        "the finding, viewers of launches over time, of memory and of time by scope, the commands "
        "and the samples.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

static dyno_status write_file(const char *path, const char *bytes, size_t size, bool replaces) {
    file_writer *writer;
    RETURN_IF_FAILED(file_writer_create_as(path, !replaces, &writer));
    dyno_status status = file_writer_append(writer, bytes, size);
    if (status == DYNO_OK)
        return file_writer_commit(writer);
    file_writer_abandon(writer);
    return status;
}

static dyno_status print_page(const char *page, const char *log, const char *path) {
    static const char *const browsers[] = {"chromium", "chromium-browser", "google-chrome"};
    text print_to = {0}, url = {0}, why = {0};
    dyno_status status = DYNO_OK;
    child_end end = {.exit_code = 127};
    text_format(&print_to, "--print-to-pdf=%s", path);
    text_format(&url, "file://%s", page);
    for (int i = 0; i < 3 && status == DYNO_OK && end.exit_code == 127; i++) {
        const char *argv[] = {browsers[i],
                              "--headless",
                              "--no-sandbox",
                              "--disable-gpu",
                              "--no-pdf-header-footer",
                              print_to.data,
                              url.data,
                              NULL};
        status = child_run(
            &(child_options){.argv = (char *const *)argv, .log = log, .seconds = 120}, &end);
    }
    if (status == DYNO_OK && end.exit_code == 127)
        status = dyno_fail(DYNO_NOT_FOUND,
                           "a PDF takes Chromium, which is not here; write .html and print "
                           "it from a browser");
    else if (status == DYNO_OK && (end.exit_code != 0 || !file_exists(path))) {
        child_append_tail(&why, log);
        status = dyno_fail(DYNO_IO, "Chromium did not print '%s'%s", path, text_string(&why));
    }
    text_release(&print_to);
    text_release(&url);
    text_release(&why);
    return status;
}

/* Chromium reads a file and writes a file: both in a directory of their own, then the PDF is copied. */
static dyno_status write_pdf(const char *path, const char *content, bool replaces) {
    char directory[] = "/tmp/dyno-report-XXXXXX";
    if (!mkdtemp(directory))
        return dyno_fail(DYNO_IO, "no temporary directory can be made in /tmp");
    char page[64], log[64], pdf[64], *bytes;
    size_t size;
    enum { PDF_LIMIT = 256 << 20 };
    snprintf(page, sizeof page, "%s/page.html", directory);
    snprintf(log, sizeof log, "%s/log.txt", directory);
    snprintf(pdf, sizeof pdf, "%s/page.pdf", directory);
    dyno_status status = write_file(page, content, strlen(content), true);
    if (status == DYNO_OK)
        status = print_page(page, log, pdf);
    if (status == DYNO_OK)
        status = file_read_all(pdf, PDF_LIMIT, &bytes, &size);
    if (status == DYNO_OK) {
        status = write_file(path, bytes, size, replaces);
        free(bytes);
    }
    child_remove_tree(directory);
    return status;
}

/* "html" of "study.html"; NULL: none that is known. */
static const char *format_of(const char *path) {
    static const char *const formats[] = {"html", "md", "tex", "pdf"};
    const char *ending = strrchr(path, '.');
    for (int i = 0; ending && i < 4; i++)
        if (strcmp(ending + 1, formats[i]) == 0)
            return formats[i];
    return NULL;
}

/* Before the page is made: that of a large study takes a while, and a PDF Chromium, too. Where there is
 * nothing to report on, that is what is to be said. */
static dyno_status check_output(const flags *given, const char *path, bool replaces) {
    if (!flags_is_set(given, "out"))
        return file_exists(flags_positional(given, 0)) ? file_check_output(path, false) : DYNO_OK;
    dyno_status status = file_check_output(path, !replaces);
    return status == DYNO_OK ? status : dyno_fail_within(status, "--out");
}

static dyno_status make_content(const flags *given, const char *path, bool replaces, char **out) {
    const char *format = format_of(path);
    int64_t most_bytes;
    dyno_status parsed = units_parse_bytes(flags_text(given, "size"), &most_bytes);
    if (parsed != DYNO_OK)
        return dyno_fail_within(parsed, "--size");
    if (!format)
        return dyno_fail(DYNO_INVALID, "--out '%s' must end in .html, .md, .tex or .pdf", path);
    RETURN_IF_FAILED(check_output(given, path, replaces));
    return dyno_report(flags_positional(given, 0), strcmp(format, "pdf") == 0 ? "html" : format,
                       most_bytes, out);
}

/* Where no --out says it: in the directory, or beside the record that was named instead. */
static void append_usual_path(const char *from, text *path) {
    struct stat found;
    const char *slash = strrchr(from, '/');
    if (stat(from, &found) == 0 && !S_ISDIR(found.st_mode))
        text_append_bytes(path, from, slash ? (size_t)(slash + 1 - from) : 0);
    else
        text_format(path, "%s/", from);
    text_append(path, "report.html");
}

static dyno_status run(flags *given) {
    text path = {0};
    if (flags_is_set(given, "out"))
        text_append(&path, flags_text(given, "out"));
    else
        append_usual_path(flags_positional(given, 0), &path);
    /* The usual file is ours to replace. */
    bool replaces = flags_switch(given, "force") || !flags_is_set(given, "out");
    char *content = NULL;
    dyno_status status = make_content(given, text_string(&path), replaces, &content);
    if (status == DYNO_OK)
        status = strcmp(format_of(text_string(&path)), "pdf") == 0
                     ? write_pdf(text_string(&path), content, replaces)
                     : write_file(text_string(&path), content, strlen(content), replaces);
    if (status == DYNO_OK)
        printf("%s\n", text_string(&path));
    dyno_text_free(content);
    text_release(&path);
    return status;
}

/* -o, as compilers have it, is --out. */
int cli_report(int argc, char **argv) {
    char **words = memory_allocate((size_t)argc + 1, sizeof *words);
    static char out[] = "--out";
    for (int i = 0; i < argc; i++)
        words[i] = i && strcmp(argv[i], "-o") == 0 ? out : argv[i];
    int code = cli_run(&cli_report_table, argc, words, run);
    free(words);
    return code;
}
