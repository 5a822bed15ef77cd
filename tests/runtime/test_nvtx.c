/* test_nvtx.c - a profiler hears the same from dyno's side of NVTX as from NVIDIA's own header. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "runtime/nvtx.h"

#ifdef NVTX_RECORDER
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/scratch.h"

enum { MOST_BYTES = 4096 };

/* What was recorded since the last call. */
static void read_all(const char *path, char *to) {
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    ssize_t count = read(file, to, MOST_BYTES - 1);
    assert_true(count >= 0 && ftruncate(file, 0) == 0);
    to[count] = 0;
    close(file);
}

static void push_with_header(nvtxDomainHandle_t domain, const char *name) {
    nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = name};
    nvtxDomainRangePushEx(domain, &event);
}

static void a_profiler_is_told_what_nvidias_header_would_tell(void **state) {
    (void)state;
    char ours[MOST_BYTES], theirs[MOST_BYTES];
    scratch folder = scratch_create();
    scratch_path path = scratch_join(&folder, "calls");
    setenv("NVTX_INJECTION64_PATH", NVTX_RECORDER, 1);
    setenv("NVTX_RECORDER_FILE", path.text, 1);
    unsetenv("NVTX_RECORDER_REFUSES");

    const range_listener *listener = nvtx_listener();
    assert_non_null(listener);
    listener->push(listener->context, "step 0");
    listener->push(listener->context, "forward");
    listener->pop(listener->context);
    listener->pop(listener->context);
    read_all(path.text, ours);
    assert_ptr_equal(nvtx_listener(), listener); /* it is loaded once */

    nvtxDomainHandle_t domain = nvtxDomainCreateA("dyno");
    push_with_header(domain, "step 0");
    push_with_header(domain, "forward");
    nvtxDomainRangePop(domain);
    nvtxDomainRangePop(domain);
    read_all(path.text, theirs);
    nvtxDomainDestroy(domain);

    char wanted[MOST_BYTES];
    int at = 0;
    static const char *const CALLS[] = {"domain\tdyno\t", "push\tdyno\tstep 0",
                                        "push\tdyno\tforward", "pop\tdyno\t", "pop\tdyno\t"};
    for (int i = 0; i < 5; i++) /* the first thread of a process has its number */
        at += snprintf(wanted + at, sizeof wanted - (size_t)at, "%d\t%d\t%s\n", (int)getpid(),
                       (int)getpid(), CALLS[i]);
    assert_string_equal(theirs, wanted);
    assert_string_equal(ours, theirs);
    scratch_remove(&folder);
}
#else
#include "support/skip.h"

static void a_profiler_is_told_what_nvidias_header_would_tell(void **state) {
    (void)state;
    SKIP_BECAUSE("there is no nvtx3/nvToolsExt.h");
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profiler_is_told_what_nvidias_header_would_tell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
