/* module.h - shared modules of dyno's own, found at run time: libdyno_cuda.so, libdyno_mpi.so. */
#ifndef BASE_MODULE_H
#define BASE_MODULE_H

#include "base/text.h"

/* Opens the file that the environment's `variable` names; without one, `file` beside this program, in
 * the lib/ beside its directory, around our shared library, or where the loader searches. Files that
 * somebody else could have written are refused (base/trust.h). NULL when there is none: `tried` then
 * has every place and what was wrong with it. */
void *module_open(const char *file, const char *variable, text *tried);

#endif
