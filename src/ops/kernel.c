#include "ops/kernel.h"

#include <stdio.h>
#include <string.h>

const char *kernel_reject(const kernel *k, const kernel_args *args) {
    const char *reason = k->reject ? k->reject(args) : NULL;
    if (reason)
        return reason;
    for (int i = 0; i < args->output_count; i++)
        if (!k->writes_strided && !tensor_is_contiguous(&args->outputs[i]))
            return "writes dense results only";
    return NULL;
}

const kernel *kernel_pick(const kernel *const *list, const kernel_args *args, text *reasons) {
    for (const kernel *const *k = list; *k; k++) {
        if ((*k)->target != args->target->kind)
            continue;
        const char *reason = kernel_reject(*k, args);
        if (!reason && (*k)->yield)
            reason = (*k)->yield(args);
        if (!reason)
            return *k;
        if (reasons)
            text_format(reasons, "%s%s: %s", reasons->length ? "; " : "", (*k)->name, reason);
    }
    return NULL;
}

const char *kernel_reject_unless_f32(const kernel_args *args) {
    for (int i = 0; i < args->input_count; i++)
        if (args->inputs[i].type != DTYPE_F32)
            return "computes in f32 only";
    return NULL;
}

/* Whether `wanted` names the kernel; *variant is then what stands behind its name, or NULL. */
static bool names_kernel(const char *wanted, const char *name, const char **variant) {
    size_t length = strlen(name);
    if (strncmp(wanted, name, length) != 0 || (wanted[length] && wanted[length] != ':'))
        return false;
    *variant = wanted[length] ? wanted + length + 1 : NULL;
    return true;
}

static bool has_variant(const kernel *k, const kernel_args *args, const char *name) {
    kernel_variant all[KERNEL_MOST_VARIANTS];
    int count = k->variants ? k->variants(args, all) : 0;
    for (int i = 0; i < count; i++)
        if (strcmp(all[i].name, name) == 0)
            return true;
    return false;
}

const kernel *kernel_find_wanted(const kernel *const *list, const kernel_args *args,
                                 const char *wanted, kernel_variant *variant) {
    for (const kernel *const *k = list; *k; k++) {
        const char *name = wanted;
        if ((*k)->target != args->target->kind || kernel_reject(*k, args))
            continue;
        (void)names_kernel(wanted, (*k)->name, &name);
        if (name && !has_variant(*k, args, name))
            continue;
        snprintf(variant->name, sizeof variant->name, "%s", name ? name : "");
        return *k;
    }
    return NULL;
}
