/* cache.c - every call opens the directory anew and works relative to its descriptor, so that what
 * was checked is what is used. The directories above the cache's own may be links: a ~/.cache that
 * points to another disk is common, and whoever can change them still cannot forge one that is
 * ours. */
#define _GNU_SOURCE
#include "base/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/trust.h"

enum { LARGEST_SEALED = 1 << 30 };

/* ---- the directory ---- */

/* Appends the directory that the cache lies in. */
static bool find_home(text *out) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        text_append(out, cache);
    else if (home && home[0] == '/')
        text_format(out, "%s/.cache", home);
    return out->length > 0;
}

/* What fails here fails again when the directory is opened, which says why. */
static void make_directories(const char *path) {
    text partial = {0};
    for (size_t length = 1; length <= strlen(path); length++) {
        if (path[length] != '/' && path[length] != '\0')
            continue;
        partial.length = 0;
        text_append_bytes(&partial, path, length);
        mkdir(partial.data, 0700);
    }
    text_release(&partial);
}

static void append_error(text *reason, int error) { text_append(reason, strerror(error)); }

/* Opens a directory below `at`; -1 with the reason. */
static int open_trusted(int at, const char *name, int flags, const char *path, text *reason) {
    struct stat status;
    text why = {0};
    int opened = openat(at, name, O_DIRECTORY | O_CLOEXEC | flags);
    bool is_good = opened >= 0 && fstat(opened, &status) == 0;
    if (!is_good)
        append_error(&why, errno);
    is_good = is_good && trust_status(&status, &why);
    if (!is_good) {
        text_format(reason, "'%s': %s", path, text_string(&why));
        if (opened >= 0)
            close(opened);
    }
    text_release(&why);
    return is_good ? opened : -1;
}

/* -1 where there is none, with the reason; one that only has not been made needs none. */
static int open_cache(bool is_made, text *reason) {
    text path = {0};
    if (!find_home(&path)) {
        if (is_made)
            text_append(reason, "neither XDG_CACHE_HOME nor HOME is an absolute path");
        return -1;
    }
    if (is_made)
        make_directories(text_string(&path));
    else if (access(text_string(&path), X_OK) != 0) {
        text_release(&path);
        return -1;
    }
    int cache = -1, home = open_trusted(AT_FDCWD, path.data, O_PATH, path.data, reason);
    struct stat status;
    text_append(&path, "/dyno");
    if (home >= 0) {
        if (is_made)
            mkdirat(home, "dyno", 0700);
        if (is_made || fstatat(home, "dyno", &status, AT_SYMLINK_NOFOLLOW) == 0)
            cache = open_trusted(home, "dyno", O_RDONLY | O_NOFOLLOW, path.data, reason);
        close(home);
    }
    text_release(&path);
    return cache;
}

/* ---- what cannot be used is reported once ---- */

static void complain(const char *begin, const char *reason, const char *end) {
    static atomic_flag has_complained = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&has_complained))
        fprintf(stderr, "dyno: %s (%s)%s.\n", begin, reason, end);
}

static void complain_of_writing(const char *what, const char *reason) {
    text begin = {0};
    text_format(&begin, "%s cannot be kept for the next run", what);
    complain(text_string(&begin), reason,
             ". Set XDG_CACHE_HOME to a directory of your own that can be written");
    text_release(&begin);
}

/* ---- files ---- */

static bool check_file(int file, struct stat *status, text *reason) {
    if (fstat(file, status) != 0) {
        append_error(reason, errno);
        return false;
    }
    if (S_ISREG(status->st_mode))
        return trust_status(status, reason);
    text_append(reason, "it is not a regular file");
    return false;
}

/* A file of the cache; -1 with the reason unless it is not there. Never waits for a pipe. */
static int open_file(int cache, const char *name, int flags, struct stat *status, text *reason) {
    int file = openat(cache, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (file < 0 && errno == ENOENT)
        return -1;
    text why = {0};
    bool is_good = file >= 0 && check_file(file, status, &why);
    if (file < 0 && errno == ELOOP)
        text_append(&why, "it is a link");
    else if (file < 0)
        append_error(&why, errno);
    if (!is_good)
        text_format(reason, "'%s': %s", name, text_string(&why));
    text_release(&why);
    if (is_good)
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

/* The content of an open file, or NULL with the reason. */
static char *read_content(int file, const struct stat *status, int64_t limit, text *reason) {
    if (status->st_size > limit) {
        text_format(reason, "it has %lld bytes, the limit is %lld", (long long)status->st_size,
                    (long long)limit);
        return NULL;
    }
    size_t size = (size_t)status->st_size;
    char *content = memory_try_allocate(size + 1);
    if (!content) {
        text_format(reason, "there is no memory for its %zu bytes", size);
        return NULL;
    }
    if (file_read(file, content, size) == (ssize_t)size) {
        content[size] = '\0';
        return content;
    }
    text_append(reason, "it cannot be read");
    free(content);
    return NULL;
}

bool cache_read(const char *name, int64_t limit, char **data, size_t *size) {
    *data = NULL;
    *size = 0;
    text reason = {0};
    struct stat status;
    int cache = open_cache(false, &reason), file = -1;
    if (cache >= 0) {
        file = open_file(cache, name, O_RDONLY, &status, &reason);
        close(cache);
    }
    if (file >= 0) {
        *data = read_content(file, &status, limit, &reason);
        *size = *data ? (size_t)status.st_size : 0;
        close(file);
    }
    if (!*data && reason.length)
        complain(cache < 0 ? "the cache is not used" : "a file of the cache is not used",
                 text_string(&reason), "");
    text_release(&reason);
    return *data;
}

bool cache_append(const char *name, const char *what, const void *bytes, size_t count) {
    text reason = {0};
    struct stat status;
    int cache = open_cache(true, &reason), file = -1;
    bool is_kept = false;
    if (cache >= 0) {
        file = open_file(cache, name, O_WRONLY | O_APPEND | O_CREAT, &status, &reason);
        close(cache);
    }
    if (file >= 0) {
        ssize_t put = write(file, bytes, count);
        is_kept = put == (ssize_t)count;
        if (!is_kept)
            append_error(&reason, put < 0 ? errno : ENOSPC);
        close(file);
    }
    if (!is_kept)
        complain_of_writing(what, text_string(&reason));
    text_release(&reason);
    return is_kept;
}

/* ---- sealed files ---- */

typedef struct {
    char text[96];
} seal;

/* The same number of bytes for every content. */
static seal make_seal(const hash_string *key, const char *bytes, size_t count) {
    seal made;
    snprintf(made.text, sizeof made.text, "\ndyno-cache %s %s\n", key->text,
             hash_text(bytes, count).text);
    return made;
}

bool cache_read_sealed(const hash_string *key, const char *suffix, char **data, size_t *size) {
    text name = {0};
    text_format(&name, "%s%s", key->text, suffix);
    bool is_good = cache_read(name.data, LARGEST_SEALED, data, size);
    text_release(&name);
    if (!is_good)
        return false;
    size_t seal_bytes = strlen(make_seal(key, "", 0).text);
    is_good = *size >= seal_bytes;
    if (is_good) {
        *size -= seal_bytes;
        seal wanted = make_seal(key, *data, *size);
        is_good = memcmp(*data + *size, wanted.text, seal_bytes) == 0;
        (*data)[*size] = '\0';
    }
    if (is_good)
        return true;
    free(*data);
    *data = NULL;
    *size = 0;
    return false;
}

/* A new file of the cache under a name that no other process has; -1 with errno set. */
static int create_temporary(int cache, const char *name, text *temporary) {
    static atomic_uint number;
    int file = -1;
    do {
        temporary->length = 0;
        text_format(temporary, "%s.tmp-%ld-%u", name, (long)getpid(),
                    atomic_fetch_add(&number, 1u));
        file = openat(cache, temporary->data, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                      0644);
    } while (file < 0 && errno == EEXIST);
    return file;
}

static bool write_whole(int cache, const char *name, const void *bytes, size_t count,
                        const seal *end, text *reason) {
    text temporary = {0};
    int file = create_temporary(cache, name, &temporary);
    bool is_good = file >= 0 && file_write(file, bytes, count) &&
                   file_write(file, end->text, strlen(end->text)) && fsync(file) == 0;
    if (!is_good)
        append_error(reason, errno);
    if (file >= 0 && close(file) != 0 && is_good) {
        append_error(reason, errno);
        is_good = false;
    }
    if (is_good && renameat(cache, temporary.data, cache, name) != 0) {
        append_error(reason, errno);
        is_good = false;
    }
    if (!is_good && file >= 0)
        unlinkat(cache, temporary.data, 0);
    text_release(&temporary);
    return is_good;
}

bool cache_write_sealed(const hash_string *key, const char *suffix, const char *what,
                        const void *bytes, size_t count) {
    text reason = {0}, name = {0};
    seal end = make_seal(key, bytes, count);
    text_format(&name, "%s%s", key->text, suffix);
    int cache = open_cache(true, &reason);
    bool is_kept = cache >= 0 && write_whole(cache, name.data, bytes, count, &end, &reason);
    if (cache >= 0)
        close(cache);
    if (!is_kept)
        complain_of_writing(what, text_string(&reason));
    text_release(&reason);
    text_release(&name);
    return is_kept;
}
