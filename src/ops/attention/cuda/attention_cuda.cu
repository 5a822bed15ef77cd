/* attention_cuda.cu - attention's entries into the CUDA module: operands to a call, and the kernel
 * for the device at hand. */
#include "ops/attention/cuda/attention_cuda.cuh"

enum attention_way attention_way = ATTENTION_BEST;

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
    call.tile.queries = (int)cuda_integer_or(args, "tile_queries", 0);
    call.tile.keys = (int)cuda_integer_or(args, "tile_keys", 0);
    call.q = rows_of_tensor(&in[0]);
    call.k = rows_of_tensor(&in[1]);
    call.v = rows_of_tensor(&in[2]);
    int bytes = q->type == CUDA_DTYPE_F32 ? 4 : 2;
    call.is_aligned = is_aligned(&in[0], bytes) && is_aligned(&in[1], bytes) &&
                      is_aligned(&in[2], bytes) && is_aligned(&out[0], bytes);
    return call;
}

static attention_sizes sizes_of(const attention_call *call) {
    attention_sizes sizes = {
        call->batch, call->heads,    call->kv_heads,  call->queries,
        call->keys,  call->head_dim, call->is_causal, call->type == CUDA_DTYPE_F32};
    return sizes;
}

/* Rows of each piece, from *next on, which moves behind the last. */
static attention_parts place_parts(const attention_call *call, int pieces, int heads, int rows,
                                   int64_t columns, float **next) {
    int64_t all = (int64_t)call->batch * heads * rows * columns;
    attention_parts parts = {{*next, heads * rows * columns, rows * columns, columns}, all};
    *next += pieces > 1 ? pieces * all : 0;
    return parts;
}

static void place_outputs(attention_call *call) {
    attention_sizes sizes = sizes_of(call);
    int64_t columns = attention_piece_columns(call->head_dim);
    int pieces = call->key_pieces = attention_pieces(&sizes, ATTENTION_CUT_FORWARD);
    call->is_few = pieces > 1 || attention_is_few(&sizes);
    float *next = (float *)call->workspace;
    call->o_parts = place_parts(call, pieces, call->heads, call->queries, columns, &next);
    call->lse_parts = place_parts(call, pieces, call->heads, call->queries, 1, &next);
}

static void place_gradients(attention_call *call) {
    attention_sizes sizes = sizes_of(call);
    int64_t columns = attention_piece_columns(call->head_dim);
    int of_keys = call->key_pieces = attention_pieces(&sizes, ATTENTION_CUT_KEYS);
    int of_queries = call->query_pieces = attention_pieces(&sizes, ATTENTION_CUT_QUERIES);
    call->is_few = of_keys > 1 || of_queries > 1 || attention_is_few(&sizes);
    float *next = (float *)call->workspace + attention_mean_floats(&sizes);
    call->dq_parts = place_parts(call, of_keys, call->heads, call->queries, columns, &next);
    call->dk_parts = place_parts(call, of_queries, call->kv_heads, call->keys, columns, &next);
    call->dv_parts = place_parts(call, of_queries, call->kv_heads, call->keys, columns, &next);
}

static attention_call describe_forward(const cuda_args *args) {
    attention_call call = describe(args);
    call.o = rows_of_tensor(&args->outputs[0]);
    call.lse = rows_of_tensor(&args->outputs[1]);
    place_outputs(&call);
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
        call.turn.cosine = (const float *)in[6].data;
        call.turn.sine = (const float *)in[7].data;
    }
    call.mean = (float *)args->workspace;
    call.is_aligned = call.is_aligned && is_aligned(&in[3], bytes) && is_aligned(&in[4], bytes) &&
                      is_aligned(&out[1], bytes) && is_aligned(&out[2], bytes);
    place_gradients(&call);
    return call;
}

/* ---- bf16 and f16: the chip's own kernels where there are some, else those of any ----
 *
 * Only those of any chip work on pieces. A tile that is asked for names the kernel, too: no two
 * ways have one in common. */

static int is_of(const cuda_tile *tiles, int count, cuda_tile asked) {
    for (int i = 0; i < count; i++)
        if (tiles[i].queries == asked.queries && tiles[i].keys == asked.keys)
            return 1;
    return 0;
}

static int has_pieces(const attention_call *call) {
    return attention_way == ATTENTION_BEST && (call->key_pieces > 1 || call->query_pieces > 1);
}

static int forward_is_for_mma(const attention_call *call) {
    cuda_tile tiles[4];
    return attention_way == ATTENTION_MMA || (call->tile.queries == 0 && has_pieces(call)) ||
           is_of(tiles, attention_forward_mma_tiles(call, tiles), call->tile);
}

static int backward_is_for_mma(const attention_call *call) {
    cuda_tile tiles[4];
    return attention_way == ATTENTION_MMA || (call->tile.queries == 0 && has_pieces(call)) ||
           is_of(tiles, attention_backward_mma_tiles(call, tiles), call->tile);
}

extern "C" int dyno_attention_cuda_tiles(const cuda_args *args, cuda_tile *out) {
    attention_call call = describe_forward(args);
    int of_any = has_pieces(&call) ? attention_forward_mma_tiles(&call, out) : 0;
    int count = of_any + attention_forward_hopper_tiles(&call, out + of_any);
    return of_any ? count : count + attention_forward_mma_tiles(&call, out + count);
}

extern "C" int dyno_attention_gradient_cuda_tiles(const cuda_args *args, cuda_tile *out) {
    attention_call call = describe_backward(args);
    int of_any = has_pieces(&call) ? attention_backward_mma_tiles(&call, out) : 0;
    int count = of_any + attention_backward_hopper_tiles(&call, out + of_any);
    return of_any ? count : count + attention_backward_mma_tiles(&call, out + count);
}

extern "C" dyno_status dyno_attention_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    attention_call call = describe_forward(args);
    if (forward_is_for_mma(&call) || !attention_forward_hopper(&call, stream))
        attention_forward_mma(&call, stream);
    return cuda_launch_status();
}

extern "C" dyno_status dyno_attention_gradient_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    attention_call call = describe_backward(args);
    bool is_once =
        attention_way == ATTENTION_BEST
            ? attention_is_once((int64_t)call.batch * call.kv_heads, call.queries, call.keys,
                                call.head_dim, call.tile.queries, call.tile.keys)
            : attention_way == ATTENTION_ONCE;
    bool is_for_mma = backward_is_for_mma(&call);
    if (!is_for_mma && is_once && attention_backward_hopper_once(&call, stream))
        return cuda_launch_status();
    if (!is_for_mma && attention_backward_hopper(&call, stream))
        return cuda_launch_status();
    attention_backward_means(&call, stream);
    attention_backward_mma(&call, stream);
    if (call.turn.cosine)
        attention_backward_turn(&call, stream);
    return cuda_launch_status();
}

/* ---- f32; of gradients one tile for each head size ---- */

extern "C" int dyno_attention_cuda_f32_tiles(const cuda_args *args, cuda_tile *out) {
    attention_call call = describe_forward(args);
    return attention_forward_f32_tiles(&call, out);
}
extern "C" int dyno_attention_gradient_cuda_f32_tiles(const cuda_args *, cuda_tile *) { return 0; }

extern "C" dyno_status dyno_attention_cuda_f32(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    attention_call call = describe_forward(args);
    attention_forward_f32(&call, stream);
    return cuda_launch_status();
}

extern "C" dyno_status dyno_attention_gradient_cuda_f32(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    attention_call call = describe_backward(args);
    attention_backward_means(&call, stream);
    attention_backward_f32(&call, stream);
    return cuda_launch_status();
}
