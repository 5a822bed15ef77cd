/* record.c - which of the two files a record goes to, and when.
 *
 * The directory is locked (flock) from the beginning to the end: of two runs that write to one
 * directory at once, the later to finish would replace the other's record. */
#define _GNU_SOURCE
#include "measure/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "measure/results_json.h"

struct record {
    const results *run;
    char *directory, *path, *path_beside;
    char *made; /* the first directory that was made for it; NULL: all were there */
    int lock;   /* the directory; -1: not open */
    bool replaces_anything;
    const char *way_out; /* for whoever is refused */
    /* What was there when the run began. */
    bool had_record, was_complete;
    int64_t had_cells; /* finished */
    bool is_written, is_written_beside, was_put_off, is_failing;
    int64_t written_ns, write_took_ns; /* when the last write ended, and how long it took */
};

static char *join(const char *directory, const char *name) {
    text path = {0};
    text_format(&path, "%s/%s", directory, name);
    return path.data;
}

record *record_create(const char *directory, const results *run, bool replaces_anything) {
    record *r = memory_allocate(1, sizeof *r);
    *r = (record){.run = run,
                  .directory = memory_copy_string(directory),
                  .path = join(directory, "run.json"),
                  .path_beside = join(directory, "run.incomplete.json"),
                  .lock = -1,
                  .replaces_anything = replaces_anything,
                  .way_out = "use another output directory, or --force, which replaces it"};
    return r;
}

void record_destroy(record *r) {
    if (!r)
        return;
    if (r->lock >= 0)
        close(r->lock);
    free(r->directory);
    free(r->path);
    free(r->path_beside);
    free(r->made);
    free(r);
}

/* A file system without locks is no reason not to measure. */
static dyno_status lock_directory(record *r) {
    r->lock = open(r->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->lock >= 0 && flock(r->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return dyno_fail(DYNO_INVALID,
                         "another run is writing its record to '%s'; wait for it, or use another "
                         "output directory",
                         r->directory);
    return DYNO_OK;
}

static dyno_status refuse(const record *r, const char *why) {
    return dyno_fail(DYNO_INVALID, "'%s' %s; %s", r->path, why, r->way_out);
}

static dyno_status check_verb(const record *r, const results *there) {
    if (strcmp(there->verb, r->run->verb) == 0 || results_finished_cells(there) == 0)
        return DYNO_OK;
    text why = {0};
    text_format(&why, "is the record of `dyno %s` of %s", text_quote(there->verb).text,
                text_quote(there->started).text);
    dyno_status status = refuse(r, text_string(&why));
    text_release(&why);
    return status;
}

/* Something that cannot be read is not known to be less. */
static dyno_status look_at_what_is_there(record *r) {
    results *there;
    dyno_status status = results_read(r->path, &there);
    if (status == DYNO_NOT_FOUND)
        return DYNO_OK;
    if (status != DYNO_OK) {
        char *why = memory_copy_string(dyno_error_message());
        text said = {0};
        text_format(&said, "is there and cannot be read as a record (%s)", why);
        status = refuse(r, text_string(&said));
        text_release(&said);
        free(why);
        return status;
    }
    status = check_verb(r, there);
    r->had_record = true;
    r->was_complete = there->is_complete;
    r->had_cells = results_finished_cells(there);
    results_destroy(there);
    return status;
}

/* Never written into, not even when forced: a pipe would block. */
static dyno_status check_kind(const record *r) {
    struct stat status;
    if (lstat(r->path, &status) != 0 || S_ISREG(status.st_mode) || S_ISLNK(status.st_mode))
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID,
                     "'%s' is not a regular file, so no record can be kept there; use another "
                     "output directory",
                     r->path);
}

/* When forced, only a record with nothing in it is less. */
static bool is_less(const record *r) {
    if (!r->had_record)
        return false;
    if (r->replaces_anything)
        return results_finished_cells(r->run) == 0;
    if (r->run->is_complete)
        return false;
    return r->was_complete || results_finished_cells(r->run) < r->had_cells;
}

static dyno_status write_record(record *r) {
    bool is_beside = is_less(r);
    int64_t begin = clock_now_ns();
    json_t *root = results_to_json(r->run);
    dyno_status status = json_write_file(is_beside ? r->path_beside : r->path, root);
    json_decref(root);
    r->written_ns = clock_now_ns();
    r->write_took_ns = r->written_ns - begin;
    r->was_put_off = false;
    r->is_failing = status != DYNO_OK;
    if (status != DYNO_OK)
        return status;
    r->is_written = r->is_written || !is_beside;
    if (r->is_written_beside && !is_beside)
        unlink(r->path_beside);
    r->is_written_beside = is_beside;
    return DYNO_OK;
}

dyno_status record_begin(record *r) {
    r->made = file_find_missing(r->directory);
    RETURN_IF_FAILED(file_make_output_directory(r->directory));
    RETURN_IF_FAILED(lock_directory(r));
    RETURN_IF_FAILED(check_kind(r));
    if (r->replaces_anything)
        r->had_record = access(r->path, F_OK) == 0;
    else
        RETURN_IF_FAILED(look_at_what_is_there(r));
    dyno_status status = write_record(r);
    r->write_took_ns = 0; /* the first cell is written however soon it comes */
    return status;
}

dyno_status record_keep(record *r) {
    enum { LEAST_PAUSE = 9 }; /* in units of what the last write took */
    r->was_put_off = clock_now_ns() - r->written_ns < LEAST_PAUSE * r->write_took_ns;
    return r->was_put_off ? DYNO_OK : write_record(r);
}

bool record_was_put_off(const record *r) { return r->was_put_off; }

bool record_is_failing(const record *r) { return r->is_failing; }

dyno_status record_end(record *r) { return write_record(r); }

void record_abandon(record *r) {
    if (r->is_written)
        unlink(r->path);
    if (r->is_written_beside)
        unlink(r->path_beside);
    r->is_written = r->is_written_beside = false;
    file_remove_directories(r->directory, r->made);
    r->made = NULL;
}

const char *record_path(const record *r) { return r->is_written_beside ? r->path_beside : r->path; }

bool record_is_beside(const record *r) { return r->is_written_beside; }

dyno_status record_write(const results *run, const char *directory) {
    record *r = record_create(directory, run, false);
    r->way_out = "write to another directory, or remove it first";
    dyno_status status = file_make_output_directory(directory);
    if (status == DYNO_OK)
        status = lock_directory(r);
    if (status == DYNO_OK)
        status = check_kind(r);
    if (status == DYNO_OK)
        status = look_at_what_is_there(r);
    if (status == DYNO_OK && is_less(r))
        status = refuse(r, "is a complete record or has more cells");
    if (status == DYNO_OK)
        status = write_record(r);
    record_destroy(r);
    return status;
}
