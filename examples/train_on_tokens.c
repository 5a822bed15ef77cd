/* train_on_tokens.c - trains a small model on a file of token ids and saves it.
 *
 *     train_on_tokens [TOKENS [DIRECTORY]]
 *
 * TOKENS is a raw file of 16-bit token ids below 256; without it the program makes up a text that
 * can be learned. DIRECTORY becomes a Hugging Face model. */
#include <dyno.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 4, CONTEXT = 32, ROWS = BATCH * CONTEXT, STEPS = 40, VOCABULARY = 256 };

static int fail(dyno_status status) {
    fprintf(stderr, "train_on_tokens: %s: %s\n", dyno_status_name(status), dyno_error_message());
    return 1;
}

/* ROWS inputs and, one further, as many targets: those of step k, or a made-up text. */
static dyno_status read_ids(const dyno_tokens *source, int step, int32_t *ids) {
    if (!source) {
        for (int i = 0; i <= ROWS; i++)
            ids[i] = (i * 7 + step) % 31;
        return DYNO_OK;
    }
    int64_t parts = (dyno_tokens_count(source) - 1) / ROWS;
    int64_t start = parts > 0 ? step % parts * ROWS : 0;
    return dyno_tokens_read(source, start, ROWS + 1, VOCABULARY, ids);
}

static dyno_status train(dyno_trainer *trainer, const dyno_tokens *source) {
    int32_t ids[ROWS + 1];
    float loss;
    for (int step = 0; step < STEPS; step++) {
        dyno_status status = read_ids(source, step, ids);
        if (status == DYNO_OK)
            status = dyno_trainer_step(trainer, ids, ids + 1, 3e-3, &loss);
        if (status != DYNO_OK)
            return status;
        if (step % 10 == 0)
            printf("step %2d  loss %.4f\n", step, (double)loss);
    }
    dyno_status status = dyno_trainer_evaluate(trainer, ids, ids + 1, &loss, NULL);
    if (status == DYNO_OK)
        printf("after %d steps the loss is %.4f\n", STEPS, (double)loss);
    return status;
}

int main(int argc, char **argv) {
    dyno_model_options sizes = {.size = sizeof sizes,
                                .d_model = 64,
                                .d_ff = 128,
                                .layers = 2,
                                .heads = 4,
                                .vocab = VOCABULARY};
    dyno_trainer_options options = {
        .size = sizeof options, .batch = BATCH, .context = CONTEXT, .clip_norm = 1};
    dyno_model *model = NULL;
    dyno_trainer *trainer = NULL;
    dyno_tokens *source = NULL;

    dyno_status status = dyno_model_create(&sizes, &model);
    if (status == DYNO_OK && argc > 1)
        status = dyno_tokens_open(argv[1], 2, &source);
    if (status == DYNO_OK)
        status = dyno_trainer_create(model, 1, &options, &trainer);
    if (status == DYNO_OK)
        status = train(trainer, source);
    if (status == DYNO_OK && argc > 2)
        status = dyno_trainer_save(trainer, argv[2]);
    int exit_code = status == DYNO_OK ? 0 : fail(status);
    dyno_trainer_destroy(trainer);
    dyno_tokens_close(source);
    dyno_model_destroy(model);
    return exit_code;
}
