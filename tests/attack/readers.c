#define _GNU_SOURCE
#include "attack/readers.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/rng.h"
#include "base/units.h"
#include "compiler/lower/choose_kernel.h"
#include "experiments/attention_plan.h"
#include "experiments/attention_sweep.h"
#include "experiments/experiment.h"
#include "experiments/step_variant.h"
#include "formats/config_json.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"
#include "model/parameters.h"
#include "ops/op_list.h"
#include "profile/foreign_trace.h"
#include "profile/kernel_groups.h"
#include "runtime/tuning_cache.h"

static char place[512]; /* the directory that was given */

static void require(bool holds) {
    if (!holds)
        abort();
}

static bool is_accepted(dyno_status status) {
    require(status == DYNO_OK || dyno_error_message()[0]);
    return status == DYNO_OK;
}

static void use_directory(const char *directory) { snprintf(place, sizeof place, "%s", directory); }

static const char *path_of(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", place, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t size) {
    int file = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(file >= 0 && write(file, bytes, size) == (ssize_t)size && close(file) == 0);
}

/* ---- models ---- */

static bool read_config(const char *bytes, size_t size) {
    model_config config = {0};
    if (!is_accepted(model_config_parse(bytes, size, "config", &config)))
        return false;
    require(model_config_check(&config) == DYNO_OK);
    int64_t total = 0;
    for (int i = 0; i < model_parameter_count(&config); i++) {
        model_parameter p = model_parameter_at(&config, i);
        total += shape_elements(&p.shape);
    }
    require(total == model_parameter_elements(&config));
    return true;
}

static bool read_safetensors_file(const char *path) {
    safetensors_file *file;
    if (!is_accepted(safetensors_open(path, &file))) {
        require(!file);
        return false;
    }
    for (int i = 0; i < safetensors_count(file); i++) {
        const safetensors_entry *entry = safetensors_at(file, i);
        size_t elements = (size_t)shape_elements(&entry->shape);
        float *values = malloc(elements * sizeof *values + 1);
        require(safetensors_read_f32(file, entry, values) ==
                (dtype_is_float(entry->type) ? DYNO_OK : DYNO_UNSUPPORTED));
        free(values);
    }
    safetensors_close(file);
    return true;
}

/* A second time with the length of the header put right, which a mutation spoils easily. */
static bool read_safetensors(const char *bytes, size_t size) {
    put("a.safetensors", bytes, size);
    bool is_good = read_safetensors_file(path_of("a.safetensors"));
    const char *brace = size > 8 ? memrchr(bytes + 8, '}', size - 8) : NULL;
    if (brace && !is_good) {
        uint64_t length = (uint64_t)(brace - bytes) - 7;
        int file = open(path_of("a.safetensors"), O_WRONLY);
        require(file >= 0 && pwrite(file, &length, sizeof length, 0) == sizeof length);
        close(file);
        is_good = read_safetensors_file(path_of("a.safetensors"));
    }
    return is_good;
}

/* The directory has the files that a good index names. */
static bool read_index(const char *bytes, size_t size) {
    put("model.safetensors.index.json", bytes, size);
    hf_directory *model;
    if (!is_accepted(hf_directory_open(place, &model))) {
        require(!model);
        return false;
    }
    hf_directory_close(model);
    return true;
}

static bool read_tokens(const char *bytes, size_t size) {
    enum { MOST = 64, VOCABULARY = 1000 };
    int32_t ids[MOST];
    dyno_tokens *source;
    put("tokens", bytes, size);
    bool is_good = true;
    for (int token_bytes = 2; token_bytes <= 4; token_bytes += 2) {
        if (!is_accepted(dyno_tokens_open(path_of("tokens"), token_bytes, &source))) {
            is_good = false;
            continue;
        }
        int64_t count = dyno_tokens_count(source), some = count < MOST ? count : MOST;
        require(count == (int64_t)size / token_bytes);
        if (is_accepted(dyno_tokens_read(source, count - some, some, VOCABULARY, ids)))
            for (int64_t i = 0; i < some; i++)
                require(ids[i] >= 0 && ids[i] < VOCABULARY);
        require(dyno_tokens_read(source, 0, count + 1, VOCABULARY, ids) == DYNO_INVALID);
        dyno_tokens_close(source);
    }
    return is_good;
}

/* ---- records ---- */

static bool read_run(const char *bytes, size_t size) {
    static unsigned turn;
    dyno_results *run;
    put("run.json", bytes, size);
    if (!is_accepted(dyno_results_read(path_of("run.json"), &run))) {
        require(!run);
        return false;
    }
    static const char *const formats[] = {"table", "csv", "md", "json"};
    dyno_render_options how = {.size = sizeof how, .format = formats[turn++ % 4]};
    how.has_plots = turn % 8 < 4;
    char *shown;
    require(dyno_results_render(run, &how, &shown) == DYNO_OK);
    dyno_text_free(shown);
    dyno_results_destroy(run);
    return true;
}

/* ---- traces of other programs ---- */

typedef struct trace_check {
    kernel_groups *groups;
    int64_t records;
} trace_check;

static dyno_status check_record(void *caller, const launch_record *record) {
    trace_check *check = caller;
    require(record->recorded && record->class_name && record->begin_ns >= 0);
    require(record->end_ns >= record->begin_ns && record->step >= 0);
    check->records++;
    return kernel_groups_add(check->groups, record);
}

static dyno_status check_range(void *caller, const foreign_range *range) {
    (void)caller;
    require(range->begin_ns >= 0 && range->end_ns >= range->begin_ns);
    return DYNO_OK;
}

static bool read_trace(const char *name, const char *bytes, size_t size) {
    static const grouping by[] = {{"phase", {GROUP_PHASE, GROUP_SCOPE}, 2}};
    trace_check check = {kernel_groups_create(by, 1), 0};
    kernel_classes *classes;
    foreign_trace trace;
    put(name, bytes, size);
    require(kernel_classes_create(NULL, &classes) == DYNO_OK);
    foreign_visitor visitor = {&check, classes, check_record, check_range, NULL};
    bool is_good = is_accepted(foreign_trace_read(path_of(name), &visitor, &trace));
    int64_t joined = 0;
    for (int i = 0; i < JOIN_COUNT; i++)
        joined += trace.joined[i];
    require(joined == trace.records && trace.records == check.records);
    kernel_classes_destroy(classes);
    kernel_groups_destroy(check.groups);
    return is_good;
}

static bool read_pytorch_trace(const char *bytes, size_t size) {
    return read_trace("trace.json", bytes, size);
}

static bool read_nsys_trace(const char *bytes, size_t size) {
    return read_trace("trace.sqlite", bytes, size);
}

static bool make_classes(int number, text *out) {
    if (number > 0)
        return false;
    text_append(out, "# ours\nmy_*_kernel, mine\nvoid fused<float, 4>, fused things\ngemm, m\n");
    return true;
}

static bool read_classes(const char *bytes, size_t size) {
    kernel_classes *classes;
    put("classes", bytes, size);
    if (!is_accepted(kernel_classes_create(path_of("classes"), &classes))) {
        require(!classes);
        return false;
    }
    require(kernel_classes_find(classes, "void my_own_kernel<float, 4>", "aten::mm")[0]);
    kernel_classes_destroy(classes);
    return true;
}

/* ---- caches ---- */

static void use_cache(const char *directory) {
    setenv("XDG_CACHE_HOME", directory, 1);
    snprintf(place, sizeof place, "%s/dyno", directory);
    static const hash_string any = {"0"};
    require(cache_write_sealed(&any, ".made", "attack", "", 0)); /* makes the directory */
}

/* Of a GPU, which has the most variants. */
static struct {
    plan *p;
    launch_layouts of;
    text key;
} tuned;

static void use_tuning(const char *directory) {
    use_cache(directory);
    const target *chip;
    require(target_find("h100", &chip) == DYNO_OK);
    attention_plan_options o = {
        .shape = {.batch = 1, .context = 512, .heads = 2, .kv_heads = 2, .head_dim = 64},
        .extent = STEP_FORWARD,
        .mode = STEP_COMPILED,
        .precision = PRECISION_BF16,
        .target = chip};
    require(attention_plan_flash(&o, &tuned.p) == DYNO_OK);
    for (int i = 0; i < tuned.p->launch_count; i++)
        if (strcmp(tuned.p->launches[i].op_name, op_attention.name) == 0)
            choose_kernel_describe(tuned.p, &tuned.p->launches[i], &tuned.of);
    require(tuned.of.args.input_count > 0);
    choose_kernel_key(&op_attention, &tuned.of.args, &tuned.key);
}

/* A file with one line for each of the kernel's variants, another key, and a line that is empty. */
static bool make_tuning(int number, text *out) {
    if (number > 0)
        return false;
    kernel_variant all[KERNEL_MOST_VARIANTS];
    for (const kernel *const *k = op_attention.kernels; *k; k++) {
        int count =
            (*k)->variants && (*k)->target == TARGET_CUDA && !kernel_reject(*k, &tuned.of.args)
                ? (*k)->variants(&tuned.of.args, all)
                : 0;
        for (int i = 0; i < count && i < 2; i++) {
            text rest = {0};
            text_format(&rest, "%s %s:%s", text_string(&tuned.key), (*k)->name, all[i].name);
            text_format(out, "%s %s\n", hash_text(rest.data, rest.length).text, rest.data);
            text_release(&rest);
        }
    }
    require(out->length > 0);
    text_append(out, "\n");
    return true;
}

/* Words of the file are also taken for choices though the hash of their line is wrong by now. */
static bool read_tuning(const char *bytes, size_t size) {
    put("choices", bytes, size);
    tuning_cache *cache = tuning_cache_create("choices");
    const char *found = tuning_cache_find(cache, text_string(&tuned.key));
    kernel_variant variant;
    bool is_good =
        found && kernel_find_wanted(op_attention.kernels, &tuned.of.args, found, &variant);
    for (const char *word = bytes; (word = memchr(word, ' ', (size_t)(bytes + size - word)));) {
        text wanted = {0};
        word++;
        text_append_bytes(&wanted, word, strcspn(word, "\n"));
        kernel_find_wanted(op_attention.kernels, &tuned.of.args, text_string(&wanted), &variant);
        text_release(&wanted);
    }
    tuning_cache_destroy(cache);
    return is_good;
}

static const hash_string KEY = {"0123456789abcdef0123456789abcdef"};
static const char KEPT[] = "0123456789abcdef0123456789abcdef.so";
static text object; /* that was kept */

/* An object of some kilobytes, as cc makes them; what is in it does not matter. */
static bool make_kernels(int number, text *out) {
    enum { BYTES = 4096 };
    char *kept;
    size_t size;
    if (number > 0)
        return false;
    rng_stream random = rng_stream_init(1, 1);
    for (uint64_t i = 0; i < BYTES; i++)
        text_append_bytes(&object, &(char){(char)rng_bits(random, i)}, 1);
    require(cache_write_sealed(&KEY, ".so", "attack", object.data, object.length));
    require(cache_read(KEPT, 1 << 20, &kept, &size));
    text_append_bytes(out, kept, size);
    free(kept);
    return true;
}

static bool read_kernels(const char *bytes, size_t size) {
    char *found;
    size_t got;
    put(KEPT, bytes, size);
    if (!cache_read_sealed(&KEY, ".so", &found, &got)) {
        require(!found);
        return false;
    }
    /* Only a mutation that changes nothing is accepted. */
    require(got == object.length && memcmp(found, object.data, got) == 0);
    free(found);
    return true;
}

/* ---- values of flags ---- */

static bool make_flags(int number, text *out) {
    static const char *const settings[] = {"context=128,512",
                                           "context=128:1024:*2",
                                           "context=1:10:+3",
                                           "model=small,xl",
                                           "recompute=every:4",
                                           "recompute=mlp:2,full,nested",
                                           "precision=bf16",
                                           "mode=eager,compiled",
                                           "tiles=64x128",
                                           "tiles=attention_mma:64x64/32x32",
                                           "head-dim=16:64:*2",
                                           "seq=256,1024",
                                           "seconds=0.5",
                                           "memory=32GiB",
                                           "batch=4",
                                           "threads=2",
                                           "pass=step,forward",
                                           "d-model=64",
                                           "warmup=0:3",
                                           "terms=1000",
                                           "breakdown",
                                           "target=h100",
                                           "seed=7",
                                           "impl=flash,naive"};
    if (number >= (int)(sizeof settings / sizeof *settings))
        return false;
    text_append(out, settings[number]);
    return true;
}

static bool read_flags(const char *bytes, size_t size) {
    (void)size;
    const char *given_value = strchr(bytes, '=') ? strchr(bytes, '=') + 1 : bytes;
    step_variant variant;
    int64_t amount;
    is_accepted(attention_tiles_check(given_value));
    is_accepted(units_parse_bytes(given_value, &amount));
    is_accepted(step_variant_parse(NULL, NULL, NULL, given_value, NULL, &variant));
    bool is_good = false;
    for (int i = 0; experiment_at(i); i++) {
        flags *given;
        bool is_taken =
            is_accepted(flags_parse_settings(experiment_at(i)->settings, 1, &bytes, &given));
        require(is_taken == (given != NULL));
        flags_destroy(given);
        is_good = is_good || is_taken;
    }
    return is_good;
}

static const reader READERS[] = {
    {"config", use_directory, read_config, NULL},
    {"safetensors", use_directory, read_safetensors, NULL},
    {"index", use_directory, read_index, NULL},
    {"tokens", use_directory, read_tokens, NULL},
    {"run", use_directory, read_run, NULL},
    {"pytorch", use_directory, read_pytorch_trace, NULL},
    {"nsys", use_directory, read_nsys_trace, NULL},
    {"classes", use_directory, read_classes, make_classes},
    {"tuning", use_tuning, read_tuning, make_tuning},
    {"kernels", use_cache, read_kernels, make_kernels},
    {"flags", use_directory, read_flags, make_flags},
};

const reader *reader_find(const char *name) {
    for (size_t i = 0; i < sizeof READERS / sizeof *READERS; i++)
        if (strcmp(READERS[i].name, name) == 0)
            return &READERS[i];
    return NULL;
}
