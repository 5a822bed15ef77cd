#include "ops/adamw/update.h"

static bool skips(const attributes *list, double scale) {
    const attribute *found = attribute_find(list, "skips_nan");
    return found && found->integer && isnan(scale);
}

adamw_step adamw_step_create(const attributes *list, const tensor *learning_rate,
                             const tensor *number, const tensor *scale) {
    double beta1 = attribute_real(list, "beta1"), beta2 = attribute_real(list, "beta2");
    double rate = *(const double *)learning_rate->data;
    double t = (double)*(const int64_t *)number->data;
    float factor = *(const float *)scale->data;
    return (adamw_step){.beta1 = (float)beta1,
                        .beta2 = (float)beta2,
                        .rest1 = (float)(1 - beta1),
                        .rest2 = (float)(1 - beta2),
                        .eps = (float)attribute_real(list, "eps"),
                        .keep = (float)(1 - rate * attribute_real(list, "weight_decay")),
                        .rate = (float)(rate / (1 - pow(beta1, t))),
                        .inverse_root = (float)(1 / sqrt(1 - pow(beta2, t))),
                        .scale = factor,
                        .is_skipped = skips(list, (double)factor)};
}

static inline void update_run(const adamw_step *u, int64_t count, const float *restrict gradient,
                              float *restrict weight, float *restrict first,
                              float *restrict second) {
    for (int64_t i = 0; i < count; i++)
        weight[i] = adamw_element(u, gradient[i], weight[i], &first[i], &second[i]);
}

void adamw_update(const adamw_step *step, int64_t count, const float *restrict gradient,
                  float *restrict weight, float *restrict first, float *restrict second) {
    const adamw_step u = *step;
    if (u.is_skipped)
        return;
    int64_t i = 0;
    for (; i + ADAMW_CHUNK <= count; i += ADAMW_CHUNK) {
        adamw_ask(gradient, i, sizeof *gradient);
        adamw_ask(weight, i, sizeof *weight);
        adamw_ask(first, i, sizeof *first);
        adamw_ask(second, i, sizeof *second);
        update_run(&u, ADAMW_CHUNK, gradient + i, weight + i, first + i, second + i);
    }
    update_run(&u, count - i, gradient + i, weight + i, first + i, second + i);
}

void adamw_update_reference(const node *n, double rate, double number, double scale, int64_t count,
                            const double *const state[4], double *const updated[3]) {
    double beta1 = attribute_real(&n->attributes, "beta1");
    double beta2 = attribute_real(&n->attributes, "beta2");
    double eps = attribute_real(&n->attributes, "eps");
    double decay = attribute_real(&n->attributes, "weight_decay");
    bool is_skipped = skips(&n->attributes, scale);
    for (int64_t i = 0; i < count; i++) {
        double g = state[1][i] * scale;
        double m = beta1 * state[2][i] + (1 - beta1) * g;
        double v = beta2 * state[3][i] + (1 - beta2) * g * g;
        double corrected_m = m / (1 - pow(beta1, number));
        double corrected_v = v / (1 - pow(beta2, number));
        double w =
            state[0][i] * (1 - rate * decay) - rate * corrected_m / (sqrt(corrected_v) + eps);
        updated[0][i] = is_skipped ? state[0][i] : w;
        updated[1][i] = is_skipped ? state[2][i] : m;
        updated[2][i] = is_skipped ? state[3][i] : v;
    }
}

dyno_status adamw_check(const node *n, const value *rate, const value *number, const value *scale) {
    static const char *const reals[] = {"beta1", "beta2", "eps", "weight_decay"};
    for (int i = 0; i < 4; i++)
        RETURN_IF_FAILED(node_require_attribute(n, reals[i], ATTRIBUTE_REAL));
    if (attribute_find(&n->attributes, "skips_nan"))
        RETURN_IF_FAILED(node_require_attribute(n, "skips_nan", ATTRIBUTE_INTEGER));
    if (rate->shape.rank != 0 || number->shape.rank != 0 || scale->shape.rank != 0)
        return dyno_fail(DYNO_INVALID,
                         "learning rate, step and gradient scale must be scalars, not [%s], [%s] "
                         "and [%s]",
                         shape_format(&rate->shape).text, shape_format(&number->shape).text,
                         shape_format(&scale->shape).text);
    if (rate->type != DTYPE_F64 || number->type != DTYPE_I64)
        return dyno_fail(DYNO_INVALID, "the learning rate must be f64 and the step i64");
    return DYNO_OK;
}

int adamw_attributes(const adamw_options *options, attribute items[ADAMW_ATTRIBUTES]) {
    int count = 0;
    items[count++] = ATTR_REAL("beta1", options->beta1);
    items[count++] = ATTR_REAL("beta2", options->beta2);
    items[count++] = ATTR_REAL("eps", options->eps);
    items[count++] = ATTR_REAL("weight_decay", options->weight_decay);
    if (options->skips_nan)
        items[count++] = ATTR_INTEGER("skips_nan", 1);
    return count;
}
