#include "support/fuse_all.h"

#include "compiler/passes/fuse.h"
#include "compiler/passes/gather_sums.h"
#include "compiler/passes/repeat_sums.h"
#include "compiler/passes/schedule_groups.h"
#include "compiler/passes/split_sums.h"

dyno_status fuse_all(graph *g, const target *chip) {
    RETURN_IF_FAILED(split_sums(g, chip));
    gather_sums(g);
    RETURN_IF_FAILED(fuse_groups(g, chip));
    repeat_sums(g);
    return schedule_groups(g);
}
