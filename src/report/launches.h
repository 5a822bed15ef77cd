/* launches.h - the records of a profile's launches in few bytes, for the timeline of a page.
 *
 * As rows of JSON a launch takes 100 bytes and more; here about 7, because most launches share their names with
 * others and begin soon after the one before. */
#ifndef REPORT_LAUNCHES_H
#define REPORT_LAUNCHES_H

#include "base/json.h"
#include "measure/results.h"

/* The breakdown "records" as an object, of `most_bytes` at most: later launches are left out. NULL where it
 * has no columns for times.
 *
 *   names   of launches that are alike: [kernel, scope, phase, bytes alive]; the last one where it is known
 *   lanes   one for each stream: {stream, count, data}
 *   steps   one behind the other: [number, begin in ns]
 *   kept, all   how many launches are here, and were recorded
 *
 * data is base64 of varints (7 bits a byte, the lowest first, the top bit says that more follow), three for
 * each launch in the order of their beginning: the name's number less that of the launch before and 1, the gap
 * since that one's end in ns (both zigzag: 2n, or -2n - 1 where n < 0), and the duration in ns. */
json_t *launches_to_json(const results_breakdown *records, size_t most_bytes);

#endif
