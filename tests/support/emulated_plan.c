#define _GNU_SOURCE
#include "support/emulated_plan.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "graph/op.h"
#include "ops/adamw/split_weight.h"
#include "ops/kernel.h"
#include "runtime/jit.h"
#include "support/numbers.h"
#include "support/operand.h"
#include "support/scratch.h"
#include "support/skip.h"

enum { GUARD_BYTES = 256, GUARD = 0xa5, ALIGNMENT = 256 };

struct emulated_plan {
    const plan *p;
    unsigned char *arena;   /* of a static plan */
    unsigned char **memory; /* by buffer; inside the arena, or a block of its own */
    void *library;          /* of emulated kernels */
    jit_module *module;     /* of a plan for the CPU */
};

static _Noreturn void stop(const char *what, const char *detail) {
    fprintf(stderr, "emulated plan: %s: %s\n", what, detail);
    abort();
}

void emulated_plan_skip_without_compiler(void) {
    if (system("command -v g++ >/dev/null 2>&1") != 0)
        SKIP_BECAUSE("there is no g++ to emulate a GPU with");
}

/* Full of NaN in every type, between guards. */
static unsigned char *take(int64_t bytes) {
    size_t whole = ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + 2 * GUARD_BYTES;
    unsigned char *block = aligned_alloc(ALIGNMENT, whole);
    memset(block, GUARD, whole);
    memset(block + GUARD_BYTES, 0xff, (size_t)bytes);
    return block + GUARD_BYTES;
}

static void check_guards(const unsigned char *block, int64_t bytes, const char *who) {
    for (int i = 1; i <= GUARD_BYTES; i++)
        if (block[-i] != GUARD || block[bytes + i - 1] != GUARD)
            stop("wrote beside its memory", who);
}

static void release(unsigned char *block) { free(block - GUARD_BYTES); }

static bool is_in_arena(const plan *p, int buffer) {
    return p->memory_mode == PLAN_MEMORY_STATIC && !p->buffers[buffer].is_persistent;
}

/* The emulator, the source, and for each kernel a function that runs all its blocks. */
static void *compile(const plan *p) {
    scratch folder = scratch_create();
    text source = {0}, command = {0};
    text_format(&source, "#include \"%s/support/cuda_emulator.h\"\n%s", DYNO_TEST_DIR, p->source);
    for (int i = 0; i < p->generated_count; i++)
        text_format(
            &source,
            "extern \"C\" void run_%s(void *const *p, int64_t begin, int64_t end, int threads) {\n"
            "    emulate(%s, p, begin, end, threads);\n}\n",
            p->generated[i].symbol, p->generated[i].symbol);
    scratch_write(&folder, "kernels.cpp", source.data, source.length);
    text_format(&command,
                "cd %s && g++ -std=c++17 -O1 -w -ffp-contract=off -shared -fPIC "
                "-fsanitize=alignment,bounds -fsanitize-undefined-trap-on-error "
                "-o kernels.so kernels.cpp",
                folder.path);
    if (system(text_string(&command)) != 0)
        stop("g++ refused the source", folder.path);
    void *library = dlopen(scratch_join(&folder, "kernels.so").text, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        stop("dlopen", dlerror());
    scratch_remove(&folder);
    text_release(&source);
    text_release(&command);
    return library;
}

emulated_plan *emulated_plan_create_kernels(const plan *p) {
    emulated_plan *e = memory_allocate(1, sizeof *e);
    e->p = p;
    if (p->source && target_is_cuda(&p->target))
        e->library = compile(p);
    else if (p->source && jit_load(p->source, target_this_cpu(), &e->module, NULL) != DYNO_OK)
        stop("the system's compiler", dyno_error_message());
    return e;
}

emulated_plan *emulated_plan_create(const plan *p) {
    emulated_plan *e = emulated_plan_create_kernels(p);
    e->memory = memory_allocate((size_t)p->buffer_count, sizeof *e->memory);
    if (p->memory_mode == PLAN_MEMORY_STATIC)
        e->arena = take(p->arena_bytes);
    for (int i = 0; i < p->buffer_count; i++)
        e->memory[i] =
            is_in_arena(p, i) ? e->arena + p->buffers[i].offset : take(p->buffers[i].bytes);
    return e;
}

void emulated_plan_destroy(emulated_plan *e) {
    for (int i = 0; e->memory && i < e->p->buffer_count; i++)
        if (!is_in_arena(e->p, i))
            release(e->memory[i]);
    if (e->arena)
        release(e->arena);
    if (e->library)
        dlclose(e->library);
    if (e->module)
        jit_destroy(e->module);
    free(e->memory);
    free(e);
}

static tensor view_of(const emulated_plan *e, const plan_operand *o) {
    tensor t = o->layout;
    t.data = e->memory[o->buffer] + o->offset;
    return t;
}

tensor emulated_plan_find(const emulated_plan *e, const char *name) {
    const plan_operand *o = plan_find_name(e->p, name);
    return o ? view_of(e, o) : (tensor){0};
}

void emulated_plan_run_blocks(const emulated_plan *e, int generated, void *const *pointers,
                              int64_t begin, int64_t end) {
    const plan_generated *made = &e->p->generated[generated];
    if (e->module) {
        void (*run)(void *const *, int64_t, int64_t);
        *(void **)&run = jit_find(e->module, made->symbol);
        run(pointers, begin, end);
        return;
    }
    char symbol[128];
    snprintf(symbol, sizeof symbol, "run_%s", made->symbol);
    void (*run)(void *const *, int64_t, int64_t, int);
    *(void **)&run = dlsym(e->library, symbol);
    if (!run || made->threads < 1 || made->threads > 1024 || made->units < 1)
        stop("cannot be launched", made->symbol);
    run(pointers, begin, end, made->threads);
}

static void run_generated(const emulated_plan *e, const plan_launch *l) {
    void **pointers = memory_allocate((size_t)(l->input_count + l->output_count), sizeof(void *));
    for (int i = 0; i < l->input_count; i++)
        pointers[i] = view_of(e, &l->inputs[i]).data;
    for (int i = 0; i < l->output_count; i++)
        pointers[l->input_count + i] = view_of(e, &l->outputs[i]).data;
    emulated_plan_run_blocks(e, l->generated, pointers, 0, e->p->generated[l->generated].units);
    free(pointers);
}

static void run_on_cpu(const emulated_plan *e, const plan_launch *l) {
    tensor *operands = memory_allocate((size_t)(l->input_count + l->output_count), sizeof(tensor));
    for (int i = 0; i < l->input_count; i++)
        operands[i] = view_of(e, &l->inputs[i]);
    for (int i = 0; i < l->output_count; i++)
        operands[l->input_count + i] = view_of(e, &l->outputs[i]);
    kernel_args args = {.input_count = l->input_count,
                        .output_count = l->output_count,
                        .inputs = operands,
                        .outputs = operands + l->input_count,
                        .attributes = &l->attributes,
                        .variant = l->variant,
                        .target = target_this_cpu()};
    for (const kernel *const *k = op_find(l->op_name)->kernels; *k; k++) {
        if ((*k)->target != TARGET_CPU || ((*k)->reject && (*k)->reject(&args)))
            continue;
        size_t scratch_bytes = (*k)->workspace_bytes ? (*k)->workspace_bytes(&args) : 0;
        args.workspace = aligned_alloc(64, (scratch_bytes + 64) / 64 * 64);
        if ((*k)->run(&args) != DYNO_OK)
            stop("this kernel failed", (*k)->name);
        free(args.workspace);
        free(operands);
        return;
    }
    stop("no kernel of the CPU stands in for", l->kernel_name);
}

void emulated_plan_run(emulated_plan *e) {
    const plan *p = e->p;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        if (l->generated >= 0)
            run_generated(e, l);
        else
            run_on_cpu(e, l);
        for (int j = 0; j < l->output_count; j++) {
            int buffer = l->outputs[j].buffer;
            if (!is_in_arena(p, buffer))
                check_guards(e->memory[buffer], p->buffers[buffer].bytes, l->op_name);
        }
    }
    if (e->arena)
        check_guards(e->arena, p->arena_bytes, "the arena");
}

/* The low copy to which the leaf of that name is the rest; NULL for anything else. */
static const char *other_half(const plan *p, const char *name) {
    for (int i = 0; i < p->parameter_count; i++) {
        const plan_parameter *parameter = &p->parameters[i];
        if (parameter->is_split && strcmp(p->names[parameter->value].name, name) == 0)
            return p->names[parameter->low_copy].name;
    }
    return NULL;
}

/* A leaf or an output as numbers; the rest of a split weight as the weight it belongs to, since
 * alone it is the digits that any difference changes first. */
static double *numbers_of(const emulated_plan *e, const char *name) {
    tensor x = emulated_plan_find(e, name);
    assert_non_null(x.data);
    double *numbers = tensor_to_doubles(&x);
    const char *low_copy = other_half(e->p, name);
    if (!low_copy)
        return numbers;
    tensor high = emulated_plan_find(e, low_copy);
    assert_true(high.data && tensor_is_contiguous(&high) && tensor_is_contiguous(&x));
    for (int64_t i = 0; i < shape_elements(&x.shape); i++)
        numbers[i] = (double)split_weight_join(((const uint16_t *)high.data)[i],
                                               ((const uint16_t *)x.data)[i]);
    return numbers;
}

void expect_close_plans(const emulated_plan *exact, const emulated_plan *got, double limit,
                        uint64_t seed) {
    for (int i = 0; i < exact->p->name_count; i++) {
        const char *name = exact->p->names[i].name;
        tensor x = emulated_plan_find(exact, name);
        double *wanted = numbers_of(exact, name), *have = numbers_of(got, name);
        double error = relative_error(have, wanted, shape_elements(&x.shape));
        if (!(error <= limit))
            fail_msg("'%s' [%s] of seed %llu is %g off", name, shape_format(&x.shape).text,
                     (unsigned long long)seed, error);
        free(wanted);
        free(have);
    }
}
