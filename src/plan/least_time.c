#include "plan/least_time.h"

#include <math.h>
#include <string.h>

#include "tensor/dtype.h"

/* Ops whose FLOPs are those of matrix products, by their classes and the loss head's name. */
static bool is_product(const plan_launch *l) {
    return strcmp(l->class_name, "matmul") == 0 || strcmp(l->class_name, "attention") == 0 ||
           strncmp(l->op_name, "loss_head", 9) == 0;
}

static bool has_low_input(const plan_launch *l) {
    for (int i = 0; i < l->input_count; i++) {
        dtype type = l->inputs[i].layout.type;
        if (type == DTYPE_BF16 || type == DTYPE_F16)
            return true;
    }
    return false;
}

static double rate_of(const plan_launch *l, const target_rates *rates) {
    if (!is_product(l))
        return rates->fp32;
    if (has_low_input(l))
        return rates->low;
    return attribute_find(&l->attributes, "tf32") ? rates->tf32 : rates->fp32;
}

double least_time_of_launch(const plan_launch *l, const target_rates *rates) {
    double computing = l->flops / rate_of(l, rates);
    double moving = (l->bytes_read + l->bytes_written) / rates->memory;
    return fmax(computing, moving);
}

double least_time_of_plan(const plan *p, phase which) {
    target_rates rates = target_rates_of(&p->target);
    double seconds = 0;
    double launch = p->memory_mode == PLAN_MEMORY_STATIC ? rates.planned_launch : rates.launch;
    for (int i = 0; i < p->launch_count; i++) {
        double share = which == PHASE_COUNT ? 1 : plan_launch_share(&p->launches[i], which);
        seconds += share * plan_launch_times(p, i) *
                   fmax(least_time_of_launch(&p->launches[i], &rates), launch);
    }
    return seconds;
}
