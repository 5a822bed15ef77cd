/* dyno.h - the public interface of libdyno: builds, plans, trains and measures
 * decoder-only Transformers. The command line is made of these functions; docs/library.md shows
 * them at work.
 *
 * Failures. Functions that can fail return a dyno_status; dyno_error_message() then says what was
 * attempted, the value found, the limit and the way out. A pointer that is NULL is DYNO_INVALID and
 * named, unless it is said here that it may be NULL. After a failure every `*out` is NULL, unless
 * something else is said. Functions that cannot fail answer NULL with 0 or NULL.
 *
 * Options. Every options struct begins with its size: {.size = sizeof options, ...}. A field that
 * is 0 or NULL takes its default. A program that was compiled with an older, smaller struct keeps
 * working: what it does not have takes the default. One that was compiled with a larger struct
 * works as long as it leaves what this library does not know at 0, and else gets DYNO_UNSUPPORTED.
 * A size of 0 is DYNO_INVALID. Words ("compiled", "every:4") are those of the command line.
 *
 * Texts. A `const char *` belongs to the object it was asked of, or to the library. A text that
 * comes through a `char **out` belongs to the caller, who frees it with dyno_text_free.
 *
 * Files that are read must be regular files: a pipe, a device, a socket or a directory is
 * DYNO_INVALID at once, because reading it could block for ever.
 *
 * Threads. An object is for one thread at a time; messages are kept for each thread. */
#ifndef DYNO_H
#define DYNO_H

#include <stdbool.h>
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
    DYNO_DEVICE_FAILED, /* a GPU or its driver failed; what lies in its memory may be lost */
    DYNO_NOT_FINITE,    /* a loss, gradient or weight is NaN or infinite */
    DYNO_RANK_FAILED    /* another rank died, is stopped or failed; the message names it */
} dyno_status;

/* "device failed", for a message. */
const char *dyno_status_name(dyno_status status);

/* The message of the last failure on this thread; "" after a function that succeeded; functions that
 * return no status leave it as it is. It is fit for a terminal: control characters of what it quotes
 * are escapes, \x1b. */
const char *dyno_error_message(void);

/* "0.1.0". */
const char *dyno_version(void);

/* NULL is allowed. */
void dyno_text_free(char *text);

/* Threads used from now on by everything, up to 4096; 0: every core the process may run on. */
dyno_status dyno_set_threads(int count);

/* ---- names of what there is; NULL behind the last ---- */

const char *dyno_preset_name(int index);
const char *dyno_target_name(int index);     /* chips that can be planned for without one */
const char *dyno_experiment_name(int index); /* see dyno_experiment_run */
const char *dyno_suite_name(int index);      /* see dyno_suite_open */
const char *dyno_formats(void);              /* "table|md|csv|json" */

/* How tables are printed. */
typedef struct dyno_render_options {
    size_t size;
    const char *format; /* NULL: what the experiment's settings say, else "table" */
    bool is_bold;       /* headers, by escape codes of terminals; format table */
    bool has_plots;     /* also curves and bars; format table */
    /* Of the terminal, format table: settings that are the same in every row move above the table, the
     * least important columns that do not fit are left out and named, and lines are wrapped. 0: every
     * column in one line, however wide; so does a record whose settings have "wide". */
    int64_t columns;
} dyno_render_options;

/* A table of "presets", "ops", "kernels", "targets" or "suites", or of all where `what` is NULL. `options`
 * may be NULL. */
dyno_status dyno_list(const char *what, const dyno_render_options *options, char **out);

/* ---- models: sizes, no weights ---- */

enum { DYNO_MAX_RANK = 6 };

/* What a tensor is called and how large it is; outermost dimension first, rank 0 is one number. */
typedef struct dyno_tensor {
    const char *name;
    int rank;
    int64_t shape[DYNO_MAX_RANK];
} dyno_tensor;

typedef struct dyno_model dyno_model;

typedef struct dyno_model_options {
    size_t size;
    const char *preset; /* "small", ... "10B"; NULL: "small", unless there is a config */
    const char *config; /* the path of a Hugging Face Llama config.json, in place of a preset */
    /* What differs. With another d_model or heads, kv_heads and head_dim follow unless given. */
    int64_t d_model, d_ff, layers, heads, kv_heads, head_dim, vocab;
} dyno_model_options;

dyno_status dyno_model_create(const dyno_model_options *options, dyno_model **out);
void dyno_model_destroy(dyno_model *model);
/* "small", or with what differs from it: "small, vocab 256". */
const char *dyno_model_name(const dyno_model *model);
int64_t dyno_model_vocabulary(const dyno_model *model);
int64_t dyno_model_elements(const dyno_model *model); /* of all parameters together */

/* Parameters by index, in the order of the forward pass, by Hugging Face's names. */
int dyno_model_parameter_count(const dyno_model *model);
dyno_status dyno_model_parameter(const dyno_model *model, int index, dyno_tensor *out);

/* How models and files of tensors are written. Nothing is ever half-written: everything is on the
 * disk before the first name changes. */
typedef struct dyno_save_options {
    size_t size;
    bool replaces;    /* what is there; without it that is DYNO_INVALID */
    const char *note; /* kept in the file's metadata as "note"; NULL: none */
} dyno_save_options;

/* Draws the weights and writes them as a Hugging Face directory, one parameter after the other: the
 * model need not fit the memory. The same seed gives the same weights everywhere. A model that is
 * there is replaced. */
dyno_status dyno_model_save(const dyno_model *model, uint64_t seed, const char *directory);
dyno_status dyno_model_save_as(const dyno_model *model, uint64_t seed, const char *directory,
                               const dyno_save_options *options);
/* Fails where saving to the directory would, before hours of training: it cannot be made or written
 * in, or something would be replaced that must not be. `loaded` is the directory of the model that
 * will be saved, or NULL. Changes nothing. */
dyno_status dyno_save_check(const char *directory, const char *loaded,
                            const dyno_save_options *options);
/* Whether saving a model may write a file of this name in its directory. */
bool dyno_save_writes(const char *name);

/* ---- planning: what a step takes, without running it ---- */

typedef struct dyno_plan dyno_plan;

typedef struct dyno_plan_options {
    size_t size;
    const char *extent;     /* "forward", "forward+backward", "step"; NULL: "step" */
    int64_t batch, context; /* 0: 4 sequences of 128 tokens */
    const char *mode;       /* "eager", "compiled"; NULL: "eager" */
    const char *precision;  /* of products: "fp32", "tf32", "bf16", "fp16"; NULL: "fp32" */
    /* "flash" is of compiled mode and of head sizes up to 256; NULL: "flash" there, else "naive". */
    const char *attention;
    const char *recompute; /* "none", "mlp:K", "every:K", "full", "nested"; NULL: "none" */
    const char *gradients; /* of weights, compiled: "low", "fp32"; NULL: "low"; eager: fp32 */
    const char *target;    /* a chip that need not be here, in place of a device */
    const char *device;    /* "cpu", "cuda", "cuda:N", "auto"; NULL: "auto" */
    int64_t accumulate;    /* micro-batches of a step; 0: 1 */
    const char *parallel;  /* as in dyno_trainer_options; NULL: "ddp-bucket:25" */
    int64_t ranks;         /* that take the step together, of which it is that of one; 0: 1 */
} dyno_plan_options;

typedef struct dyno_cost {
    size_t size; /* set by the caller, as in options */
    int64_t launches;
    double flops;
    double bytes_read, bytes_written;
    int64_t peak_bytes;     /* most bytes alive at once */
    int64_t reserved_bytes; /* what the allocator holds for it: what has to fit */
    /* The model's own arithmetic, which is the same for every mode, attention and recompute: 2 M N K
     * for each product, causal attention half, the backward twice the forward. MFU is this over
     * time and peak, HFU `flops`. */
    double model_flops;
} dyno_cost;

dyno_status dyno_plan_create(const dyno_model *model, const dyno_plan_options *options,
                             dyno_plan **out);
void dyno_plan_destroy(dyno_plan *p);
dyno_status dyno_plan_cost(const dyno_plan *p, dyno_cost *out);
/* Whether the step fits. *advice is the cheapest change that makes it fit, as flags of the command
 * line, and "" where it fits; `advice` may be NULL. */
dyno_status dyno_plan_fits(const dyno_plan *p, int64_t memory_bytes, bool *fits, char **advice);
/* Launches and buffers, for people; the kernels generated for it, "" in eager mode. */
dyno_status dyno_plan_text(const dyno_plan *p, char **out);
dyno_status dyno_plan_source(const dyno_plan *p, char **out);

/* ---- training ---- */

typedef struct dyno_trainer dyno_trainer;

/* All of it counts, zeros too; only what a smaller size leaves out takes its default. */
typedef struct dyno_adamw {
    size_t size;
    double beta1, beta2, eps, weight_decay;
} dyno_adamw;

typedef struct dyno_trainer_options {
    size_t size;
    int64_t batch, context; /* this and the next five as in dyno_plan_options */
    const char *mode;
    const char *precision;
    const char *attention;
    const char *recompute;
    const char *gradients;
    const char *device;      /* "cpu", "cuda", "cuda:N", "auto"; NULL: "auto" */
    int64_t memory_bytes;    /* what it may use; 0: what the device has free */
    const dyno_adamw *adamw; /* NULL: betas 0.9 and 0.95, eps 1e-8, weight decay 0.1 */
    double clip_norm;        /* limit of the gradients' global norm; 0: no limit */
    bool keeps_logits;       /* of the last step, for dyno_trainer_read */
    bool keeps_gradients;    /* likewise, before clipping */
    const char *target;      /* "avx2": runs on the CPU with this target's instruction sets only */
    /* What a step does whose loss or gradients are NaN or infinite; NULL: "stop".
     * "stop":   it is DYNO_NOT_FINITE, and the message names the first tensor that is not finite.
     *           Gradients that are not while the loss is show when the next step's loss is not, or
     *           in dyno_trainer_check; with clip_norm or in fp16 at once. The weights that are left
     *           are not to be used, unless dyno_trainer_check succeeds.
     * "skip":   it changes nothing, and dyno_trainer_skipped says so. Takes the gradients' norm.
     * "ignore": it is applied.
     * Weights that hold such numbers when they are loaded or saved are DYNO_NOT_FINITE, unless it is
     * "ignore". */
    const char *on_nan;
    /* Micro-batches of a step; 0: 1. Each is of batch x context tokens, they are computed one after
     * another, and the step is that of their mean. A step then takes accumulate x batch sequences. */
    int64_t accumulate;
    /* How the ranks of this job (dyno_rank) take steps together: "ddp-naive", "ddp-flat",
     * "ddp-overlap", "ddp-bucket:MB", "zero1", "fsdp" (docs/parallel.md). NULL: this process trains by itself.
     * Otherwise every rank makes a trainer with the same options, gives it its own part of the data
     * and takes the same steps; the loss and the weights are those of one process that accumulates
     * ranks x accumulate micro-batches, of which rank r computes the r-th accumulate ones. */
    const char *parallel;
    double timeout_s; /* how long a rank that does nothing is waited for; 0: 30 */
    const char
        *reduce; /* the type in which ranks send gradients: "fp32", "bf16", "fp16"; NULL: "fp32" */
} dyno_trainer_options;

/* Freshly drawn weights, or those of a Hugging Face directory. */
dyno_status dyno_trainer_create(const dyno_model *model, uint64_t seed,
                                const dyno_trainer_options *options, dyno_trainer **out);
dyno_status dyno_trainer_load(const char *directory, const dyno_trainer_options *options,
                              dyno_trainer **out);
void dyno_trainer_destroy(dyno_trainer *t);
const dyno_model *dyno_trainer_model(const dyno_trainer *t); /* the trainer's own */

/* One step of AdamW on accumulate*batch*context token ids and as many targets; *loss is their mean before it.
 * In fp16 a step whose gradients overflow changes nothing but the scale of the loss. */
dyno_status dyno_trainer_step(dyno_trainer *t, const int32_t *tokens, const int32_t *targets,
                              double learning_rate, float *loss);
/* The same in parts, for a host that has something to do while a GPU computes: the data of the next
 * step may be given between start and finish. */
dyno_status dyno_trainer_give(dyno_trainer *t, const int32_t *tokens, const int32_t *targets);
dyno_status dyno_trainer_start(dyno_trainer *t, double learning_rate);
dyno_status dyno_trainer_finish(dyno_trainer *t, float *loss);

/* Whether the last step changed nothing because its loss or gradients were not finite, as on_nan
 * "skip" has it. Overflows in fp16 that lower the scale of the loss are not counted. */
bool dyno_trainer_skipped(const dyno_trainer *t);
/* DYNO_NOT_FINITE where a weight is not finite, with its name. */
dyno_status dyno_trainer_check(const dyno_trainer *t);

/* The forward pass alone, which changes no weight: the mean loss and, unless `logits` is NULL,
 * batch*context*vocabulary logits. Data that was given for a step has to be given again. */
dyno_status dyno_trainer_evaluate(dyno_trainer *t, const int32_t *tokens, const int32_t *targets,
                                  float *loss, float *logits);

/* All `count` elements of a parameter, or of the last step "loss" and, where they are kept, "logits"
 * [batch*context, vocabulary] and "g.NAME", the gradient of parameter NAME (in fp16 that of the
 * scaled loss). Only parameters can be written. */
dyno_status dyno_trainer_read(const dyno_trainer *t, const char *name, float *to, int64_t count);
dyno_status dyno_trainer_write(dyno_trainer *t, const char *name, const float *from, int64_t count);
/* Writes the weights, in f32, as a Hugging Face directory. What was loaded beside them is carried
 * over: config.json as it was but for the type of the weights, generation_config.json, and the files
 * of the tokenizer and its chat template. A model that is there is replaced, be it the one that was
 * loaded. Of several ranks all call it, and rank 0 writes; likewise they all read and check weights. */
dyno_status dyno_trainer_save(const dyno_trainer *t, const char *directory);
dyno_status dyno_trainer_save_as(const dyno_trainer *t, const char *directory,
                                 const dyno_save_options *options);
/* What of the directory it was loaded from will not be carried over, and why; "" when there is
 * nothing of the kind. */
const char *dyno_trainer_left_out(const dyno_trainer *t);

/* ---- files of tokens and of tensors ---- */

/* A raw file of little-endian 16- or 32-bit token ids, as numpy's tofile writes it. */
typedef struct dyno_tokens dyno_tokens;

dyno_status dyno_tokens_open(const char *path, int token_bytes, dyno_tokens **out);
void dyno_tokens_close(dyno_tokens *source);
int64_t dyno_tokens_count(const dyno_tokens *source);
/* `count` ids from `start` on. Past the end: DYNO_INVALID. An id outside the vocabulary:
 * DYNO_CORRUPT with its position; `ids` then holds anything. Several threads may read. */
dyno_status dyno_tokens_read(const dyno_tokens *source, int64_t start, int64_t count,
                             int64_t vocabulary, int32_t *ids);

/* A safetensors file of f32 tensors. It appears under its name when it is committed, whole, or
 * never; dyno_tensor_file_create replaces what is there. */
typedef struct dyno_tensor_file dyno_tensor_file;

dyno_status dyno_tensor_file_create(const char *path, const dyno_tensor *tensors, int count,
                                    dyno_tensor_file **out);
dyno_status dyno_tensor_file_create_as(const char *path, const dyno_tensor *tensors, int count,
                                       const dyno_save_options *options, dyno_tensor_file **out);
/* Other tensors, and another note, than the file was created with, for one that ends earlier than it
 * was meant to. What was appended stays and is the beginning of their elements. On failure the file
 * is as it was. */
dyno_status dyno_tensor_file_redeclare(dyno_tensor_file *file, const dyno_tensor *tensors,
                                       int count, const char *note);
/* The next elements, in the order of the tensors, in parts of any size. */
dyno_status dyno_tensor_file_append(dyno_tensor_file *file, const float *from, int64_t count);
/* Both take the file, whether they succeed or not; NULL may be abandoned. */
dyno_status dyno_tensor_file_commit(dyno_tensor_file *file);
void dyno_tensor_file_abandon(dyno_tensor_file *file);

/* ---- ranks: processes that work together (docs/ranks.md) ---- */

typedef struct dyno_ranks_options {
    size_t size;
    int ranks;                    /* 1 to 1024 */
    const char *program;          /* a path; NULL: this program */
    const char *const *arguments; /* its argv, NULL behind the last */
    double timeout_s;             /* for ranks to end once one has failed; 0: 30 */
} dyno_ranks_options;

/* Starts as many copies of a program on this host, each of which is one rank of a job, and waits until
 * all have ended. *exit_code is 0 when all ended so, else that of the first failure. A rank that fails
 * ends the others. DYNO_RANK_FAILED names the rank, its host and what it was doing, where no rank has
 * reported that itself. SIGINT, SIGTERM and SIGHUP that this process gets meanwhile are passed on to
 * rank 0. On failure *exit_code is not 0. */
dyno_status dyno_ranks_start(const dyno_ranks_options *options, int *exit_code);
/* Which rank of how many this process is, as dyno_ranks_start, mpirun or srun have told it; 0 of 1 for
 * any other. */
dyno_status dyno_rank(int *rank, int *count);
/* Of the ranks of a host that end with the same failure one is to report it: true for the first that
 * asks, and for a process that is alone. */
bool dyno_rank_reports(void);
/* Whether any rank says so: every rank of the job asks, and all get the same answer. For what they do
 * together or not at all, such as going on after a signal that one of them got. */
dyno_status dyno_ranks_agree(bool mine, bool *any);

/* ---- experiments ---- */

/* What an experiment found out: the record of every sample that run.json holds. */
typedef struct dyno_results dyno_results;

typedef struct dyno_experiment_options {
    size_t size;
    const char *name; /* "bench", "attention", "allreduce", "plan", "precision", "doctor" */
    /* Each "name=value", or "name" for a switch: "context=128,512", "breakdown". With "out=DIR" the
     * record is also kept in DIR/run.json, after every cell and marked incomplete until the end. A
     * record that is there is not replaced by less (docs/run-json.md) unless "force" is among the
     * settings. dyno_experiment_help lists them. */
    const char *const *settings;
    int setting_count;
    /* Or, in place of settings, what a user types after the verb: "--context", "128,512". */
    const char *const *arguments;
    int argument_count;
    void *caller; /* handed to the functions below, each of which may be NULL */
    /* Work done of the work in all, in a unit of its own; `label` says what is being done. */
    void (*on_progress)(void *caller, double done, double total, const char *label);
    /* A sentence for whoever waits, without a full stop. */
    void (*on_note)(void *caller, const char *note);
    /* Asked between steps, and 50 times a second at most wherever something takes long: planning,
     * drawing weights, compiling, a step of minutes. On the thread of the call. Once it has said
     * yes, the experiment ends within about a second with what it has so far. */
    bool (*should_stop)(void *caller);
} dyno_experiment_options;

/* *out is what was found out, also when it was stopped (DYNO_INTERRUPTED), failed after some cells or
 * could not be written; NULL when there is nothing. */
dyno_status dyno_experiment_run(const dyno_experiment_options *options, dyno_results **out);
/* How many ranks the experiment wants (the setting "ranks"), and how long they wait for each other. More
 * than one are to be started before it is run: dyno_ranks_start. */
dyno_status dyno_experiment_ranks(const dyno_experiment_options *options, int *ranks,
                                  double *timeout_s);
/* What it does and its settings with defaults and limits: `dyno NAME --help`. */
dyno_status dyno_experiment_help(const char *name, char **out);
/* The same for a terminal of so many columns; 0: for a file. */
dyno_status dyno_experiment_help_wrapped(const char *name, int columns, char **out);

/* The same as a manual page (roff), and as a line for each setting, for a shell's completion. Its fields are
 * separated by tabs: the name, which is empty for what is given without one; values worth offering, separated
 * by '|'; 1 if it takes a value, else 0; what it is; "list" if values may be joined by commas, "file" or
 * "directory" if the value is a path, else nothing. */
dyno_status dyno_experiment_man(const char *name, char **out);
dyno_status dyno_experiment_flags(const char *name, char **out);

/* A run.json, or the one in a directory; of a directory without one those of its subdirectories, if they
 * are of one experiment, as one: the parts of a suite's experiment. */
dyno_status dyno_results_read(const char *path, dyno_results **out);
void dyno_results_destroy(dyno_results *r);
/* Whether the run came to its end; false also while it goes on. */
bool dyno_results_is_complete(const dyno_results *r);
/* The text of run.json (docs/run-json.md). */
dyno_status dyno_results_json(const dyno_results *r, char **out);
/* What the command line prints. `options` may be NULL. */
dyno_status dyno_results_render(const dyno_results *r, const dyno_render_options *options,
                                char **out);
/* Makes the directory if needed and writes DIRECTORY/run.json in one step. A record that is there is
 * not replaced by less, nor one of another experiment: DYNO_INVALID. */
dyno_status dyno_results_write(const dyno_results *r, const char *directory);

/* ---- comparing ---- */

/* Cell by cell, whether B is slower than A, takes more memory or does not run any more. */
typedef struct dyno_comparison dyno_comparison;

typedef struct dyno_compare_options {
    size_t size;
    double threshold;  /* what differs by less is the same; 0: 0.02, negative: nothing is */
    double confidence; /* of all intervals together; 0: 0.95 */
    /* How much two runs of one program differ, for sides of fewer than 5 rounds, which do not tell; 0:
     * 0.02, negative: not at all. */
    double between_runs;
    const char *names[2]; /* what the two sides are called; NULL: their paths */
} dyno_compare_options;

/* Each side is a run.json, its directory, or a directory whose subdirectories have one each: rounds of
 * the same cells. `options` may be NULL. */
dyno_status dyno_compare(const char *a, const char *b, const dyno_compare_options *options,
                         dyno_comparison **out);
void dyno_comparison_destroy(dyno_comparison *c);
/* Rows that are slower, take more memory, or ran in A and do not in B. */
int64_t dyno_comparison_regressions(const dyno_comparison *c);
dyno_status dyno_comparison_render(const dyno_comparison *c, const dyno_render_options *options,
                                   char **out);

/* ---- suites: a study of many experiments ---- */

/* What "auto", "cpu", "cuda" or "cuda:N" stands for here: "cpu" or "cuda". */
dyno_status dyno_device_kind(const char *device_name, const char **out);

/* The parts of a study in the order in which they are to be run, and what became of each. The library
 * knows what is to be run and keeps the record; whoever calls it runs the parts. */
typedef struct dyno_suite dyno_suite;

typedef struct dyno_suite_part {
    size_t size;            /* set by the caller */
    const char *experiment; /* of the suite's file */
    const char *verb;       /* dyno_experiment_run's name */
    const char *const *arguments;
    int argument_count;
    const char *directory; /* where its record goes, below that of the study */
    const char *status;    /* "PENDING", "OK", "SKIP", "FAILED" */
    bool takes_out; /* whether it has the setting "out"; else its results are to be written */
    int priority;   /* parts of the same are equally important */
} dyno_suite_part;

/* A suite by its name (dyno_list "suites") or a file, for a device. A verb or a flag that there is not is
 * DYNO_INVALID. Where DIRECTORY/suite.json is there, parts that are finished are OK; a part that wants
 * another device is SKIP. Nothing is written yet. */
dyno_status dyno_suite_open(const char *name, const char *device_name, const char *directory,
                            dyno_suite **out);
void dyno_suite_close(dyno_suite *s);
int dyno_suite_part_count(const dyno_suite *s);
dyno_status dyno_suite_part_at(const dyno_suite *s, int index, dyno_suite_part *out);
/* Keeps what became of a part, also on the disk: "OK", "SKIP", "FAILED", or "PENDING" where it is still to be
 * run, and why. */
dyno_status dyno_suite_settle(dyno_suite *s, int index, const char *status, const char *reason,
                              double seconds);
/* A table with a row for each part. `options` may be NULL. */
dyno_status dyno_suite_render(const dyno_suite *s, const dyno_render_options *options, char **out);

/* ---- reports ---- */

/* Everything in a run.json, in its directory, or in a directory of several (a suite's), as one text: "html"
 * (a page that needs nothing else), "md" or "tex" (booktabs and pgfplots). A page has about `most_bytes` at most,
 * 0: 3 MB; what does not fit is left out of its tables and records, and it says so. */
dyno_status dyno_report(const char *path, const char *format, int64_t most_bytes, char **out);

#ifdef __cplusplus
}
#endif
#endif
