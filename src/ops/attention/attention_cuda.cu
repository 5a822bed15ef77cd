/* attention_cuda.cu - attention's entries into the CUDA module: operands to a call, and the kernel
 * for the device at hand. */
#include "ops/attention/attention_cuda.cuh"

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
    call.is_tf32 = cuda_integer_or(args, "tf32", 0) != 0;
    call.q = rows_of_tensor(&in[0]);
    call.k = rows_of_tensor(&in[1]);
    call.v = rows_of_tensor(&in[2]);
    int bytes = q->type == CUDA_DTYPE_F32 ? 4 : 2;
    call.is_aligned = is_aligned(&in[0], bytes) && is_aligned(&in[1], bytes) &&
                      is_aligned(&in[2], bytes) && is_aligned(&out[0], bytes);
    return call;
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
    call.workspace = args->workspace;
    call.mean = (float *)args->workspace;
    call.is_aligned = call.is_aligned && is_aligned(&in[3], bytes) && is_aligned(&in[4], bytes) &&
                      is_aligned(&out[1], bytes) && is_aligned(&out[2], bytes);
    return call;
}

extern "C" void dyno_attention_cuda(const cuda_args *args, cudaStream_t stream) {
    attention_call call = describe_forward(args);
    if (attention_way == ATTENTION_MMA || !attention_forward_hopper(&call, stream))
        attention_forward_mma(&call, stream);
}

extern "C" void dyno_attention_gradient_cuda(const cuda_args *args, cudaStream_t stream) {
    attention_call call = describe_backward(args);
    if (attention_way != ATTENTION_MMA && attention_backward_hopper(&call, stream))
        return;
    attention_backward_means(&call, stream);
    attention_backward_mma(&call, stream);
}

extern "C" void dyno_attention_cuda_f32(const cuda_args *args, cudaStream_t stream) {
    attention_call call = describe_forward(args);
    attention_forward_f32(&call, stream);
}

extern "C" void dyno_attention_gradient_cuda_f32(const cuda_args *args, cudaStream_t stream) {
    attention_call call = describe_backward(args);
    attention_backward_means(&call, stream);
    attention_backward_f32(&call, stream);
}
