#include "runtime/device_tiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "ops/attention/attention.h"
#include "runtime/tuning_cache.h"

struct device_tiles {
    tile_source source; /* first: sources are cast back */
    device *d;
    tuning_cache *cache;
};

static const device_tiles *of_source(const tile_source *source) {
    return (const device_tiles *)(const void *)source;
}

static int64_t rounded_up(int64_t length) {
    int64_t power = 1;
    while (power < length)
        power *= 2;
    return power;
}

static void describe_key(text *out, const kernel *k, const kernel_args *args) {
    attention_problem p = attention_describe(args);
    text_format(out, "%s,%s,d%lld,%s,q%lld,k%lld", k->name, dtype_name(args->inputs[0].type),
                (long long)p.head_dim, p.is_causal ? "causal" : "full",
                (long long)rounded_up(p.queries), (long long)rounded_up(p.keys));
    /* Then other kernels are best. */
    if (k->target == TARGET_CUDA && attention_is_in_pieces(args))
        text_format(out, ",few");
}

static int list(const tile_source *source, const kernel *k, const kernel_args *args,
                kernel_tile *out) {
    device *d = of_source(source)->d;
    if (d->functions->tiles)
        return d->functions->tiles(d, k, args, out);
    return k->tiles ? k->tiles(args, out) : 0;
}

static kernel_tile find(const tile_source *source, const kernel *k, const kernel_args *args) {
    text key = {0};
    kernel_tile tile;
    describe_key(&key, k, args);
    const char *kept = tuning_cache_find(of_source(source)->cache, text_string(&key));
    if (!kept || !kernel_tile_parse(kept, &tile))
        tile = (kernel_tile){0};
    text_release(&key);
    return tile;
}

/* "tiles-NVIDIA-H200.txt"; of the CPU its model, because caches differ from one to the next. */
static void name_file(const device *d, text *out) {
    char name[128] = "cpu", line[512];
    FILE *cpuinfo = d->target.kind == TARGET_CPU ? fopen("/proc/cpuinfo", "r") : NULL;
    if (d->target.kind != TARGET_CPU)
        snprintf(name, sizeof name, "%.*s", (int)strcspn(d->description, ","), d->description);
    while (cpuinfo && fgets(line, sizeof line, cpuinfo)) {
        const char *model = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !model)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(model + 2, "\n"), model + 2);
        break;
    }
    if (cpuinfo)
        fclose(cpuinfo);
    for (char *at = name; *at; at++)
        if (*at == ' ' || *at == '/')
            *at = '-';
    text_format(out, "tiles-%s.txt", name);
}

device_tiles *device_tiles_create(device *d) {
    device_tiles *tiles = memory_allocate(1, sizeof *tiles);
    text file = {0};
    name_file(d, &file);
    *tiles = (device_tiles){.source = {.list = list, .find = find},
                            .d = d,
                            .cache = tuning_cache_create(text_string(&file))};
    text_release(&file);
    return tiles;
}

void device_tiles_destroy(device_tiles *tiles) {
    if (!tiles)
        return;
    tuning_cache_destroy(tiles->cache);
    free(tiles);
}

const tile_source *device_tiles_source(const device_tiles *tiles) { return &tiles->source; }

bool device_tiles_keep(device_tiles *tiles, const kernel *k, const kernel_args *args,
                       kernel_tile best) {
    text key = {0};
    describe_key(&key, k, args);
    bool is_kept = tuning_cache_add(tiles->cache, text_string(&key), kernel_tile_format(best).text);
    text_release(&key);
    return is_kept;
}
