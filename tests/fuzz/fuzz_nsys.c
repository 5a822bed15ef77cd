/* fuzz_nsys.c - any bytes as an .sqlite export of Nsight Systems. The first bytes are put right, by which
 * SQLite knows its files. */
#include <stdlib.h>
#include <string.h>

#include "read_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char magic[] = "SQLite format 3";
    if (size < sizeof magic)
        return 0;
    uint8_t *repaired = malloc(size);
    memcpy(repaired, data, size);
    memcpy(repaired, magic, sizeof magic);
    read_trace(repaired, size);
    free(repaired);
    return 0;
}
