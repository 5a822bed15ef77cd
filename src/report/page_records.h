/* page_records.h - the records of a study as JSON inside of its page, for the viewers and for readers. */
#ifndef REPORT_PAGE_RECORDS_H
#define REPORT_PAGE_RECORDS_H

#include "report/study.h"

/* An array with the record of each section, or null, in about `room` bytes: what is too large loses
 * breakdowns, the largest record first, and that is said below. */
void page_append_records(const study *s, size_t room, text *out);

#endif
