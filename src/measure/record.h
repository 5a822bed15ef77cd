/* record.h - the record of a run on the disk while the run goes on.
 *
 * DIR/run.json is written when the work begins, after every cell and at the end, each time in one
 * step. Until the run is complete it says so; a process that is killed leaves what it had
 * measured by then.
 *
 * A record that is there is never replaced by less, unless that is asked for. Less than a complete
 * record is any that is incomplete; less than an incomplete one is an incomplete one with fewer
 * finished cells. While the new record is less, it is kept beside the other as
 * DIR/run.incomplete.json. A record of another verb is not replaced at all: such a run is refused
 * before anything is measured. */
#ifndef MEASURE_RECORD_H
#define MEASURE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "measure/results.h"

typedef struct record record;

/* Of `run`, which must outlive it. Nothing is written yet. */
record *record_create(const char *directory, const results *run, bool replaces_anything);
/* NULL is allowed. */
void record_destroy(record *r);

/* Makes the directory and writes the record for the first time, so that a directory that cannot be
 * written, a full disk and a record that would be lost are reported before hours of measuring. */
NODISCARD dyno_status record_begin(record *r);

/* Between cells. Where writing takes long compared with a cell, not every call writes, so that at
 * most a tenth of the time goes into it; record_was_put_off then says that there is something to
 * write, for another call when time has passed. */
NODISCARD dyno_status record_keep(record *r);
bool record_was_put_off(const record *r);
/* Whether the last write failed. */
bool record_is_failing(const record *r);

/* At the end, with what there is. */
NODISCARD dyno_status record_end(record *r);
/* Instead, where there is nothing to keep: removes what was written, and directories made for it. */
void record_abandon(record *r);

/* Where it was written last. */
const char *record_path(const record *r);
/* Whether it is beside another record, which is more. */
bool record_is_beside(const record *r);

/* Writes a whole run at once, by the same rule. */
NODISCARD dyno_status record_write(const results *run, const char *directory);

#endif
