/* read_trace.h - any bytes as a trace of another program: refused with a message, or every record can be
 * summed. */
#ifndef TESTS_FUZZ_READ_TRACE_H
#define TESTS_FUZZ_READ_TRACE_H

#include <stddef.h>
#include <stdint.h>

void read_trace(const uint8_t *data, size_t size);

#endif
