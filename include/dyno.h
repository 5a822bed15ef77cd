/* dyno.h - the public interface of libdyno: builds, plans, trains and measures
 * decoder-only Transformers.
 *
 * Functions that can fail return a dyno_status; dyno_error_message() then says what was
 * attempted, the value found, the limit and the way out. Types are opaque. */
#ifndef DYNO_H
#define DYNO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dyno_status {
    DYNO_OK = 0,
    DYNO_INVALID,       /* a value the caller gave is wrong: usage */
    DYNO_UNSUPPORTED,   /* well-formed, but nothing here can do it */
    DYNO_NOT_FOUND,     /* a file, tensor or name that is not there */
    DYNO_CORRUPT,       /* a file that contradicts its own format */
    DYNO_IO,            /* the operating system refused to read or write */
    DYNO_OUT_OF_MEMORY, /* needs more memory than there is */
    DYNO_INTERRUPTED,   /* the user asked to stop; what was done so far is kept */
    DYNO_DEVICE_FAILED  /* a GPU or its driver failed; what lies in its memory may be lost */
} dyno_status;

/* "0.1.0". */
const char *dyno_version(void);

/* The message of the last failure on this thread; "" if there was none. */
const char *dyno_error_message(void);

/* Threads used from now on by everything; 0: every core the process may run on. */
void dyno_set_threads(int count);

/* ---- models: sizes, no weights ---- */

typedef struct dyno_model dyno_model;

/* A preset ("small", ... "10B"), or a Hugging Face Llama config.json. On success *out belongs to
 * the caller; on failure it is NULL. */
dyno_status dyno_model_from_preset(const char *name, dyno_model **out);
dyno_status dyno_model_from_config(const char *path, dyno_model **out);
void dyno_model_destroy(dyno_model *model);
int64_t dyno_model_parameters(const dyno_model *model);
int64_t dyno_model_vocabulary(const dyno_model *model);

/* ---- planning: what a step takes, without running it ---- */

typedef enum dyno_pass { DYNO_FORWARD, DYNO_FORWARD_BACKWARD, DYNO_STEP } dyno_pass;

typedef struct dyno_cost {
    int64_t launches;
    double flops;
    int64_t peak_bytes;     /* most bytes alive at once */
    int64_t reserved_bytes; /* what the allocator holds for it */
} dyno_cost;

dyno_status dyno_model_plan(const dyno_model *model, dyno_pass pass, int64_t batch, int64_t context,
                            dyno_cost *out);

/* ---- training ---- */

typedef struct dyno_trainer dyno_trainer;

typedef struct dyno_training {
    int64_t batch, context;
    double beta1, beta2, eps, weight_decay; /* AdamW */
    double clip_norm;                       /* of the gradients; 0: no limit */
    const char *device; /* "cpu", "cuda", "cuda:N", or "auto": a GPU if there is one; NULL: "cpu" */
} dyno_training;

/* Batch 4, context 128, betas 0.9 and 0.95, eps 1e-8, weight decay 0.1, no clipping, on the
 * CPU. */
dyno_training dyno_training_default(void);

/* Freshly drawn weights, or those of a Hugging Face directory. */
dyno_status dyno_trainer_create(const dyno_model *model, uint64_t seed,
                                const dyno_training *options, dyno_trainer **out);
dyno_status dyno_trainer_load(const char *directory, const dyno_training *options,
                              dyno_trainer **out);
void dyno_trainer_destroy(dyno_trainer *trainer);

/* One step on batch*context token ids and as many targets; *loss is their mean before it. */
dyno_status dyno_trainer_step(dyno_trainer *trainer, const int32_t *tokens, const int32_t *targets,
                              double learning_rate, float *loss);
/* Writes a Hugging Face directory. */
dyno_status dyno_trainer_save(const dyno_trainer *trainer, const char *directory);

#ifdef __cplusplus
}
#endif
#endif
