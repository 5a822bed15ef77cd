/* library.h - a small model for tests that see the library as a stranger does: dyno.h and nothing
 * else. */
#ifndef TESTS_API_LIBRARY_H
#define TESTS_API_LIBRARY_H

#include <dyno.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 2, CONTEXT = 8, ROWS = BATCH * CONTEXT, VOCABULARY = 50 };
static const char EMBEDDING[] = "model.embed_tokens.weight";
enum { EMBEDDING_SIZE = VOCABULARY * 32 };

#define OK(call)                                                                                   \
    do {                                                                                           \
        dyno_status ok_status = (call);                                                            \
        if (ok_status != DYNO_OK)                                                                  \
            fail_msg("%s: %s: %s", #call, dyno_status_name(ok_status), dyno_error_message());      \
        assert_string_equal(dyno_error_message(), "");                                             \
    } while (0)

/* The call fails so, and says this. */
#define FAILS(status, part, call)                                                                  \
    do {                                                                                           \
        assert_int_equal(call, status);                                                            \
        if (!strstr(dyno_error_message(), part))                                                   \
            fail_msg("%s: '%s' says nothing of '%s'", #call, dyno_error_message(), part);          \
    } while (0)

static inline dyno_model *small_model(void) {
    dyno_model_options o = {
        .size = sizeof o, .d_model = 32, .d_ff = 64, .layers = 2, .heads = 2, .vocab = VOCABULARY};
    dyno_model *model;
    OK(dyno_model_create(&o, &model));
    return model;
}

static inline dyno_trainer_options small_steps(void) {
    return (dyno_trainer_options){
        .size = sizeof(dyno_trainer_options), .batch = BATCH, .context = CONTEXT, .device = "cpu"};
}

static inline void fill_ids(int32_t ids[ROWS + 1]) {
    for (int i = 0; i <= ROWS; i++)
        ids[i] = (i * 7 + 3) % VOCABULARY;
}

static inline dyno_trainer *small_trainer(const dyno_trainer_options *options) {
    dyno_model *model = small_model();
    dyno_trainer *trainer;
    OK(dyno_trainer_create(model, 7, options, &trainer));
    dyno_model_destroy(model); /* the trainer has its own */
    return trainer;
}

#define SETTINGS(list) .settings = list, .setting_count = sizeof list / sizeof *list

#endif
