/* parameters.c - a parameter is computed from its index, so that no list has to be kept.
 *
 *   0                 embedding
 *   1 + 9 i + slot    layer i, slot 0..8
 *   1 + 9 layers      last norm
 *   2 + 9 layers      head */
#include "model/parameters.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "base/stop.h"
#include "base/threads.h"

enum { PER_LAYER = 9, INIT_GRAIN = 16384, PIECE = 1 << 23 };

static model_parameter outside_layers(const char *name, parameter_kind kind, shape dims) {
    model_parameter parameter = {.kind = kind, .shape = dims};
    snprintf(parameter.name, sizeof parameter.name, "%s", name);
    return parameter;
}

static model_parameter in_layer(const model_config *config, int layer, int slot) {
    int64_t d = config->d_model, ff = config->d_ff;
    int64_t queries = config->heads * config->head_dim, keys = config->kv_heads * config->head_dim;
    const struct {
        const char *name;
        parameter_kind kind;
        shape shape;
    } slots[PER_LAYER] = {
        {"input_layernorm", PARAMETER_NORM, SHAPE(d)},
        {"self_attn.q_proj", PARAMETER_LINEAR, SHAPE(queries, d)},
        {"self_attn.k_proj", PARAMETER_LINEAR, SHAPE(keys, d)},
        {"self_attn.v_proj", PARAMETER_LINEAR, SHAPE(keys, d)},
        {"self_attn.o_proj", PARAMETER_LINEAR, SHAPE(d, queries)},
        {"post_attention_layernorm", PARAMETER_NORM, SHAPE(d)},
        {"mlp.gate_proj", PARAMETER_LINEAR, SHAPE(ff, d)},
        {"mlp.up_proj", PARAMETER_LINEAR, SHAPE(ff, d)},
        {"mlp.down_proj", PARAMETER_LINEAR, SHAPE(d, ff)},
    };
    model_parameter parameter = {.kind = slots[slot].kind, .shape = slots[slot].shape};
    snprintf(parameter.name, sizeof parameter.name, "model.layers.%d.%s.weight", layer,
             slots[slot].name);
    return parameter;
}

int model_parameter_count(const model_config *config) {
    return 3 + PER_LAYER * (int)config->layers;
}

model_parameter model_parameter_at(const model_config *config, int index) {
    int in_layers = PER_LAYER * (int)config->layers;
    assert(index >= 0 && index < 3 + in_layers);
    if (index == 0)
        return outside_layers("model.embed_tokens.weight", PARAMETER_EMBEDDING,
                              SHAPE(config->vocab, config->d_model));
    if (index <= in_layers)
        return in_layer(config, (index - 1) / PER_LAYER, (index - 1) % PER_LAYER);
    if (index == in_layers + 1)
        return outside_layers("model.norm.weight", PARAMETER_NORM, SHAPE(config->d_model));
    return outside_layers("lm_head.weight", PARAMETER_LINEAR,
                          SHAPE(config->vocab, config->d_model));
}

int64_t model_parameter_elements(const model_config *config) {
    int64_t d = config->d_model;
    int64_t attention = 2 * d * config->head_dim * (config->heads + config->kv_heads);
    int64_t layer = attention + 3 * d * config->d_ff + 2 * d;
    return 2 * config->vocab * d + config->layers * layer + d;
}

typedef struct fill_job {
    rng_stream stream;
    double std;
    float *data;
    int64_t first; /* of the piece */
} fill_job;

static void fill_normal(void *context, int64_t begin, int64_t end) {
    const fill_job *job = context;
    for (int64_t i = job->first + begin; i < job->first + end; i++)
        job->data[i] = (float)(job->std * rng_truncated_normal(job->stream, (uint64_t)i));
}

static void fill_ones(void *context, int64_t begin, int64_t end) {
    const fill_job *job = context;
    for (int64_t i = job->first + begin; i < job->first + end; i++)
        job->data[i] = 1;
}

void model_parameter_init(const model_parameter *parameter, uint64_t seed, float *data) {
    fill_job job = {
        .stream = rng_stream_init(seed, rng_hash_name(parameter->name)), .std = 1, .data = data};
    if (parameter->kind == PARAMETER_LINEAR)
        job.std = sqrt(2.0 / (double)(parameter->shape.dim[0] + parameter->shape.dim[1]));
    int64_t count = shape_elements(&parameter->shape);
    for (int64_t begin = 0; begin < count && !stop_is_requested(); begin += PIECE) {
        job.first = begin;
        threads_for(count - begin < PIECE ? count - begin : PIECE, INIT_GRAIN,
                    parameter->kind == PARAMETER_NORM ? fill_ones : fill_normal, &job);
    }
}
