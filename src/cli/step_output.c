/* step_output.c - --out and --save of `dyno step`: what may be written where, and the writing.
 *
 * --out is declared before the first step, so that what cannot be written is found then. A run that
 * is interrupted has fewer losses than were declared: the file is then declared anew. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/step_job.h"

/* ---- before anything runs ---- */

/* The first file of the directory that writing `path` would replace, or that is it; NULL when there
 * is none. The caller frees it. */
static char *find_replaced(const char *directory, const char *path) {
    DIR *entries = opendir(directory);
    char *found = NULL;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        text inside = {0};
        struct stat status;
        text_format(&inside, "%s/%s", directory, entry->d_name);
        bool is_directory = stat(inside.data, &status) == 0 && S_ISDIR(status.st_mode);
        if (!is_directory && file_is_same(inside.data, path))
            found = memory_copy_string(entry->d_name);
        text_release(&inside);
    }
    if (entries)
        closedir(entries);
    return found;
}

static dyno_status check_out(const step_job *job, const char *out) {
    const char *tokens = flags_text(job->given, "tokens"), *load = flags_text(job->given, "load");
    if (file_is_same(out, tokens))
        return dyno_fail(DYNO_INVALID,
                         "--out '%s' is the file that --tokens reads; give it another name", out);
    char *replaced = find_replaced(load, out);
    dyno_status status = DYNO_OK;
    if (replaced)
        status = dyno_fail(
            DYNO_INVALID,
            "--out '%s' is %s of the model that --load reads; give it another name, or --save DIR "
            "to write the trained model",
            out, text_quote(replaced).text);
    free(replaced);
    RETURN_IF_FAILED(status);
    status = file_check_output(out, !flags_switch(job->given, "force"));
    return status == DYNO_OK ? status : dyno_fail_within(status, "--out");
}

/* Of two outputs the one that comes last would replace the other. */
static dyno_status check_both(const char *out, const char *save) {
    struct stat of_save;
    text inside = {0};
    const char *slash = strrchr(out, '/'), *name = slash ? slash + 1 : out;
    text_format(&inside, "%s/%s", save, name);
    bool is_inside = stat(save, &of_save) == 0 && file_is_same(inside.data, out);
    text_release(&inside);
    if (is_inside && dyno_save_writes(name))
        return dyno_fail(DYNO_INVALID,
                         "--out '%s' is a file that --save '%s' writes; give it another name", out,
                         save);
    return DYNO_OK;
}

static dyno_status check_save(const step_job *job, const char *save) {
    dyno_save_options how = {.size = sizeof how, .replaces = flags_switch(job->given, "force")};
    const char *tokens = flags_text(job->given, "tokens");
    char *replaced = find_replaced(save, tokens);
    dyno_status status = DYNO_OK;
    if (replaced && dyno_save_writes(replaced))
        status = dyno_fail(DYNO_INVALID,
                           "--save '%s' would replace %s, which --tokens reads; save to another "
                           "directory",
                           save, text_quote(replaced).text);
    free(replaced);
    RETURN_IF_FAILED(status);
    return dyno_save_check(save, flags_text(job->given, "load"), &how);
}

dyno_status step_check_outputs(const step_job *job) {
    const char *out = flags_text(job->given, "out"), *save = flags_text(job->given, "save");
    if (out)
        RETURN_IF_FAILED(check_out(job, out));
    if (save)
        RETURN_IF_FAILED(check_save(job, save));
    return out && save ? check_both(out, save) : DYNO_OK;
}

/* ---- the file of --out ---- */

/* Everything in the order in which it will be known; the caller frees *out. */
static dyno_status list_outputs(const step_job *job, int64_t steps, arena *names, dyno_tensor **out,
                                int *count) {
    const dyno_model *model = dyno_trainer_model(job->trainer);
    int parameters = dyno_model_parameter_count(model), made = 0;
    dyno_tensor *list = memory_allocate(1 + (size_t)steps + 2 * (size_t)parameters, sizeof *list);
    *out = list;
    if (job->dump.logits)
        list[made++] =
            (dyno_tensor){"logits", 3, {job->batch, job->context, dyno_model_vocabulary(model)}};
    for (int i = 0; job->dump.gradients && i < parameters; i++, made++) {
        RETURN_IF_FAILED(dyno_model_parameter(model, i, &list[made]));
        list[made].name = arena_format(names, "g.%s", list[made].name);
    }
    for (int64_t k = 0; job->dump.loss && k < steps; k++)
        list[made++].name = arena_format(names, "loss.%lld", (long long)k);
    for (int i = 0; job->dump.weights && i < parameters; i++, made++) {
        RETURN_IF_FAILED(dyno_model_parameter(model, i, &list[made]));
        list[made].name = arena_format(names, "w.%s", list[made].name);
    }
    *count = made;
    return DYNO_OK;
}

/* Creates the file, or declares it anew for a run that ended after so many steps. */
static dyno_status declare(step_job *job, int64_t steps, const char *note) {
    dyno_save_options how = {
        .size = sizeof how, .replaces = flags_switch(job->given, "force"), .note = note};
    arena *names = arena_create();
    dyno_tensor *list;
    int count;
    dyno_status status = list_outputs(job, steps, names, &list, &count);
    if (status == DYNO_OK && job->file)
        status = dyno_tensor_file_redeclare(job->file, list, count, note);
    else if (status == DYNO_OK)
        status = dyno_tensor_file_create_as(flags_text(job->given, "out"), list, count, &how,
                                            &job->file);
    arena_destroy(names);
    free(list);
    return status;
}

dyno_status step_open_output(step_job *job) {
    bool has_file = flags_text(job->given, "out") && job->rank == 0;
    return has_file ? declare(job, job->steps, NULL) : DYNO_OK;
}

static dyno_status append_tensor(step_job *job, const char *name, int64_t count) {
    float *copy = memory_try_allocate((size_t)count * sizeof *copy);
    if (!copy)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "the host has no %s for a copy of '%s'",
                         units_bytes(count * (int64_t)sizeof *copy).text, name);
    dyno_status status = dyno_trainer_read(job->trainer, name, copy, count);
    if (status == DYNO_OK && job->file)
        status = dyno_tensor_file_append(job->file, copy, count);
    free(copy);
    return status;
}

/* Of every parameter, what is called `prefix` and its name. */
static dyno_status append_parameters(step_job *job, const char *prefix) {
    const dyno_model *model = dyno_trainer_model(job->trainer);
    for (int i = 0; i < dyno_model_parameter_count(model); i++) {
        dyno_tensor p;
        char name[128];
        int64_t count = 1;
        RETURN_IF_FAILED(dyno_model_parameter(model, i, &p));
        for (int j = 0; j < p.rank; j++)
            count *= p.shape[j];
        snprintf(name, sizeof name, "%s%s", prefix, p.name);
        RETURN_IF_FAILED(append_tensor(job, name, count));
    }
    return DYNO_OK;
}

dyno_status step_keep_first(step_job *job) {
    if (job->dump.logits) {
        int64_t vocabulary = dyno_model_vocabulary(dyno_trainer_model(job->trainer));
        RETURN_IF_FAILED(append_tensor(job, "logits", job->batch * job->context * vocabulary));
    }
    return job->dump.gradients ? append_parameters(job, "g.") : DYNO_OK;
}

/* ---- after the last step ---- */

static dyno_status commit(step_job *job) {
    dyno_tensor_file *file = job->file;
    job->file = NULL;
    return dyno_tensor_file_commit(file);
}

dyno_status step_write_results(step_job *job) {
    const char *directory = flags_text(job->given, "save");
    char interrupted[96], *note = NULL;
    if (job->done < job->steps) {
        snprintf(interrupted, sizeof interrupted, "interrupted after %lld of %lld steps",
                 (long long)job->done, (long long)job->steps);
        note = interrupted;
    }
    dyno_save_options how = {
        .size = sizeof how, .replaces = flags_switch(job->given, "force"), .note = note};
    if (strcmp(flags_text(job->given, "on-nan"), "ignore") != 0)
        RETURN_IF_FAILED(dyno_trainer_check(job->trainer));
    if (job->file && note)
        RETURN_IF_FAILED(declare(job, job->done, note));
    if (job->dump.loss && job->file)
        RETURN_IF_FAILED(dyno_tensor_file_append(job->file, job->losses, job->done));
    if (job->dump.weights)
        RETURN_IF_FAILED(append_parameters(job, ""));
    if (directory)
        RETURN_IF_FAILED(dyno_trainer_save_as(job->trainer, directory, &how));
    return job->file ? commit(job) : DYNO_OK;
}
