#include "compiler/lower/choose_tiles.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "ops/op_list.h"

static bool is_gradient(const plan_launch *l) {
    return strcmp(l->op_name, op_attention_gradient.name) == 0;
}

static void describe(const plan_launch *l, const target *chip, tiled_launch *out) {
    assert(l->input_count <= 8 && l->output_count <= 4);
    *out = (tiled_launch){.kernel = l->kernel, .tile = kernel_tile_asked(&l->attributes)};
    for (int i = 0; i < l->input_count; i++)
        out->inputs[i] = l->inputs[i].layout;
    for (int i = 0; i < l->output_count; i++)
        out->outputs[i] = l->outputs[i].layout;
    out->args = (kernel_args){.input_count = l->input_count,
                              .output_count = l->output_count,
                              .inputs = out->inputs,
                              .outputs = out->outputs,
                              .attributes = &l->attributes,
                              .target = chip};
}

static bool is_tiled(const plan_launch *l) { return l->kernel && l->kernel->is_tiled; }

static int list_tiles(const tile_options *options, const tiled_launch *at, kernel_tile *out) {
    if (options->source)
        return options->source->list(options->source, at->kernel, &at->args, out);
    return at->kernel->tiles ? at->kernel->tiles(&at->args, out) : 0;
}

static bool has_tile(const kernel_tile *tiles, int count, kernel_tile wanted) {
    for (int i = 0; i < count; i++)
        if (kernel_tile_equal(tiles[i], wanted))
            return true;
    return false;
}

static dyno_status refuse(const tiled_launch *at, const kernel_tile *tiles, int count,
                          kernel_tile wanted) {
    text known = {0};
    for (int i = 0; i < count; i++)
        text_format(&known, "%s%s", i ? ", " : "", kernel_tile_format(tiles[i]).text);
    dyno_status status = dyno_fail(
        DYNO_UNSUPPORTED,
        "%s has no tiles of %s for %s with head size %lld; it has %s, or use --tiles auto",
        at->kernel->name, kernel_tile_format(wanted).text, dtype_name(at->inputs[0].type),
        (long long)at->inputs[0].shape.dim[3], count ? text_string(&known) : "those of its own");
    text_release(&known);
    return status;
}

static void set_tile(plan *p, plan_launch *l, kernel_tile tile) {
    attribute *items =
        arena_allocate(p->memory, (size_t)l->attributes.count + 2, sizeof(attribute));
    memcpy(items, l->attributes.items, (size_t)l->attributes.count * sizeof *items);
    items[l->attributes.count++] = ATTR_INTEGER(KERNEL_TILE_QUERIES, tile.queries);
    items[l->attributes.count++] = ATTR_INTEGER(KERNEL_TILE_KEYS, tile.keys);
    l->attributes.items = items;
}

/* The same buffer, as large as the kernel now wants it; a kernel that has one at all wants one for
 * every tile. */
static void resize_workspace(plan *p, const plan_launch *l) {
    tiled_launch at;
    if (l->workspace < 0)
        return;
    describe(l, &p->target, &at);
    plan_buffer *b = &p->buffers[l->workspace];
    b->bytes = (int64_t)l->kernel->workspace_bytes(&at.args);
    b->shape = SHAPE(b->bytes);
}

dyno_status choose_tiles(plan *p, const tile_options *options) {
    for (int i = 0; i < p->launch_count; i++) {
        plan_launch *l = &p->launches[i];
        bool is_attention = strcmp(l->op_name, op_attention.name) == 0;
        if (!l->kernel || !(is_attention || is_gradient(l)))
            continue;
        tiled_launch at;
        describe(l, &p->target, &at);
        kernel_tile wanted = is_attention ? options->forward : options->backward;
        kernel_tile tiles[KERNEL_MOST_TILES], tile = wanted;
        int count = is_tiled(l) ? list_tiles(options, &at, tiles) : 0;
        if (kernel_tile_is_open(wanted) && options->source && is_tiled(l))
            tile = options->source->find(options->source, l->kernel, &at.args);
        if (kernel_tile_is_open(tile))
            continue;
        if (!has_tile(tiles, count, tile)) {
            if (!kernel_tile_is_open(wanted))
                return refuse(&at, tiles, count, wanted);
            continue;
        }
        set_tile(p, l, tile);
        resize_workspace(p, l);
    }
    return DYNO_OK;
}

bool find_tiled_launch(const plan *p, bool wants_gradient, tiled_launch *out) {
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        if (!is_tiled(l) || is_gradient(l) != wants_gradient)
            continue;
        describe(l, &p->target, out);
        return true;
    }
    return false;
}
