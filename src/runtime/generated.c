#include "runtime/generated.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/threads.h"
#include "runtime/jit.h"

typedef void generated_function(void *const *operands, int64_t begin, int64_t end);

struct generated_kernels {
    const plan *p;
    jit_module *module;
    generated_function **functions; /* beside plan.generated */
};

dyno_status generated_load(const plan *p, generated_kernels **out) {
    *out = NULL;
    jit_module *module;
    RETURN_IF_FAILED(jit_load(p->source, &p->target, &module, NULL));
    generated_kernels *k = memory_allocate(1, sizeof *k);
    k->p = p;
    k->module = module;
    k->functions = memory_allocate((size_t)p->generated_count, sizeof *k->functions);
    for (int i = 0; i < p->generated_count; i++) {
        *(void **)&k->functions[i] = jit_find(module, p->generated[i].symbol);
        if (!k->functions[i]) {
            dyno_status status =
                dyno_fail(DYNO_CORRUPT, "the compiled kernels lack '%s'", p->generated[i].symbol);
            generated_destroy(k);
            return status;
        }
    }
    *out = k;
    return DYNO_OK;
}

void generated_destroy(generated_kernels *k) {
    if (!k)
        return;
    jit_destroy(k->module);
    free(k->functions);
    free(k);
}

typedef struct call {
    generated_function *function;
    void **operands;
} call;

static void run_units(void *context, int64_t begin, int64_t end) {
    const call *c = context;
    c->function(c->operands, begin, end);
}

void generated_run(const generated_kernels *k, const plan_launch *l, const kernel_args *args) {
    enum { MOST_ON_STACK = 192 };
    void *few[MOST_ON_STACK];
    int count = args->input_count + args->output_count;
    call c = {.function = k->functions[l->generated],
              .operands =
                  count <= MOST_ON_STACK ? few : memory_allocate((size_t)count, sizeof(void *))};
    for (int i = 0; i < args->input_count; i++)
        c.operands[i] = args->inputs[i].data;
    for (int i = 0; i < args->output_count; i++)
        c.operands[args->input_count + i] = args->outputs[i].data;
    threads_for(k->p->generated[l->generated].units, 1, run_units, &c);
    if (c.operands != few)
        free(c.operands);
}
