#define _GNU_SOURCE
#include "base/trust.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool belongs(const struct stat *status, uid_t owner, text *reason) {
    if (status->st_uid == geteuid() || status->st_uid == 0 || status->st_uid == owner)
        return true;
    text_format(reason, "it belongs to user %lu, neither to us (%lu) nor to root",
                (unsigned long)status->st_uid, (unsigned long)geteuid());
    return false;
}

static bool is_trusted(const struct stat *status, uid_t owner, bool has_private_group,
                       text *reason) {
    if (!belongs(status, owner, reason))
        return false;
    if (!(status->st_mode & (S_IWGRP | S_IWOTH)) ||
        (has_private_group && !(status->st_mode & S_IWOTH)))
        return true;
    text_format(reason, "others may write to it (mode %03o); `chmod go-w` changes that",
                (unsigned)status->st_mode & 0777u);
    return false;
}

/* Whether the group is the owner's own, with nobody else in it: where every user has such a group,
 * the usual umask (002) lets it write to all that is built. */
static bool is_private_group(const struct stat *status) {
    struct passwd *user = getpwuid(status->st_uid);
    if (!user || user->pw_gid != status->st_gid)
        return false;
    text name = {0};
    text_append(&name, user->pw_name);
    struct group *group = getgrgid(status->st_gid);
    bool is_private = group && strcmp(group->gr_name, text_string(&name)) == 0;
    for (char **member = is_private ? group->gr_mem : NULL; member && *member; member++)
        is_private = is_private && strcmp(*member, text_string(&name)) == 0;
    text_release(&name);
    return is_private;
}

bool trust_status(const struct stat *status, text *reason) {
    return is_trusted(status, geteuid(), false, reason);
}

bool trust_directory(const char *path, text *reason) {
    struct stat status;
    if (stat(path, &status) != 0) {
        text_append(reason, strerror(errno));
        return false;
    }
    return status.st_mode & S_ISVTX ? belongs(&status, geteuid(), reason)
                                    : trust_status(&status, reason);
}

static bool is_trusted_place(const char *path, uid_t owner, text *reason) {
    struct stat status;
    if (stat(path, &status) != 0) {
        text_append(reason, strerror(errno));
        return false;
    }
    if (S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX))
        return belongs(&status, owner, reason);
    bool has_private_group = (status.st_mode & S_IWGRP) && is_private_group(&status);
    return is_trusted(&status, owner, has_private_group, reason);
}

/* `path` is without links, so that its directory is the one the file lies in. */
static bool is_trusted_file(const char *path, uid_t owner, text *reason) {
    if (!is_trusted_place(path, owner, reason))
        return false;
    text directory = {0}, why = {0};
    text_append_bytes(&directory, path, (size_t)(strrchr(path, '/') + 1 - path));
    bool is_safe = is_trusted_place(text_string(&directory), owner, &why);
    if (!is_safe)
        text_format(reason, "its directory is not safe: %s", text_string(&why));
    text_release(&directory);
    text_release(&why);
    return is_safe;
}

void *trust_open_library(const char *path, uid_t owner, text *reason) {
    char resolved[PATH_MAX];
    if (!realpath(path, resolved)) {
        text_append(reason, errno == ENOENT ? "not there" : strerror(errno));
        return NULL;
    }
    if (!is_trusted_file(resolved, owner, reason))
        return NULL;
    void *handle = dlopen(resolved, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *said = dlerror();
        text_append(reason, said ? said : "the loader gives no reason");
    }
    return handle;
}
