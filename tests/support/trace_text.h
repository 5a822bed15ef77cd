/* trace_text.h - small traces of PyTorch's profiler, written in tests. Times are in us; kernels run on a thread of
 * their own. */
#ifndef TESTS_SUPPORT_TRACE_TEXT_H
#define TESTS_SUPPORT_TRACE_TEXT_H

#include <stdint.h>

#define EVENT(category, name, thread, begin, duration, ...)                                        \
    "{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #thread      \
    ",\"ts\":" #begin ",\"dur\":" #duration ",\"args\":{" __VA_ARGS__ "}},"
#define OP(name, thread, begin, duration, ...)                                                     \
    EVENT("cpu_op", name, thread, begin, duration, __VA_ARGS__)
#define RANGE(name, thread, begin, duration)                                                       \
    EVENT("user_annotation", name, thread, begin, duration, "")
#define CALL(thread, begin, correlation)                                                           \
    EVENT("cuda_runtime", "cudaLaunchKernel", thread, begin, 2, "\"correlation\":" #correlation)
#define KERNEL(name, begin, duration, correlation, ...)                                            \
    EVENT("kernel", name, 7, begin, duration, "\"correlation\":" #correlation __VA_ARGS__)
#define TRACE(...) "{\"traceEvents\":[" __VA_ARGS__ "{\"ph\":\"M\",\"name\":\"end\"}]}"

/* Fails the test unless so many records of the trace are of the phase. */
void expect_phase(const char *document, const char *phase, int64_t count);

#endif
