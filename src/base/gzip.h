/* gzip.h - the functions of zlib for gzip files, looked for at run time (docs/decisions/0030).
 *
 * They are declared here by hand, so that no header is needed to build. Files are written through a
 * handle. They are read by inflate, since gzread takes whatever is behind the last member as its end. */
#ifndef BASE_GZIP_H
#define BASE_GZIP_H

/* zlib's z_stream, which is part of its binary interface: inflateInit2_ is told its size. */
typedef struct gzip_stream {
    const unsigned char *next_in;
    unsigned available_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned available_out;
    unsigned long total_out;
    const char *message;
    void *state, *allocate, *release, *opaque;
    int data_type;
    unsigned long checksum, reserved;
} gzip_stream;

enum { GZIP_OK = 0, GZIP_MEMBER_END = 1, GZIP_LARGEST_WINDOW = 15 + 16, GZIP_NO_FLUSH = 0 };

typedef struct gzip_functions {
    void *(*gzdopen)(int descriptor, const char *mode); /* gzclose closes the descriptor */
    int (*gzwrite)(void *file, const void *from, unsigned count);
    const char *(*gzerror)(void *file, int *number);
    int (*gzclose)(void *file);
    int (*inflateInit2_)(gzip_stream *stream, int window, const char *version, int bytes);
    int (*inflate)(gzip_stream *stream, int flush);
    int (*inflateReset)(gzip_stream *stream);
    int (*inflateEnd)(gzip_stream *stream);
    const char *why; /* they cannot be used; NULL: they can */
} gzip_functions;

const gzip_functions *gzip_load(void);

#endif
