/* test_cli_bad_input.c - everything a user can get wrong, and files that lie: an exit code, one
 * message that says what and what to do, and nothing half-written. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "support/command.h"
#include "support/scratch.h"
#include "support/skip.h"

#define GOLDEN DYNO_TEST_DIR "/golden/tiny"
#define SMALL "--d-model 32 --d-ff 64 --layers 1 --heads 2 --vocab 50"

static void unknown_names_suggest_the_nearest(void **state) {
    (void)state;
    dyno_expect(2, "no preset is called 'smal'; did you mean 'small'?", "plan --model smal");
    dyno_expect(2, "no preset is called 'smal'; did you mean 'small'?", "bench --model smal");
    dyno_expect(2, "there are: small, medium, large, xl, 2.7B, 10B", "plan --model small,gpt5");
    dyno_expect(2, "unknown flag '--warmups'; did you mean --warmup?", "bench --warmups 1");
    dyno_expect(2, "unknown flag '--contxt'; did you mean --context?", "plan --contxt 12");
    dyno_expect(2, "unknown flag '--token'; did you mean --tokens?", "step --token x");
    dyno_expect(2, "there is no list 'presetz'; did you mean 'presets'?", "list presetz");
    dyno_expect(2, "there is no pass 'sideways'", "bench --pass sideways");
    dyno_expect(2, "there is no pass 'sideways'", "plan --pass step,sideways");
    dyno_expect(2, "--format: 'jsn' is not one of table|md|csv|json; did you mean 'json'?",
                "plan --format jsn");
}

static void flags_that_would_be_ignored_are_refused(void **state) {
    (void)state;
    dyno_expect(2, "--depth says how deep the tree of scopes is", "profile --by kernel --depth 2");
    dyno_expect(2, "use --by scope, or leave one of them out",
                "profile --from x.json --by op --depth 2");
    dyno_expect(1, "x.json", "profile --from x.json --by scope --depth 2");
    dyno_expect(2, "--top is for tables", "profile --by kernel --top 3 --format csv");
    dyno_expect(2, "--classes is for kernels of other programs", "profile --classes x");
    dyno_expect(2, "--steps is for runs of dyno's own models", "profile --from x.json --steps 3");
    dyno_expect(2, "--peaks is for runs of dyno's", "profile --from x.json --peaks none");
    dyno_expect(2, "--threads is how many threads run a step", "memory --threads 2 " SMALL);
    dyno_expect(2, "--detail is of the tables", "plan --map --detail " SMALL);
    dyno_expect(2, "--format is of the tables", "plan --source --format csv " SMALL);
    dyno_expect(2, "--memory is of the tables", "plan --dump-after build --memory 1GiB " SMALL);
    dyno_expect(2, "--seconds decides how many", "attention --seconds 1 --reps 3");
    dyno_expect(2, "--seconds decides how many", "allreduce --seconds 1 --reps 3");
    dyno_expect(2, "--tiles does not go with --tune", "attention --tune --tiles 64x64");
    dyno_expect(2, "--rounds goes with --run", "compare a b --rounds 3");
    dyno_expect(2, "--plot draws in a terminal", "show x --plot --format csv");
    /* What has an effect is not refused. */
    dyno_expect(1, "x.json", "profile --from x.json --by scope --top 3");
    dyno_expect(1, "x.json", "profile --from x.json --depth 2");
}

static void sizes_that_make_no_model_are_named(void **state) {
    (void)state;
    static const struct {
        const char *flags, *message;
    } cases[] = {
        {"--layers 0", "layers is 0, it must be from 1"},
        {"--layers -3", "layers is -3, it must be from 1"},
        {"--d-model 0", "d_model is 0"},
        {"--d-ff -1", "d_ff is -1"},
        {"--vocab 0", "vocab is 0"},
        {"--kv-heads 0", "kv_heads is 0"},
        {"--head-dim 0", "head_dim is 0"},
        {"--heads 0", "heads is 0"},
        {"--heads 5", "heads is 5, it must divide d_model, which is 768"},
        {"--kv-heads 5", "kv_heads is 5, it must divide heads, which is 12"},
        {"--head-dim 3", "needs it even"},
        {"--d-model 33 --heads 11", "head_dim is 3"},
        {"--d-model 9223372036854775807", "d_model is 9223372036854775807, it must be from 1"},
        {"--layers 99999999999999999999", "--layers: 99999999999999999999 does not fit 64 bits"},
        {"--layers 2.5", "--layers"},
        {"--layers many", "--layers"},
        {"--context 0", "--context: 0 is outside 1 to"},
        {"--context -1", "--context: -1 is outside 1 to"},
        {"--context 8,0", "--context: 0 is outside 1 to"},
        {"--context 9:1", "ends before it starts"},
        {"--context 1:1000000", "the list has over 10000 items"},
        {"--batch 0", "--batch: 0 is outside 1 to"},
        {"--batch 1048576 --context 16777216", "their product at most 2147483647"},
        {"--memory 0", "is outside 1 B to"},
        {"--memory -1", "'-1' is not a size"},
        {"--memory lots", "'lots' is not a size; write it like 32GiB"},
        {"--memory 99999999999GiB", "is outside 1 B to"},
        {"--model ''", "has an empty item"},
        {"--batch 4 --batch 4", "--batch is given twice"},
        {"--batch", "--batch needs a value"},
        {"--device gpu", "there is no device 'gpu'; there are cpu, cuda, cuda:N"},
        {"--device cuda:x", "there is no device 'cuda:x'"},
        {"--recompute mlp:0", "recompute 'mlp:0': the K of every K-th block is '0'"},
        {"--recompute mlp:x", "give a whole number from 1 to 1000000, as in mlp:2"},
        {"--recompute every:-1", "the blocks of a segment are '-1'"},
        {"--recompute mlp:13", "but the model has 12 blocks; give mlp:1"},
        {"--recompute some", "there is no recompute level 'some'; there are none, mlp:K"},
        {"--precision fp8", "--precision: 'fp8' is not one of fp32|tf32|bf16|fp16"},
        {"extra", "unexpected 'extra'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dyno_expect(2, cases[i].message, "plan %s >/dev/null", cases[i].flags);
        dyno_expect(2, cases[i].message, "bench %s >/dev/null", cases[i].flags);
    }
    dyno_expect(2, "--steps: 0 is outside 1 to", "bench --steps 0");
    dyno_expect(2, "--warmup: -1 is outside 0 to", "bench --warmup -1");
    dyno_expect(2, "--threads: -1 is outside 0 to", "bench --threads -1");
    dyno_expect(2, "--seed: -1 is outside 0 to", "bench --seed -1");
    dyno_expect(1, "precision tf32 is of GPUs", "bench " SMALL " --device cpu --precision tf32");
    dyno_expect(1, "use --precision fp32 or bf16", "plan --device cpu --precision tf32");
    dyno_expect(0, "use --precision fp32 or bf16", "plan --device cpu --precision fp32,tf32");
    dyno_expect(2, "there is no device 'gpu'", "attention --device gpu");
    dyno_expect(2, "there is no device 'gpu'",
                "step --device gpu --load " GOLDEN " --tokens " GOLDEN
                "/tokens.bin --batch 2 --context 16 --out /dev/null");
    dyno_expect(2, "layers is 0", "init --layers 0 --out /nowhere");
    dyno_expect(2, "--out is required", "init");
    dyno_expect(2, "--model and --config both name a model",
                "plan --model small --config " GOLDEN "/config.json");
}

static void output_that_cannot_be_written_is_found_before_the_work(void **state) {
    (void)state;
    dyno_expect(1, "cannot make the output directory '/proc/none'",
                "bench " SMALL " --out /proc/none");
    dyno_expect(1, "cannot make the output directory '/proc/none'", "plan --out /proc/none");
    dyno_expect(1, "cannot make the output directory '/proc/none'",
                "init " SMALL " --out /proc/none");
    dyno_expect(1, "Not a directory", "bench " SMALL " --out " GOLDEN "/config.json");
    dyno_expect(1, "cannot write '/nowhere/out'",
                "step --load " GOLDEN " --tokens " GOLDEN
                "/tokens.bin --batch 2 --context 16 --out /nowhere/out");
    dyno_expect(2, "it is a directory",
                "step --load " GOLDEN " --tokens " GOLDEN
                "/tokens.bin --batch 2 --context 16 --out /tmp");
}

static void a_full_disk_is_a_failure(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        SKIP_BECAUSE("there is no /dev/full");
    static const char *const commands[] = {
        "list", "plan --format json", "bench " SMALL " --context 4 --pass forward --steps 1",
        "step --load " GOLDEN " --tokens " GOLDEN "/tokens.bin --batch 2 --context 16 --out "
        "/dev/null"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        dyno_expect(1, "dyno: writing to standard output: ", "%s >/dev/full", commands[i]);
    dyno_expect(1, "writing '/dev/full': No space left on device",
                "step --load " GOLDEN " --tokens " GOLDEN
                "/tokens.bin --batch 2 --context 16 --out /dev/full");
    dyno_expect(1, "'/dev/full'", "bench " SMALL " --out /dev/full");
}

static void runs_that_are_damaged_are_not_shown(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path file = scratch_join(&made, "run.json");
    char *whole;
    size_t size;
    dyno_expect(0, "", "plan " SMALL " --out %s >/dev/null", made.path);
    assert_int_equal(file_read_all(file.text, 1 << 20, &whole, &size), DYNO_OK);
    dyno_expect(0, "", "show %s", made.path);
    static const struct {
        const char *content, *message;
    } cases[] = {{"", "is not valid JSON"},
                 {"{", "is not valid JSON"},
                 {"[]", "run.json"},
                 {"{}", "run.json"},
                 {"{\"a\": 1, \"a\": 2}", "is not valid JSON"},
                 {"{\"format\": \"bench\"}", "is not a run of dyno"},
                 {"{\"format\": \"dyno-run\", \"version\": 99}", "version"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write(&made, "run.json", cases[i].content, strlen(cases[i].content));
        dyno_expect(1, cases[i].message, "show %s >/dev/null", made.path);
    }
    size_t end = size - 1; /* the newline, without which it is still whole */
    assert_int_equal(whole[end], '\n');
    for (size_t cut = 1; cut < end; cut += size / 7) { /* a file is never half of one */
        scratch_write(&made, "run.json", whole, cut);
        dyno_expect(1, "is not valid JSON", "show %s >/dev/null", made.path);
    }
    free(whole);
    assert_int_equal(unlink(file.text), 0);
    dyno_expect(1, "has no run.json", "show %s", made.path);
    dyno_expect(1, "cannot open '/nowhere'", "show /nowhere");
    scratch_remove(&made);
}

/* A copy of a golden case with one file replaced, and a directory for output that must stay
 * empty. */
typedef struct damaged {
    scratch model, output;
} damaged;

static const char *const files[] = {"config.json", "model.safetensors", "tokens.bin"};

static damaged damaged_create(void) {
    damaged d = {scratch_create(), scratch_create()};
    for (int i = 0; i < 3; i++) {
        char path[600], *bytes;
        size_t size;
        snprintf(path, sizeof path, GOLDEN "/%s", files[i]);
        assert_int_equal(file_read_all(path, 1 << 24, &bytes, &size), DYNO_OK);
        scratch_write(&d.model, files[i], bytes, size);
        free(bytes);
    }
    return d;
}

static void damaged_remove(damaged *d) {
    assert_int_equal(scratch_count(d->output.path), 0);
    scratch_remove(&d->model);
    scratch_remove(&d->output);
}

static void expect_step(const damaged *d, int code, const char *message) {
    dyno_expect(code, message,
                "step --load %s --tokens %s/tokens.bin --batch 2 --context 16 --steps 5 "
                "--dump logits,loss,gradients,weights --out %s/out --save %s/saved >/dev/null",
                d->model.path, d->model.path, d->output.path, d->output.path);
}

/* The bytes of a file of the copy (free). */
static char *content(const damaged *d, const char *name, size_t *size) {
    char *bytes;
    assert_int_equal(file_read_all(scratch_join(&d->model, name).text, 1 << 24, &bytes, size),
                     DYNO_OK);
    return bytes;
}

/* Replaces the first `from` in a file by a text of the same length. */
static void replace(const damaged *d, const char *name, const char *from, const char *to) {
    size_t size;
    char *bytes = content(d, name, &size), *at = memmem(bytes, size, from, strlen(from));
    assert_int_equal(strlen(from), strlen(to));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    scratch_write(&d->model, name, bytes, size);
    free(bytes);
}

static void a_model_that_is_not_there_is_named(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        damaged d = damaged_create();
        assert_int_equal(unlink(scratch_join(&d.model, files[i]).text), 0);
        expect_step(&d, 1, i == 1 ? "safetensors" : files[i]);
        damaged_remove(&d);
    }
}

static void weights_that_lie_are_refused(void **state) {
    (void)state;
    damaged d = damaged_create();
    size_t size;
    char *whole = content(&d, "model.safetensors", &size);
    static const double parts[] = {0, 0.0001, 0.01, 0.5, 0.99};
    for (int i = 0; i < 5; i++) { /* cut short anywhere */
        scratch_write(&d.model, "model.safetensors", whole, (size_t)((double)size * parts[i]));
        expect_step(&d, 1, "model.safetensors");
    }
    memcpy(whole, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8); /* a header longer than any file */
    scratch_write(&d.model, "model.safetensors", whole, size);
    expect_step(&d, 1, "model.safetensors");
    memset(whole, 0, 8);
    scratch_write(&d.model, "model.safetensors", whole, size);
    expect_step(&d, 1, "model.safetensors");
    free(whole);
    damaged_remove(&d);
    d = damaged_create();
    replace(&d, "model.safetensors", "lm_head.weight", "lm_hand.weight");
    expect_step(&d, 1, "lm_h");
    damaged_remove(&d);
}

static void a_configuration_that_does_not_fit_the_weights_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *content;
        int code;
        const char *message;
    } cases[] = {{"", 1, "config.json"},
                 {"{}", 1, "config.json"},
                 {"{\"model_type\": \"gpt2\"}", 1, "config.json"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        damaged d = damaged_create();
        scratch_write(&d.model, "config.json", cases[i].content, strlen(cases[i].content));
        expect_step(&d, cases[i].code, cases[i].message);
        damaged_remove(&d);
    }
    damaged d = damaged_create();
    /* Another vocabulary: embedding and head misfit. */
    replace(&d, "config.json", "\"vocab_size\": 9", "\"vocab_size\": 8");
    expect_step(&d, 1, "model.embed_tokens.weight");
    damaged_remove(&d);
}

static void tokens_that_do_not_fit_are_refused(void **state) {
    (void)state;
    damaged d = damaged_create();
    size_t size;
    char *ids = content(&d, "tokens.bin", &size);
    scratch_write(&d.model, "tokens.bin", ids, size - 1);
    expect_step(&d, 1, "no whole number of tokens of 2 bytes");
    scratch_write(&d.model, "tokens.bin", ids, size - 2);
    expect_step(&d, 2, "need 161 (one more for the last target)");
    scratch_write(&d.model, "tokens.bin", ids, 0);
    expect_step(&d, 2, "holds 0 tokens");
    ids[size - 1] = 0x7f; /* only the last step meets it */
    scratch_write(&d.model, "tokens.bin", ids, size);
    expect_step(&d, 1, "token 160 is 32");
    free(ids);
    damaged_remove(&d);
}

static void flags_of_step_are_checked(void **state) {
    (void)state;
#define STEP "step --load " GOLDEN " --tokens " GOLDEN "/tokens.bin --batch 2 --context 16 "
    dyno_expect(2, "--token-bytes is 3; it must be 2 or 4", STEP "--token-bytes 3 --out x");
    dyno_expect(2, "--token-bytes: 8 is outside 2 to 4", STEP "--token-bytes 8 --out x");
    dyno_expect(2, "--load is required", "step");
    dyno_expect(2, "--tokens is required", "step --load " GOLDEN);
    dyno_expect(2, "--out is required", STEP);
    dyno_expect(2, "--lr: 'nan' is not a number", STEP "--lr nan --out x");
    dyno_expect(2, "--lr: -1 is outside 0 to", STEP "--lr -1 --out x");
    /* What is asked for and cannot be is an error: no other way is taken in its place. */
    dyno_expect(2, "attention flash in mode eager", STEP "--out /dev/null --attention flash");
    dyno_expect(2, "recompute every:2: segments of 2", STEP "--out /dev/null --recompute every:2");
    dyno_expect(2, "'everything' is not one of logits|loss|gradients|weights",
                STEP "--dump everything --out x");
    dyno_expect(1, "use a smaller batch or context", STEP "--memory 1KiB --out x");
#undef STEP
}

/* $'...' is bash's; printf in a substitution is every shell's. */
static void what_a_message_quotes_is_escaped(void **state) {
    (void)state;
#define EVIL "\"$(printf 'no\\033[2J\\302\\233such')\""
    dyno_expect(1, "no\\x1b[2J\\u009bsuch", "show " EVIL);
    dyno_expect(1, "no\\x1b[2J\\u009bsuch", "plan --config " EVIL);
    dyno_expect(1, "no\\x1b[2J\\u009bsuch",
                "step --tokens " GOLDEN "/tokens.bin --batch 1 --context 8 --out x --load " EVIL);
    dyno_expect(2, "no\\x1b[2J\\u009bsuch", EVIL);
    dyno_expect(2, "no\\x1b[2J\\u009bsuch", "plan " EVIL);
    dyno_expect(2, "no\\x1b[2J\\u009bsuch", "plan --context " EVIL);
    dyno_expect(2, "no\\x1b[2J\\u009bsuch", "list " EVIL);
    scratch dir = scratch_create();
    dyno_expect(0, "/m\\x1b[2J", "init " SMALL " --out \"%s/$(printf 'm\\033[2J')\"", dir.path);
    static const char config[] = "{\"model_type\": \"\\u001b[2J\\u009b\\u202e\"}";
    scratch_write(&dir, "config.json", config, sizeof config - 1);
    text output = {0};
    assert_int_equal(dyno_run(&output, "plan --config %s/config.json", dir.path), 1);
    assert_non_null(strstr(text_string(&output), "[2J"));
    assert_null(strpbrk(text_string(&output), "\033\302\342"));
    text_release(&output);
    scratch_remove(&dir);
#undef EVIL
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_suggest_the_nearest),
        cmocka_unit_test(flags_that_would_be_ignored_are_refused),
        cmocka_unit_test(sizes_that_make_no_model_are_named),
        cmocka_unit_test(output_that_cannot_be_written_is_found_before_the_work),
        cmocka_unit_test(a_full_disk_is_a_failure),
        cmocka_unit_test(runs_that_are_damaged_are_not_shown),
        cmocka_unit_test(a_model_that_is_not_there_is_named),
        cmocka_unit_test(weights_that_lie_are_refused),
        cmocka_unit_test(a_configuration_that_does_not_fit_the_weights_is_refused),
        cmocka_unit_test(tokens_that_do_not_fit_are_refused),
        cmocka_unit_test(flags_of_step_are_checked),
        cmocka_unit_test(what_a_message_quotes_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
