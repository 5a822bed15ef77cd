/* bench_communication.h - what a step of several ranks communicates, and how much of that it waits for. */
#ifndef REPORT_BENCH_COMMUNICATION_H
#define REPORT_BENCH_COMMUNICATION_H

#include "measure/results.h"

/* NAN: the record does not tell. */
typedef struct bench_communication {
    double ranks;
    double all_ms, exposed_ms; /* medians */
    double overlap_percent;    /* of all_ms, what is hidden behind computing */
    double sent_bytes;         /* by each rank */
    double formula_bytes;      /* what a ring sends for as many parameters */
} bench_communication;

/* With one rank there is none. */
bench_communication bench_communication_of(const results_cell *cell);

#endif
