/* attack_formats.c - mutated files of one format, read in this process.
 *
 *   attack_formats FORMAT SEED COUNT DIRECTORY [FILE]...
 *
 * makes COUNT mutations of the FILEs, or of what the format's reader makes, gives each to the reader of the format, and uses what is
 * accepted. What is refused has to come with a message. DIRECTORY is for files that must have a
 * name. A child does the work: when it dies, the mutation is kept in DIRECTORY, its number is
 * printed, and another child goes on behind it. Prints "N tried, N accepted, N failed"; the same
 * seed makes the same mutations. Build it with sanitizers (scripts/attack). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack/readers.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/threads.h"

enum { MOST_FILES = 64, MOST_FAILURES = 5, SECONDS_TO_READ = 20, MOST_BYTES = 1 << 20 };

typedef struct progress {
    long at, accepted; /* the mutation that is being read */
} progress;

typedef struct attack {
    const reader *with;
    rng_stream random;
    char *files[MOST_FILES];
    size_t sizes[MOST_FILES];
    int file_count;
    long count;
    const char *directory;
    progress *shared; /* with the child */
} attack;

/* ---- mutations ---- */

typedef struct dice {
    rng_stream stream;
    uint64_t thrown;
} dice;

static size_t throw(dice * d, size_t sides) {
    return (size_t)(rng_bits(d->stream, d->thrown++) % sides);
}

/* Most of what can go wrong lies where a format has its header. */
static size_t choose_place(dice *d, size_t size) {
    enum { HEADER_BYTES = 2048 };
    return throw(d, size > HEADER_BYTES && throw(d, 4) ? HEADER_BYTES : size);
}

static size_t insert(char *bytes, size_t size, size_t at, const char *from, size_t count) {
    memmove(bytes + at + count, bytes + at, size - at);
    memcpy(bytes + at, from, count);
    return size + count;
}

static size_t mutate_once(dice *d, char *bytes, size_t size) {
    static const char *const words[] = {"-1",         "0",
                                        "1e999",      "9223372036854775807",
                                        "NaN",        "null",
                                        "\"\"",       "true",
                                        "[",          "{}",
                                        "\\u0000",    ",",
                                        "4294967296", "-9223372036854775808"};
    if (!size)
        return insert(bytes, 0, 0, "{", 1);
    size_t at = choose_place(d, size), rest = size - at;
    switch (throw(d, 10)) {
    case 0: { /* removed */
        size_t count = 1 + throw(d, rest < 32 ? rest : 32);
        memmove(bytes + at, bytes + at + count, rest - count);
        return size - count;
    }
    case 1: /* cut off */
        return at;
    case 2: { /* twice */
        char copy[64];
        size_t count = 1 + throw(d, rest < sizeof copy ? rest : sizeof copy);
        memcpy(copy, bytes + at, count);
        return insert(bytes, size, at, copy, count);
    }
    case 3: { /* something else */
        const char *word = words[throw(d, sizeof words / sizeof *words)];
        return insert(bytes, size, at, word, strlen(word));
    }
    case 4:
        bytes[at] = (char) throw(d, 256);
        return size;
    default:
        bytes[at] = (char)(bytes[at] ^ 1 << throw(d, 8));
        return size;
    }
}

/* The number-th mutation, with a NUL behind it; the caller frees it. */
static char *mutate(const attack *a, long number, size_t *size) {
    enum { MOST_MUTATIONS = 4, ROOM = MOST_MUTATIONS * 64 + 1 };
    dice d = {rng_stream_init(rng_bits(a->random, (uint64_t)number), 0), 0};
    int from = (int) throw(&d, (size_t)a->file_count);
    char *bytes = memory_allocate(a->sizes[from] + ROOM, 1);
    memcpy(bytes, a->files[from], a->sizes[from]);
    *size = a->sizes[from];
    size_t times = throw(&d, 2) ? 1 : 1 + throw(&d, MOST_MUTATIONS);
    for (size_t i = 0; i < times; i++)
        *size = mutate_once(&d, bytes, *size);
    bytes[*size] = '\0';
    /* Exactly as large as it is, so that the sanitizer sees a read behind the end. */
    char *exact = memory_allocate(*size + 1, 1);
    memcpy(exact, bytes, *size + 1);
    free(bytes);
    return exact;
}

/* ---- reading ---- */

static void read_all(const attack *a, long first) {
    for (long i = first; i < a->count; i++) {
        size_t size;
        char *bytes = mutate(a, i, &size);
        a->shared->at = i;
        alarm(SECONDS_TO_READ);
        a->shared->accepted += a->with->read(bytes, size);
        free(bytes);
    }
    alarm(0);
}

static void keep_input(const attack *a, long number) {
    size_t size;
    char path[600], *bytes = mutate(a, number, &size);
    snprintf(path, sizeof path, "%s/%s-%ld", a->directory, a->with->name, number);
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(bytes, 1, size, file);
        fclose(file);
    }
    printf("the input is %s\n", path);
    free(bytes);
}

static int run(attack *a) {
    int failures = 0;
    for (long first = 0; first < a->count && failures < MOST_FAILURES;) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            read_all(a, first);
            exit(0); /* where leaks are looked for */
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            break;
        printf("FAILED: %s, mutation %ld: %s %d\n", a->with->name, a->shared->at,
               WIFSIGNALED(status) ? "signal" : "exit code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        keep_input(a, a->shared->at);
        first = a->shared->at + 1;
        failures++;
    }
    printf("%s: %ld tried, %ld accepted, %d failed\n", a->with->name, a->shared->at + 1,
           a->shared->accepted, failures);
    return failures;
}

/* False when a file cannot be read. */
static bool find_inputs(attack *a, char **paths) {
    for (int i = 0; i < a->file_count; i++)
        if (file_read_all(paths[i], MOST_BYTES, &a->files[i], &a->sizes[i]) != DYNO_OK) {
            fprintf(stderr, "attack_formats: %s\n", dyno_error_message());
            return false;
        }
    text made = {0};
    for (int i = 0; a->with->make && i < MOST_FILES && a->with->make(i, &made); i++) {
        a->sizes[a->file_count] = made.length;
        a->files[a->file_count++] = made.data;
        made = (text){0};
    }
    return a->file_count > 0;
}

int main(int argc, char **argv) {
    const reader *with = argc > 4 ? reader_find(argv[1]) : NULL;
    if (!with || argc - 5 > MOST_FILES || (argc > 5) == (with->make != NULL)) {
        fprintf(stderr, "usage: attack_formats FORMAT SEED COUNT DIRECTORY [FILE]...\n");
        return 2;
    }
    threads_set_count(1);
    attack a = {.with = with,
                .random = rng_stream_init(strtoull(argv[2], NULL, 10), rng_hash_name(argv[1])),
                .count = strtol(argv[3], NULL, 10),
                .directory = argv[4],
                .file_count = argc - 5};
    a.shared =
        mmap(NULL, sizeof *a.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    a.with->set_up(a.directory);
    if (!find_inputs(&a, argv + 5))
        return 2;
    int failures = run(&a);
    for (int i = 0; i < a.file_count; i++)
        free(a.files[i]);
    return failures > 0;
}
