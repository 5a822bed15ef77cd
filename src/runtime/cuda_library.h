/* cuda_library.h - libraries of the CUDA toolkit, found at run time: nothing links them. */
#ifndef RUNTIME_CUDA_LIBRARY_H
#define RUNTIME_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Opens lib<stem>.so.<major> where the loader finds it, else in lib64, extras/CUPTI/lib64 or lib of
 * $CUDA_HOME, else of /usr/local/cuda. It stays open. */
NODISCARD dyno_status cuda_library_open(const char *stem, int major, void **handle);

/* A function of it. POSIX says that the bytes of dlsym's pointer are the function's, so `function`
 * points at a function pointer. */
NODISCARD dyno_status cuda_library_find(void *handle, const char *symbol, void *function);

/* The first directory that holds the toolkit's headers; false when there is none. */
bool cuda_include_directory(char *path, size_t bytes);

#endif
