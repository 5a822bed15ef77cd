#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

dyno_status file_read_all(const char *path, int64_t limit, char **data, size_t *size) {
    *data = NULL;
    *size = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return dyno_fail(errno == ENOENT ? DYNO_NOT_FOUND : DYNO_IO, "cannot open '%s': %s", path,
                         strerror(errno));
    struct stat status;
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        fclose(file);
        return dyno_fail(DYNO_INVALID, "'%s' is not a regular file", path);
    }
    if (status.st_size > limit) {
        fclose(file);
        return dyno_fail(DYNO_INVALID, "'%s' is %lld bytes, the limit is %lld", path,
                         (long long)status.st_size, (long long)limit);
    }
    size_t bytes = (size_t)status.st_size;
    char *block = malloc(bytes + 1);
    if (!block) {
        fclose(file);
        return dyno_fail(DYNO_OUT_OF_MEMORY, "reading '%s': no %zu bytes of memory", path, bytes);
    }
    size_t got = fread(block, 1, bytes, file);
    fclose(file);
    if (got != bytes) {
        free(block);
        return dyno_fail(DYNO_IO, "reading '%s': got %zu of %zu bytes", path, got, bytes);
    }
    block[bytes] = '\0';
    *data = block;
    *size = bytes;
    return DYNO_OK;
}

bool file_exists(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

/* The directory that the file is in, or would be in. */
static bool find_directory(const char *path, struct stat *out) {
    const char *slash = strrchr(path, '/');
    char *directory = memory_copy_string(slash ? path : ".");
    if (slash)
        directory[slash == path ? 1 : slash - path] = '\0';
    bool found = stat(directory, out) == 0;
    free(directory);
    return found;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_same_inode(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool file_is_same(const char *a, const char *b) {
    struct stat of_a, of_b;
    if (stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && is_same_inode(&of_a, &of_b))
        return true;
    return strcmp(base_name(a), base_name(b)) == 0 && find_directory(a, &of_a) &&
           find_directory(b, &of_b) && is_same_inode(&of_a, &of_b);
}

dyno_status file_make_output_directory(const char *path) {
    if (!path[0])
        return dyno_fail(DYNO_INVALID, "the output directory's name is empty");
    char *partial = memory_copy_string(path);
    for (char *p = partial + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char separator = *p;
        *p = '\0';
        if (mkdir(partial, 0777) != 0 && errno != EEXIST) {
            dyno_status status = dyno_fail(DYNO_IO, "cannot make the output directory '%s': %s",
                                           partial, strerror(errno));
            free(partial);
            return status;
        }
        *p = separator;
        if (separator == '\0')
            break;
    }
    free(partial);
    size_t bytes = strlen(path) + 32;
    char *probe = memory_allocate(bytes, 1);
    snprintf(probe, bytes, "%s/.dyno-probe-XXXXXX", path);
    int descriptor = mkstemp(probe);
    dyno_status status = DYNO_OK;
    if (descriptor < 0) {
        status = dyno_fail(DYNO_IO, "cannot write in the output directory '%s': %s", path,
                           strerror(errno));
    } else {
        close(descriptor);
        unlink(probe);
    }
    free(probe);
    return status;
}
