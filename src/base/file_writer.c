/* file_writer.c - a temporary file beside the target, renamed over it when it is complete.
 *
 * The temporary's name is "TARGET.tmp-PID-XXXXXX", and its writer holds a lock on it. One whose
 * process is dead and whose lock is free was left by a kill, and the next writer of the same target
 * removes it.
 *
 * All writers of the process are in a list, so that a process that is about to end (a second
 * Ctrl-C) can remove what they have made. Renames hold the list's lock: files that belong together
 * appear all or not at all, whenever that happens. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

struct file_writer {
    FILE *file;
    char *path, *temporary; /* temporary: NULL where the target is written straight into */
    char *backup;           /* another name of the file that was replaced, until all are */
    char *spare;            /* the name that backup will be: nothing is allocated under the lock */
    bool is_renamed;
    bool is_new;
    file_writer *next; /* in the list of unfinished ones */
};

/* A directory that was made for files that are not there yet. */
typedef struct made_directory {
    char *path;
    struct made_directory *next;
} made_directory;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static file_writer *unfinished;
static made_directory *directories;

/* ---- what processes that were killed have left ---- */

/* "NAME.tmp-PID-XXXXXX": the process, or 0 when the entry is no temporary of `name`. */
static pid_t maker_of(const char *entry, const char *name) {
    static const char mark[] = ".tmp-";
    size_t length = strlen(name);
    if (strncmp(entry, name, length) != 0 || strncmp(entry + length, mark, sizeof mark - 1) != 0)
        return 0;
    const char *digits = entry + length + sizeof mark - 1;
    char *end;
    long maker = isdigit((unsigned char)*digits) ? strtol(digits, &end, 10) : 0;
    return maker > 0 && maker <= INT32_MAX && *end == '-' && strlen(end + 1) == 6 ? (pid_t)maker
                                                                                  : 0;
}

static bool is_dead(pid_t process) { return kill(process, 0) != 0 && errno == ESRCH; }

/* Only a regular file of our own, which no process holds locked: process numbers mean nothing to
 * those who share the directory from another machine. */
static void remove_if_ours(int directory, const char *entry) {
    int file = openat(directory, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    if (file < 0)
        return;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        flock(file, LOCK_EX | LOCK_NB) == 0)
        unlinkat(directory, entry, 0);
    close(file);
}

static void clear_stale(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    text place = {0};
    text_append_bytes(&place, path, slash ? (size_t)(slash - path) + 1 : 0);
    DIR *directory = opendir(slash ? text_string(&place) : ".");
    text_release(&place);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        pid_t maker = maker_of(entry->d_name, name);
        if (maker && is_dead(maker))
            remove_if_ours(dirfd(directory), entry->d_name);
    }
    closedir(directory);
}

/* ---- a writer ---- */

static void open_temporary(file_writer *writer) {
    text name = {0};
    clear_stale(writer->path);
    text_format(&name, "%s.tmp-%ld-XXXXXX", writer->path, (long)getpid());
    pthread_mutex_lock(&list_lock);
    int descriptor = mkostemp(name.data, O_CLOEXEC);
    if (descriptor < 0) {
        text_release(&name);
    } else {
        mode_t mask = umask(0);
        umask(mask);
        fchmod(descriptor, 0666 & ~mask); /* mkostemp makes it private; the result is not */
        flock(descriptor, LOCK_EX | LOCK_NB);
        writer->file = fdopen(descriptor, "w+b");
        writer->temporary = name.data;
        writer->next = unfinished;
        unfinished = writer;
    }
    int error = errno;
    pthread_mutex_unlock(&list_lock);
    errno = error;
}

static dyno_status refuse_existing(const char *path) {
    return dyno_fail(DYNO_INVALID,
                     "'%s' exists; give another name, or --force to replace what is there", path);
}

/* A device or pipe cannot be renamed over; it is written straight into. */
static dyno_status find_kind(const char *path, bool *is_direct) {
    struct stat status;
    bool exists = stat(path, &status) == 0;
    *is_direct = exists && !S_ISREG(status.st_mode);
    if (exists && S_ISDIR(status.st_mode))
        return dyno_fail(DYNO_INVALID, "cannot write '%s': it is a directory", path);
    return DYNO_OK;
}

/* The reason, and where a file could be made. */
static dyno_status fail_to_create(const char *path, int error) {
    const char *slash = strrchr(path, '/');
    struct stat found;
    text directory = {0};
    text_append_bytes(&directory, slash ? path : ".",
                      slash && slash > path ? (size_t)(slash - path) : 1);
    bool is_there = stat(text_string(&directory), &found) == 0
                        ? S_ISDIR(found.st_mode)
                        : errno != ENOENT && errno != ENOTDIR;
    dyno_status status =
        is_there
            ? dyno_fail(DYNO_IO,
                        "cannot write '%s': no file can be made in '%s' (%s); give a path in a "
                        "directory that can be written to",
                        path, text_string(&directory), strerror(error))
            : dyno_fail(DYNO_IO,
                        "cannot write '%s': there is no directory '%s'; make it (mkdir -p), or "
                        "give another path",
                        path, text_string(&directory));
    text_release(&directory);
    return status;
}

dyno_status file_writer_create_as(const char *path, bool is_new, file_writer **out) {
    *out = NULL;
    bool is_direct;
    RETURN_IF_FAILED(find_kind(path, &is_direct));
    if (is_new && !is_direct && file_exists(path))
        return refuse_existing(path);
    file_writer *writer = memory_allocate(1, sizeof *writer);
    writer->path = memory_copy_string(path);
    writer->is_new = is_new && !is_direct;
    if (is_direct)
        writer->file = fopen(path, "wb");
    else
        open_temporary(writer);
    if (!writer->file) {
        int error = errno;
        file_writer_abandon(writer);
        return is_direct ? dyno_fail(DYNO_IO, "cannot write '%s': %s", path, strerror(error))
                         : fail_to_create(path, error);
    }
    *out = writer;
    return DYNO_OK;
}

/* A pipe is not opened: that would wait for its reader. */
dyno_status file_check_output(const char *path, bool is_new) {
    bool is_direct;
    file_writer *writer;
    RETURN_IF_FAILED(find_kind(path, &is_direct));
    if (is_direct)
        return access(path, W_OK) == 0
                   ? DYNO_OK
                   : dyno_fail(DYNO_IO, "cannot write '%s': %s", path, strerror(errno));
    RETURN_IF_FAILED(file_writer_create_as(path, is_new, &writer));
    file_writer_abandon(writer);
    return DYNO_OK;
}

dyno_status file_writer_create(const char *path, file_writer **out) {
    return file_writer_create_as(path, false, out);
}

dyno_status file_writer_append(file_writer *writer, const void *bytes, size_t count) {
    if (count && fwrite(bytes, 1, count, writer->file) != count)
        return dyno_fail(DYNO_IO, "writing '%s': %s", writer->path, strerror(errno));
    return DYNO_OK;
}

dyno_status file_writer_append_from(file_writer *writer, file_writer *from, int64_t offset,
                                    int64_t count) {
    enum { PIECE = 1 << 16 };
    char bytes[PIECE];
    if (!from->temporary)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s' is no regular file; what was written to it cannot be read back",
                         from->path);
    RETURN_IF_FAILED(file_writer_flush(from));
    while (count > 0) {
        size_t wanted = count < PIECE ? (size_t)count : PIECE;
        ssize_t got = pread(fileno(from->file), bytes, wanted, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return dyno_fail(DYNO_IO, "reading back what was written to '%s': %s", from->path,
                             got < 0 ? strerror(errno) : "it has become shorter");
        RETURN_IF_FAILED(file_writer_append(writer, bytes, (size_t)got));
        offset += got;
        count -= got;
    }
    return DYNO_OK;
}

dyno_status file_writer_descriptor(file_writer *writer, int *out) {
    *out = fileno(writer->file);
    if (fflush(writer->file) != 0)
        return dyno_fail(DYNO_IO, "writing '%s': %s", writer->path, strerror(errno));
    return DYNO_OK;
}

dyno_status file_writer_flush(file_writer *writer) {
    if (fflush(writer->file) != 0 || (writer->temporary && fsync(fileno(writer->file)) != 0))
        return dyno_fail(DYNO_IO, "writing '%s': %s", writer->path, strerror(errno));
    return DYNO_OK;
}

/* Takes it out of the list, whose lock is held. */
static void forget(const file_writer *writer) {
    for (file_writer **at = &unfinished; *at; at = &(*at)->next)
        if (*at == writer) {
            *at = writer->next;
            return;
        }
}

/* All bytes are on the disk and the file is closed. */
static dyno_status close_file(file_writer *writer) {
    bool is_good = fflush(writer->file) == 0;
    if (is_good && writer->temporary)
        is_good = fsync(fileno(writer->file)) == 0;
    int error = errno;
    if (fclose(writer->file) != 0 && is_good) {
        is_good = false;
        error = errno;
    }
    writer->file = NULL;
    return is_good ? DYNO_OK
                   : dyno_fail(DYNO_IO, "writing '%s': %s; nothing was written", writer->path,
                               strerror(error));
}

/* A second name for the file that is about to be replaced, of the form of temporaries. File systems
 * without hard links have none; what was replaced then stays replaced. */
static void keep_replaced(file_writer *writer) {
    unlink(writer->spare);
    if (link(writer->path, writer->spare) != 0)
        return;
    writer->backup = writer->spare;
    writer->spare = NULL;
}

/* Before the lock is taken: a process that ends for want of memory takes it too. */
static void name_backup(file_writer *writer) {
    text name = {0};
    text_format(&name, "%s.tmp-%ld-backup", writer->path, (long)getpid());
    writer->spare = name.data;
}

/* Without this the name may be lost with the power. A directory that cannot be opened or synced (some
 * file systems refuse) does not make the file less whole. Under the lock nothing is allocated: a
 * process that ends for want of memory takes it too. */
static void sync_directory_of(const char *path) {
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    if (length >= sizeof directory)
        return;
    memcpy(directory, path, length);
    directory[length] = '\0';
    int descriptor = open(length ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return;
    fsync(descriptor);
    close(descriptor);
}

/* The list's lock is held. */
static dyno_status rename_temporary(file_writer *writer, bool is_alone) {
    if (!writer->temporary)
        return DYNO_OK;
    if (writer->is_new && file_exists(writer->path))
        return refuse_existing(writer->path);
    if (!is_alone)
        keep_replaced(writer);
    if (rename(writer->temporary, writer->path) != 0)
        return dyno_fail(DYNO_IO, "writing '%s': %s; nothing was written", writer->path,
                         strerror(errno));
    writer->is_renamed = true;
    sync_directory_of(writer->path);
    forget(writer);
    free(writer->temporary);
    writer->temporary = NULL;
    return DYNO_OK;
}

/* One of them could not be renamed: the others become what they were. */
static void rename_back(file_writer *writer) {
    if (writer->is_renamed && writer->backup)
        rename(writer->backup, writer->path);
    else if (writer->is_renamed)
        unlink(writer->path);
}

dyno_status file_writer_commit_all(file_writer *const *writers, int count) {
    dyno_status status = DYNO_OK;
    for (int i = 0; i < count && status == DYNO_OK; i++)
        status = close_file(writers[i]);
    for (int i = 0; i < count && count > 1; i++)
        name_backup(writers[i]);
    pthread_mutex_lock(&list_lock);
    for (int i = 0; i < count && status == DYNO_OK; i++)
        status = rename_temporary(writers[i], count == 1);
    for (int i = 0; i < count && status != DYNO_OK; i++)
        rename_back(writers[i]);
    pthread_mutex_unlock(&list_lock);
    for (int i = 0; i < count; i++)
        file_writer_abandon(writers[i]);
    return status;
}

dyno_status file_writer_commit(file_writer *writer) { return file_writer_commit_all(&writer, 1); }

void file_writer_abandon(file_writer *writer) {
    if (!writer)
        return;
    pthread_mutex_lock(&list_lock);
    if (writer->temporary) {
        unlink(writer->temporary);
        forget(writer);
    }
    if (writer->backup)
        unlink(writer->backup);
    pthread_mutex_unlock(&list_lock);
    if (writer->file)
        fclose(writer->file);
    free(writer->backup);
    free(writer->spare);
    free(writer->temporary);
    free(writer->path);
    free(writer);
}

dyno_status file_write_all(const char *path, const void *bytes, size_t count) {
    file_writer *writer;
    RETURN_IF_FAILED(file_writer_create(path, &writer));
    dyno_status status = file_writer_append(writer, bytes, count);
    if (status != DYNO_OK) {
        file_writer_abandon(writer);
        return status;
    }
    return file_writer_commit(writer);
}

/* ---- a process that ends ---- */

void file_add_made_directory(const char *path) {
    made_directory *made = memory_allocate(1, sizeof *made);
    made->path = memory_copy_string(path);
    pthread_mutex_lock(&list_lock);
    made->next = directories;
    directories = made;
    pthread_mutex_unlock(&list_lock);
}

void file_remove_made_directory(const char *path, bool is_kept) {
    pthread_mutex_lock(&list_lock);
    for (made_directory **at = &directories; *at; at = &(*at)->next)
        if (strcmp((*at)->path, path) == 0) {
            made_directory *found = *at;
            *at = found->next;
            free(found->path);
            free(found);
            if (!is_kept)
                rmdir(path); /* fails, rightly, when others put something in it meanwhile */
            break;
        }
    pthread_mutex_unlock(&list_lock);
}

void file_remove_unfinished(void) {
    pthread_mutex_lock(&list_lock);
    for (const file_writer *writer = unfinished; writer; writer = writer->next)
        unlink(writer->temporary);
    for (const made_directory *made = directories; made; made = made->next)
        rmdir(made->path);
    /* The lock stays taken: no other thread makes or renames a file from here on. */
}
