/* gzip.h - the functions of zlib for gzip files, looked for at run time (docs/decisions/0030).
 *
 * They take a handle and numbers only, so they are declared here by hand and no header is needed to
 * build. */
#ifndef BASE_GZIP_H
#define BASE_GZIP_H

typedef struct gzip_functions {
    void *(*gzdopen)(int descriptor, const char *mode); /* gzclose closes the descriptor */
    int (*gzbuffer)(void *file, unsigned bytes);
    int (*gzread)(void *file, void *to, unsigned count);
    int (*gzwrite)(void *file, const void *from, unsigned count);
    int (*gzrewind)(void *file);
    const char *(*gzerror)(void *file, int *number);
    int (*gzclose)(void *file);
    const char *why; /* they cannot be used; NULL: they can */
} gzip_functions;

const gzip_functions *gzip_load(void);

#endif
