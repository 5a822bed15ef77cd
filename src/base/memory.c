#define _GNU_SOURCE
#include "base/memory.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*on_failure)(const char *message);

void memory_on_failure(void (*end)(const char *message)) { on_failure = end; }

static void give_up(size_t count, size_t size) {
    char message[160];
    snprintf(message, sizeof message,
             "out of memory: the system refused %zu x %zu bytes for bookkeeping; free some memory, "
             "or use a smaller model",
             count, size);
    if (on_failure)
        on_failure(message);
    fprintf(stderr, "dyno: %s\n", message);
    abort();
}

/* ---- requests that a test wants refused ---- */

static pthread_once_t is_read = PTHREAD_ONCE_INIT;
static bool is_counted; /* whether there is such a test */
static unsigned long refused;
static bool (*refuses)(unsigned long number);
static atomic_ulong requests;

static void print_count(void) {
    fprintf(stderr, "dyno: %lu allocations\n", atomic_load(&requests));
}

static void read_environment(void) {
    const char *wanted = getenv("DYNO_FAIL_ALLOCATION");
    is_counted = wanted && wanted[0];
    if (!is_counted)
        return;
    refused = strtoul(wanted, NULL, 10);
    if (strcmp(wanted, "count") == 0)
        atexit(print_count);
    if (strcmp(wanted, "ask") == 0)
        *(void **)&refuses = dlsym(RTLD_DEFAULT, "dyno_refuses_allocation");
}

bool memory_is_refused(void) {
    pthread_once(&is_read, read_environment);
    if (!is_counted)
        return false;
    unsigned long number = atomic_fetch_add(&requests, 1ul) + 1;
    return refuses ? refuses(number) : number == refused;
}

/* ---- memory ---- */

void *memory_allocate(size_t count, size_t size) {
    void *block = memory_is_refused() ? NULL : calloc(count ? count : 1, size ? size : 1);
    if (!block)
        give_up(count, size);
    return block;
}

void *memory_resize(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        give_up(count, size);
    void *resized = memory_is_refused() ? NULL : realloc(block, bytes ? bytes : 1);
    if (!resized)
        give_up(count, size);
    return resized;
}

char *memory_copy_string(const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(memory_allocate(bytes, 1), text, bytes);
}

void *memory_try_allocate(size_t bytes) {
    return memory_is_refused() ? NULL : malloc(bytes ? bytes : 1);
}

void *memory_try_resize(void *block, size_t bytes) {
    return memory_is_refused() ? NULL : realloc(block, bytes ? bytes : 1);
}

void memory_keep_freed(void) {
#ifdef M_TRIM_THRESHOLD
    enum { LARGEST = 32 << 20 }; /* that glibc can have on its heap: what is larger it maps alone */
    (void)mallopt(M_MMAP_THRESHOLD, LARGEST);
    (void)mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

void memory_return_freed(void) {
#ifdef M_TRIM_THRESHOLD
    (void)malloc_trim(0);
#endif
}
