#include "compiler/lower/choose_kernel.h"

#include <assert.h>

#include "base/text.h"

void choose_kernel_key(const op *of, const kernel_args *args, text *out) {
    text_format(out, "%s,", of->name);
    of->tuning_key(args, out);
}

static const char *find_wish(const kernel_options *options, const op *of) {
    for (size_t i = 0; i < sizeof options->wishes / sizeof *options->wishes; i++)
        if (options->wishes[i].of == of && options->wishes[i].wanted)
            return options->wishes[i].wanted;
    return NULL;
}

static void list_variants(const kernel *k, const kernel_args *args, text *out) {
    kernel_variant all[KERNEL_MOST_VARIANTS];
    int count = k->variants ? k->variants(args, all) : 0;
    text_format(out, "%s%s", out->length ? "; " : "", k->name);
    for (int i = 0; i < count; i++)
        text_format(out, "%s%s", i ? ", " : ": ", all[i].name);
}

static dyno_status refuse(const op *of, const kernel_args *args, const char *wanted) {
    text known = {0};
    for (const kernel *const *k = of->kernels; *k; k++)
        if ((*k)->target == args->target->kind && !kernel_reject(*k, args))
            list_variants(*k, args, &known);
    dyno_status status =
        dyno_fail(DYNO_UNSUPPORTED, "%s has no variant %s for %s[%s]; it has %s", of->name, wanted,
                  dtype_name(args->inputs[0].type), shape_format(&args->inputs[0].shape).text,
                  known.length ? text_string(&known) : "no kernel for it");
    text_release(&known);
    return status;
}

/* Asks all of them again, for their reasons: most launches find a kernel and need no such text. */
static dyno_status refuse_operands(const op *of, const kernel_args *args, const char *scope) {
    text reasons = {0};
    (void)kernel_pick(of->kernels, args, &reasons);
    dyno_status status = dyno_fail(DYNO_UNSUPPORTED, "no %s kernel runs %s in scope '%s' (%s)",
                                   target_kind_name(args->target->kind), of->name, scope,
                                   reasons.length ? text_string(&reasons) : "it has none");
    text_release(&reasons);
    return status;
}

static const kernel *find_tuned(const op *of, const kernel_args *args, const kernel_tuning *tuning,
                                kernel_variant *variant) {
    if (!tuning || !of->tuning_key)
        return NULL;
    text key = {0};
    choose_kernel_key(of, args, &key);
    const char *kept = tuning->find(tuning, text_string(&key));
    const kernel *found = kept ? kernel_find_wanted(of->kernels, args, kept, variant) : NULL;
    text_release(&key);
    return found;
}

dyno_status choose_kernel(const op *of, const kernel_args *args, const char *scope,
                          const kernel_options *options, kernel_choice *out) {
    *out = (kernel_choice){0};
    const char *wanted = options ? find_wish(options, of) : NULL;
    if (wanted) {
        out->kernel = kernel_find_wanted(of->kernels, args, wanted, &out->variant);
        return out->kernel ? DYNO_OK : refuse(of, args, wanted);
    }
    if (options)
        out->kernel = find_tuned(of, args, options->tuning, &out->variant);
    if (out->kernel)
        return DYNO_OK;
    out->kernel = kernel_pick(of->kernels, args, NULL);
    return out->kernel ? DYNO_OK : refuse_operands(of, args, scope);
}

void choose_kernel_describe(const plan *p, const plan_launch *l, launch_layouts *out) {
    int count = l->input_count + l->output_count;
    uint64_t bits = 0;
    assert((size_t)count <= sizeof out->operands / sizeof *out->operands);
    for (int i = 0; i < count; i++) {
        const plan_operand *o =
            i < l->input_count ? &l->inputs[i] : &l->outputs[i - l->input_count];
        out->operands[i] = o->layout;
        bits |= (uint64_t)o->offset;
    }
    out->args = (kernel_args){.input_count = l->input_count,
                              .output_count = l->output_count,
                              .inputs = out->operands,
                              .outputs = out->operands + l->input_count,
                              .attributes = &l->attributes,
                              .variant = l->variant,
                              .target = &p->target,
                              .offset_bits = bits};
}
