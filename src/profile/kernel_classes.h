/* kernel_classes.h - what kind of work a kernel of another program does, judged by its name.
 *
 * A rule is a pattern and a class. A pattern matches anywhere in a name, letters of either case alike,
 * and a '*' in it stands for any characters. The first rule that matches counts; a user's rules come
 * before the built-in ones. */
#ifndef PROFILE_KERNEL_CLASSES_H
#define PROFILE_KERNEL_CLASSES_H

#include "base/status.h"

/* The classes that reports ask for by name; the others are for the reader only. */
#define CLASS_MATMUL "matmul"
#define CLASS_ATTENTION "attention"
#define CLASS_SOFTMAX "softmax"
#define CLASS_OTHER "other"

typedef struct kernel_classes kernel_classes;

/* The built-in rules, preceded by those of the file `path` unless that is NULL. Each line of it is
 * "pattern, class", split at its last comma; empty lines and those that begin with '#' are skipped. A
 * line that is none of these is DYNO_INVALID with its number. */
NODISCARD dyno_status kernel_classes_create(const char *path, kernel_classes **out);
void kernel_classes_destroy(kernel_classes *classes);

/* The class of `kernel`; where its name says nothing, that of `op`, the operation that launched it,
 * which may be NULL; else CLASS_OTHER. Lives as long as `classes`, which remember the answer. */
const char *kernel_classes_find(kernel_classes *classes, const char *kernel, const char *op);

#endif
