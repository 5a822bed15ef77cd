#include "ops/kernel.h"

#include <stdio.h>

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

kernel_tile kernel_tile_asked(const attributes *list) {
    const attribute *queries = attribute_find(list, KERNEL_TILE_QUERIES);
    const attribute *keys = attribute_find(list, KERNEL_TILE_KEYS);
    if (!queries || !keys)
        return (kernel_tile){0};
    return (kernel_tile){(int)queries->integer, (int)keys->integer};
}

kernel_tile kernel_tile_taken(const kernel_args *args,
                              int (*tiles)(const kernel_args *args, kernel_tile *out)) {
    kernel_tile tile = kernel_tile_asked(args->attributes), own[KERNEL_MOST_TILES];
    if (!kernel_tile_is_open(tile))
        return tile;
    tiles(args, own);
    return own[0];
}

kernel_tile_text kernel_tile_format(kernel_tile tile) {
    kernel_tile_text out;
    snprintf(out.text, sizeof out.text, "%dx%d", tile.queries, tile.keys);
    return out;
}

/* Digits from *at on, which moves behind them; 0 when there are none or too many. */
static int parse_rows(const char **at) {
    enum { MOST_ROWS = 65536 };
    int rows = 0;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        rows = rows * 10 + (**at - '0');
        if (rows > MOST_ROWS)
            return 0;
    }
    return rows;
}

bool kernel_tile_parse(const char *from, kernel_tile *out) {
    out->queries = parse_rows(&from);
    bool has_both = *from++ == 'x';
    out->keys = has_both ? parse_rows(&from) : 0;
    return has_both && *from == '\0' && out->queries > 0 && out->keys > 0;
}
