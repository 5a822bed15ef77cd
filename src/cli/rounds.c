#define _GNU_SOURCE
#include "cli/rounds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/child.h"
#include "cli/progress.h"

static char *join(const char *directory, const char *name) {
    text path = {0};
    text_format(&path, "%s/%s", directory, name);
    return path.data;
}

static dyno_status make_directories(const rounds_options *options, rounds *out) {
    if (options->directory) {
        out->root = memory_copy_string(options->directory);
    } else {
        const char *base = getenv("TMPDIR");
        out->root = join(base && *base ? base : "/tmp", "dyno-compare-XXXXXX");
        if (!mkdtemp(out->root))
            return dyno_fail(DYNO_IO,
                             "making a temporary directory '%s': %s; --out DIR names another",
                             out->root, strerror(errno));
        out->is_temporary = true;
    }
    for (int side = 0; side < 2; side++) {
        out->paths[side] = join(out->root, side ? "b" : "a");
        if (file_exists(out->paths[side]))
            return dyno_fail(DYNO_INVALID,
                             "'%s' is there already; rounds of two comparisons do not mix: use "
                             "another --out",
                             out->paths[side]);
    }
    for (int side = 0; side < 2; side++) {
        out->made[side] = file_find_missing(out->paths[side]);
        RETURN_IF_FAILED(file_make_output_directory(out->paths[side]));
    }
    return DYNO_OK;
}

/* In single quotes, for a shell. */
static void append_quoted(text *out, const char *word) {
    text_append(out, "'");
    for (; *word; word++)
        text_append_bytes(out, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    text_append(out, "'");
}

static dyno_status judge(const char *command, const child_end *end, const char *record,
                         const char *log) {
    text why = {0};
    dyno_status status = DYNO_OK;
    child_append_tail(&why, log);
    if (end->exit_code != 0)
        status = dyno_fail(DYNO_IO, "the command \"%s\" failed with %s %d%s", command,
                           end->exit_code < 0 ? "signal" : "exit code",
                           end->exit_code < 0 ? end->signal : end->exit_code, text_string(&why));
    else if (!file_exists(record))
        status =
            dyno_fail(DYNO_INVALID,
                      "the command \"%s\" wrote no run.json; it must be a dyno verb that takes "
                      "--out DIR%s",
                      command, text_string(&why));
    text_release(&why);
    return status;
}

static dyno_status run_one(const char *command, const char *directory) {
    text line = {0};
    char *log = join(directory, "log.txt"), *record = join(directory, "run.json");
    text_format(&line, "%s --out ", command);
    append_quoted(&line, directory);
    child_end end;
    dyno_status status = file_make_output_directory(directory);
    if (status == DYNO_OK)
        status =
            child_run(&(child_options){.argv = (char *const[]){(char[]){"/bin/sh"}, (char[]){"-c"},
                                                               line.data, NULL},
                                       .log = log},
                      &end);
    if (status == DYNO_OK)
        status = judge(command, &end, record, log);
    text_release(&line);
    free(log);
    free(record);
    return status;
}

/* A round that only one of the two has finished is no round. */
static dyno_status run_round(const rounds_options *options, rounds *out, int number) {
    char name[32];
    char *paths[2];
    dyno_status status = DYNO_OK;
    snprintf(name, sizeof name, "round-%04d", number + 1);
    for (int side = 0; side < 2; side++)
        paths[side] = join(out->paths[side], name);
    for (int turn = 0; turn < 2 && status == DYNO_OK; turn++) {
        int side = (number + turn) % 2;
        status = run_one(options->commands[side], paths[side]);
    }
    for (int side = 0; side < 2; side++) {
        if (status != DYNO_OK)
            child_remove_tree(paths[side]);
        free(paths[side]);
    }
    out->finished += status == DYNO_OK;
    return status;
}

dyno_status rounds_run(const rounds_options *options, rounds *out) {
    *out = (rounds){0};
    RETURN_IF_FAILED(make_directories(options, out));
    progress *line = progress_create(options->count);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < options->count && status == DYNO_OK; i++) {
        char label[64];
        snprintf(label, sizeof label, "round %d of %d", i + 1, options->count);
        progress_update(line, i, label);
        status = run_round(options, out, i);
    }
    progress_destroy(line);
    return status;
}

/* Directories without a round would refuse the same command when it is given again. */
void rounds_release(rounds *made) {
    for (int side = 1; side >= 0; side--)
        if (made->finished == 0 && made->made[side])
            file_remove_directories(made->paths[side], made->made[side]);
        else
            free(made->made[side]);
    if (made->is_temporary)
        child_remove_tree(made->root);
    free(made->root);
    free(made->paths[0]);
    free(made->paths[1]);
    *made = (rounds){0};
}
