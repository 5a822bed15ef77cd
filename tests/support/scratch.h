/* scratch.h - a temporary directory for one test, and what a test asks about it. */
#ifndef TESTS_SUPPORT_SCRATCH_H
#define TESTS_SUPPORT_SCRATCH_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first include"
#endif
#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct scratch {
    char path[256];
} scratch;

typedef struct scratch_path {
    char text[512];
} scratch_path;

static inline scratch scratch_create(void) {
    scratch made;
    const char *base = getenv("TMPDIR");
    snprintf(made.path, sizeof made.path, "%s/dyno-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(made.path)) {
        perror(made.path);
        abort();
    }
    return made;
}

static inline int scratch_remove_one(const char *path, const struct stat *status, int kind,
                                     struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static inline void scratch_remove(const scratch *made) {
    nftw(made->path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline scratch_path scratch_join(const scratch *made, const char *name) {
    scratch_path path;
    snprintf(path.text, sizeof path.text, "%s/%s", made->path, name);
    return path;
}

static inline void scratch_write(const scratch *made, const char *name, const void *bytes,
                                 size_t count) {
    scratch_path path = scratch_join(made, name);
    FILE *file = fopen(path.text, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0) {
        perror(path.text);
        abort();
    }
}

/* Files and directories directly in `path`; -1 when it is not there. */
static inline int scratch_count(const char *path) {
    DIR *directory = opendir(path);
    if (!directory)
        return -1;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

/* From now on no file of this process may grow past `bytes`: a disk that is full, for root
 * too. -1 lifts the limit. */
static inline void scratch_limit_file_size(long bytes) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes < 0 ? limit.rlim_max : (rlim_t)bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

#endif
