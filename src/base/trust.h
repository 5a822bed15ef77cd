/* trust.h - whether another user can have written what is about to be executed.
 *
 * A shared object runs with our rights as soon as it is loaded. A file or directory is trusted when
 * it belongs to this user or to root and nobody else may write to it. */
#ifndef BASE_TRUST_H
#define BASE_TRUST_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/text.h"

/* False: `reason` has what is wrong appended ("it belongs to user 1000, ..."). */
bool trust_status(const struct stat *status, text *reason);

/* Whether nobody else can exchange what lies in the directory: trusted, or sticky like /tmp. */
bool trust_directory(const char *path, text *reason);

/* dlopen for a path that was searched for or taken from the environment: the file and its directory
 * must be trusted, where `owner` counts as ourselves (whoever owns the program that runs could
 * change that as well) and a group that has only its owner in it as nobody else. NULL: `reason` has
 * appended why, also where the loader refused. */
void *trust_open_library(const char *path, uid_t owner, text *reason);

#endif
