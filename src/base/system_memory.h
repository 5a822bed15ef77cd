/* system_memory.h - how much memory the machine has for this process. */
#ifndef BASE_SYSTEM_MEMORY_H
#define BASE_SYSTEM_MEMORY_H

#include <stdint.h>

typedef struct system_memory {
    int64_t total_bytes;     /* of the machine, or of the control group if that is less */
    int64_t available_bytes; /* that could be taken now without swapping */
} system_memory;

/* 0 for what the system does not tell. */
system_memory system_memory_read(void);

#endif
