/* units.h - sizes and times as people write them. Memory is in powers of two. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    char text[32];
} units_text;

/* "512 B", "1.50 MiB", "32.00 GiB". */
units_text units_bytes(int64_t bytes);
/* "950", "12.3 k", "128.6 M", "2.72 G": counts of parameters, FLOPs. */
units_text units_count(double count);
/* "3.2 s", "4 min 05 s": for people waiting. */
units_text units_duration(double seconds);

/* "32GiB", "24 MiB", "512MB" (also powers of ten for kB/MB/GB), "1073741824". */
NODISCARD dyno_status units_parse_bytes(const char *text, int64_t *bytes);
/* "20min", "90 s", "1.5h", "500ms": seconds; a number alone is seconds. */
NODISCARD dyno_status units_parse_duration(const char *text, double *seconds);
/* "2%" or "0.02", as 0.02: from 0 to below 100 %. */
NODISCARD dyno_status units_parse_share(const char *text, double *share);
/* "450GB/s", "25 GiB/s", "400Gbit/s": bytes a second. "Gb/s", which people write for both, is refused. */
NODISCARD dyno_status units_parse_bandwidth(const char *text, double *bytes_a_second);

#endif
