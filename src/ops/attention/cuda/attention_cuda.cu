/* attention_cuda.cu - attention's entries into the CUDA module, one for each row of
 * attention_kernels.c: operands to a call. */
#include "ops/attention/cuda/attention_cuda.cuh"

static attention_rows rows_of_tensor(const cuda_tensor *t) {
    attention_rows rows = {t->data, t->stride[0], t->stride[1], t->stride[2]};
    return rows;
}

static int is_aligned(const cuda_tensor *t, int bytes) {
    uintptr_t all = (uintptr_t)t->data | (uintptr_t)(t->shape.dim[3] * bytes);
    for (int i = 0; i < 3; i++)
        if (t->shape.dim[i] > 1)
            all |= (uintptr_t)(t->stride[i] * bytes);
    return all % 16 == 0;
}

static attention_sizes sizes_of(const attention_call *call) {
    attention_sizes sizes = {
        call->batch,    call->heads,     call->kv_heads,                call->queries, call->keys,
        call->head_dim, call->is_causal, call->type == CUDA_DTYPE_F32, call->is_tf32};
    return sizes;
}

static attention_call describe(const cuda_args *args) {
    const cuda_tensor *in = args->inputs, *out = args->outputs, *q = &in[0], *k = &in[1];
    attention_call call = {};
    call.type = q->type;
    call.batch = (int)q->shape.dim[0];
    call.heads = (int)q->shape.dim[1];
    call.kv_heads = (int)k->shape.dim[1];
    call.group = call.heads / call.kv_heads;
    call.queries = (int)q->shape.dim[2];
    call.keys = (int)k->shape.dim[2];
    call.head_dim = (int)q->shape.dim[3];
    call.is_causal = cuda_integer(args, "causal") != 0;
    call.scale = (float)cuda_real(args, "scale");
    call.workspace = args->workspace;
    call.is_tf32 = cuda_integer_or(args, "tf32", 0) != 0;
    call.q = rows_of_tensor(&in[0]);
    call.k = rows_of_tensor(&in[1]);
    call.v = rows_of_tensor(&in[2]);
    int bytes = q->type == CUDA_DTYPE_F32 ? 4 : 2;
    call.is_aligned = is_aligned(&in[0], bytes) && is_aligned(&in[1], bytes) &&
                      is_aligned(&in[2], bytes) && is_aligned(&out[0], bytes);
    call.key_splits = call.query_splits = 1;
    attention_sizes sizes = sizes_of(&call);
    call.is_few = attention_is_few(&sizes);
    return call;
}

/* The tile that the launch's variant names, or the first of the list. */
static attention_tile tile_of(const cuda_args *args, const attention_call *call,
                              attention_list_tiles *list) {
    attention_sizes sizes = sizes_of(call);
    attention_tile asked, all[ATTENTION_MOST_TILES] = {};
    if (args->variant && attention_tile_parse(args->variant, &asked))
        return asked;
    list(&sizes, all);
    return all[0];
}

/* Rows of each split, from *next on, which moves behind the last. */
static attention_partials place_partials(const attention_call *call, int splits, int heads,
                                         int rows, int64_t columns, float **next) {
    int64_t all = (int64_t)call->batch * heads * rows * columns;
    attention_partials partials = {{*next, heads * rows * columns, rows * columns, columns}, all};
    *next += splits > 1 ? splits * all : 0;
    return partials;
}

static void split_outputs(attention_call *call) {
    attention_sizes sizes = sizes_of(call);
    int64_t columns = attention_partial_columns(call->head_dim);
    int splits = call->key_splits = attention_splits(&sizes, ATTENTION_SPLIT_FORWARD);
    float *next = (float *)call->workspace;
    call->o_partials = place_partials(call, splits, call->heads, call->queries, columns, &next);
    call->lse_partials = place_partials(call, splits, call->heads, call->queries, 1, &next);
}

static void split_gradients(attention_call *call) {
    attention_sizes sizes = sizes_of(call);
    int64_t columns = attention_partial_columns(call->head_dim);
    int of_keys = call->key_splits = attention_splits(&sizes, ATTENTION_SPLIT_KEYS);
    int of_queries = call->query_splits = attention_splits(&sizes, ATTENTION_SPLIT_QUERIES);
    call->is_few = call->is_few || of_keys > 1 || of_queries > 1;
    float *next = (float *)call->workspace + attention_mean_floats(&sizes);
    call->dq_partials = place_partials(call, of_keys, call->heads, call->queries, columns, &next);
    call->dk_partials = place_partials(call, of_queries, call->kv_heads, call->keys, columns, &next);
    call->dv_partials = place_partials(call, of_queries, call->kv_heads, call->keys, columns, &next);
}

static attention_call describe_forward(const cuda_args *args) {
    attention_call call = describe(args);
    call.o = rows_of_tensor(&args->outputs[0]);
    call.lse = rows_of_tensor(&args->outputs[1]);
    return call;
}

static attention_call describe_backward(const cuda_args *args) {
    const cuda_tensor *in = args->inputs, *out = args->outputs;
    attention_call call = describe(args);
    int bytes = call.type == CUDA_DTYPE_F32 ? 4 : 2;
    call.o = rows_of_tensor(&in[3]);
    call.d_o = rows_of_tensor(&in[4]);
    call.lse = rows_of_tensor(&in[5]);
    call.d_q = rows_of_tensor(&out[0]);
    call.d_k = rows_of_tensor(&out[1]);
    call.d_v = rows_of_tensor(&out[2]);
    if (args->input_count > 6) {
        call.rotation.cosine = (const float *)in[6].data;
        call.rotation.sine = (const float *)in[7].data;
    }
    call.mean = (float *)args->workspace;
    call.is_aligned = call.is_aligned && is_aligned(&in[3], bytes) && is_aligned(&in[4], bytes) &&
                      is_aligned(&out[1], bytes) && is_aligned(&out[2], bytes);
    return call;
}

/* ---- rows of the forward ---- */

extern "C" dyno_status dyno_attention_split_kv(const cuda_args *args) {
    attention_call call = describe_forward(args);
    call.tile = tile_of(args, &call, attention_tiles_split_kv);
    split_outputs(&call);
    return attention_forward_mma(&call, args->context->stream);
}

extern "C" dyno_status dyno_attention_hopper(const cuda_args *args) {
    attention_call call = describe_forward(args);
    call.tile = tile_of(args, &call, attention_tiles_hopper);
    return attention_forward_hopper(&call, args->context->stream);
}

extern "C" dyno_status dyno_attention_mma(const cuda_args *args) {
    attention_call call = describe_forward(args);
    call.tile = tile_of(args, &call, attention_tiles_mma);
    return attention_forward_mma(&call, args->context->stream);
}

extern "C" dyno_status dyno_attention_tf32(const cuda_args *args) {
    attention_call call = describe_forward(args);
    call.tile = tile_of(args, &call, attention_tiles_tf32);
    split_outputs(&call);
    return attention_forward_tf32(&call, args->context->stream);
}

/* ---- rows of the gradient ---- */

static dyno_status differentiate_mma(attention_call *call, const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    call->tile = tile_of(args, call, attention_tiles_gradient_mma);
    attention_backward_means(call, stream);
    RETURN_IF_FAILED(attention_backward_mma(call, stream));
    if (call->rotation.cosine)
        attention_rotate_back(call, stream);
    return cuda_launch_status();
}

extern "C" dyno_status dyno_attention_gradient_split_kv(const cuda_args *args) {
    attention_call call = describe_backward(args);
    split_gradients(&call);
    return differentiate_mma(&call, args);
}

extern "C" dyno_status dyno_attention_gradient_mma(const cuda_args *args) {
    attention_call call = describe_backward(args);
    return differentiate_mma(&call, args);
}

extern "C" dyno_status dyno_attention_gradient_hopper_single_pass(const cuda_args *args) {
    attention_call call = describe_backward(args);
    call.tile = tile_of(args, &call, attention_tiles_gradient_single_pass);
    return attention_backward_single_pass(&call, args->context->stream);
}

extern "C" dyno_status dyno_attention_gradient_hopper(const cuda_args *args) {
    attention_call call = describe_backward(args);
    call.tile = tile_of(args, &call, attention_tiles_gradient_hopper);
    return attention_backward_two_pass(&call, args->context->stream);
}

extern "C" dyno_status dyno_attention_gradient_hopper_wide(const cuda_args *args) {
    attention_call call = describe_backward(args);
    call.tile = tile_of(args, &call, attention_tiles_gradient_wide);
    return attention_backward_wide(&call, args->context->stream);
}

extern "C" dyno_status dyno_attention_gradient_tf32(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    attention_call call = describe_backward(args);
    split_gradients(&call);
    attention_backward_means(&call, stream);
    return attention_backward_tf32(&call, stream);
}
