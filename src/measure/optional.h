/* optional.h - the libraries that dyno uses when they are there, looked for at run time.
 *
 * Absent means that one feature is off and says so; it is never a failure to start. */
#ifndef MEASURE_OPTIONAL_H
#define MEASURE_OPTIONAL_H

#include <stdbool.h>

typedef enum optional_part {
    OPTIONAL_ONEDNN,
    OPTIONAL_CUDA_DRIVER,
    OPTIONAL_CUBLASLT,
    OPTIONAL_NVRTC,
    OPTIONAL_CUPTI,
    OPTIONAL_NCCL,
    OPTIONAL_MPI,
    OPTIONAL_SQLITE,
    OPTIONAL_ZLIB,
    OPTIONAL_COUNT
} optional_part;

typedef struct optional_answer {
    bool is_found;
    char version[64];  /* "" when it does not say */
    char detail[1024]; /* its path, or what was looked for */
} optional_answer;

const char *optional_name(optional_part part);
/* What happens without it: "nothing runs on a GPU". */
const char *optional_without(optional_part part);

/* Loads the library and leaves it loaded: those that start threads cannot be unloaded. */
optional_answer optional_find(optional_part part);

/* The C compiler that compiled mode would call: $CC, else cc, gcc or clang in $PATH. */
optional_answer optional_find_compiler(void);

#endif
