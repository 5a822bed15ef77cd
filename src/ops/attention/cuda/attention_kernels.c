/* attention_kernels.c - attention's rows of CUDA kernels as the planner knows them: what they take,
 * the scratch they need and the tiles they are compiled for. The module has a function for each.
 *
 * All of it follows from the operands and the target, so that a plan for a GPU names the kernels
 * that will run there, made where there is none. */
#include "ops/attention/attention.h"
#include "ops/attention/cuda/attention_variants.h"

static attention_sizes sizes_of(const kernel_args *args) {
    attention_problem p = attention_describe(args);
    const attribute *tf32 = attribute_find(args->attributes, "tf32");
    return (attention_sizes){.batch = p.batch,
                             .heads = p.heads,
                             .kv_heads = p.kv_heads,
                             .queries = p.queries,
                             .keys = p.keys,
                             .head_dim = p.head_dim,
                             .is_causal = p.is_causal,
                             .is_f32 = args->inputs[ATTENTION_Q].type == DTYPE_F32,
                             .is_tf32 = tf32 && tf32->integer != 0};
}

bool attention_is_split(const kernel_args *args) {
    attention_sizes sizes = sizes_of(args);
    return attention_is_gradient(args) ? attention_gradient_is_split(&sizes)
                                       : attention_forward_is_split(&sizes);
}

/* ---- what they take ---- */

static const char *reject_rotation(const kernel_args *args) {
    const shape *q = &args->inputs[ATTENTION_Q].shape, *k = &args->inputs[ATTENTION_K].shape;
    if (attention_is_rotated(args))
        return "takes Q and K that are rotated already";
    if (!attention_has_inverse_rope(args))
        return NULL;
    if (args->inputs[ATTENTION_Q].type == DTYPE_F32)
        return "rotates gradients of bf16 and f16 back only";
    if (!attention_can_rotate_back(q->dim[3]))
        return "rotates no gradients of this head size back";
    return q->dim[2] != k->dim[2] ? "rotates gradients back of as many queries as keys" : NULL;
}

static const char *reject_any(const kernel_args *args, bool is_f32) {
    enum { TENSOR_CORES = 80 };
    if (args->target->capability < TENSOR_CORES)
        return "needs compute capability 8.0";
    if ((args->inputs[ATTENTION_Q].type == DTYPE_F32) != is_f32)
        return is_f32 ? "takes f32" : "takes bf16 and f16";
    const char *why = reject_rotation(args);
    if (why)
        return why;
    if (!(attribute_real(args->attributes, "scale") > 0))
        return "the scale must be above 0";
    attention_problem p = attention_describe(args);
    int64_t most = INT32_MAX / 2;
    if (p.queries > most || p.keys > most ||
        p.batch * p.heads * (1 + (p.queries > p.keys ? p.queries : p.keys) / 16) > most)
        return "there are more tiles than a grid has blocks";
    return attention_reject_layout(args);
}

static const char *reject_mma(const kernel_args *args) { return reject_any(args, false); }
static const char *reject_tf32(const kernel_args *args) { return reject_any(args, true); }

static const char *reject_split_kv(const kernel_args *args) {
    const char *why = reject_mma(args);
    if (why)
        return why;
    return attention_is_split(args) ? NULL : "splitting keys does not pay: heads fill the GPU";
}

/* Whether rows begin and end at multiples of 16 bytes, each where no other does, as the tensor memory
 * accelerator wants it. */
static bool has_aligned_rows(const tensor *t) {
    int64_t bits = t->shape.dim[3];
    for (int i = 0; i < 3; i++) {
        if (t->shape.dim[i] > 1 && t->stride[i] <= 0)
            return false;
        if (t->shape.dim[i] > 1)
            bits |= t->stride[i];
    }
    return bits * dtype_bytes(t->type) % 16 == 0;
}

static const char *reject_hopper(const kernel_args *args) {
    enum { HOPPER = 90, LEAST_HEAD = 33 };
    const char *why = args->target->capability == HOPPER ? reject_mma(args) : "is for sm_90";
    if (why)
        return why;
    if (args->inputs[ATTENTION_Q].shape.dim[3] < LEAST_HEAD)
        return "the head size is below 33";
    int inputs = attention_is_gradient(args) ? ATTENTION_LSE : ATTENTION_O;
    int outputs = attention_is_gradient(args) ? 3 : 1;
    bool is_aligned = args->offset_bits % 16 == 0;
    for (int i = 0; i < inputs; i++)
        is_aligned = is_aligned && has_aligned_rows(&args->inputs[i]);
    for (int i = 0; i < outputs; i++)
        is_aligned = is_aligned && has_aligned_rows(&args->outputs[i]);
    return is_aligned ? NULL : "rows do not begin at multiples of 16 bytes";
}

static const char *reject_two_pass(const kernel_args *args) {
    const char *why = reject_hopper(args);
    return !why && args->inputs[ATTENTION_Q].shape.dim[3] > 128 ? "the head size is above 128"
                                                                : why;
}
static const char *reject_wide(const kernel_args *args) {
    const char *why = reject_hopper(args);
    return !why && args->inputs[ATTENTION_Q].shape.dim[3] <= 128 ? "the head size is at most 128"
                                                                 : why;
}
static const char *reject_single_pass(const kernel_args *args) {
    const char *why = reject_hopper(args);
    if (why)
        return why;
    return attention_single_pass_columns(args->inputs[ATTENTION_Q].shape.dim[3])
               ? NULL
               : "is compiled for head sizes from 33 to 64 and from 97 to 128";
}

static const char *yield_single_pass(const kernel_args *args) {
    attention_problem p = attention_describe(args);
    return attention_single_pass_pays(p.batch * p.kv_heads, p.queries, p.keys, p.head_dim)
               ? NULL
               : "two passes are faster for short contexts and few heads";
}

/* ---- scratch ---- */

static size_t forward_bytes(const kernel_args *args) {
    attention_sizes sizes = sizes_of(args);
    return (size_t)attention_forward_floats(&sizes) * sizeof(float);
}
static size_t gradient_bytes(const kernel_args *args) {
    attention_sizes sizes = sizes_of(args);
    return (size_t)attention_gradient_floats(&sizes) * sizeof(float);
}
static size_t mean_bytes(const kernel_args *args) {
    attention_sizes sizes = sizes_of(args);
    return (size_t)attention_mean_floats(&sizes) * sizeof(float);
}

static size_t hopper_bytes(const kernel_args *args, int columns) {
    attention_problem p = attention_describe(args);
    int64_t heads = p.batch * p.heads, bytes = attention_workspace_bytes(heads, p.queries, columns);
    if (attention_has_inverse_rope(args))
        bytes = attention_angles_at(heads, p.queries, columns) +
                attention_angle_bytes(p.queries, p.head_dim);
    return (size_t)bytes;
}
static size_t two_pass_bytes(const kernel_args *args) { return hopper_bytes(args, 0); }
static size_t single_pass_bytes(const kernel_args *args) {
    return hopper_bytes(args,
                        attention_single_pass_columns(args->inputs[ATTENTION_Q].shape.dim[3]));
}

/* ---- variants ---- */

static int name_tiles(const kernel_args *args, attention_list_tiles *list, kernel_variant *out) {
    attention_sizes sizes = sizes_of(args);
    attention_tile tiles[ATTENTION_MOST_TILES];
    return attention_name_tiles(tiles, list(&sizes, tiles), out);
}

#define VARIANTS(NAME)                                                                             \
    static int NAME##_variants(const kernel_args *args, kernel_variant *out) {                     \
        return name_tiles(args, attention_tiles_##NAME, out);                                      \
    }
VARIANTS(split_kv)
VARIANTS(hopper)
VARIANTS(mma)
VARIANTS(tf32)
VARIANTS(gradient_mma)
VARIANTS(gradient_single_pass)
VARIANTS(gradient_hopper)
VARIANTS(gradient_wide)
#undef VARIANTS

/* ---- rows ---- */

#define ROW(NAME, ...)                                                                             \
    const kernel NAME = {.name = #NAME, .target = TARGET_CUDA, .writes_strided = true, __VA_ARGS__}

ROW(attention_split_kv, .reject = reject_split_kv, .workspace_bytes = forward_bytes,
    .variants = split_kv_variants);
ROW(attention_hopper, .reject = reject_hopper, .variants = hopper_variants);
ROW(attention_mma, .reject = reject_mma, .variants = mma_variants);
ROW(attention_tf32, .reject = reject_tf32, .workspace_bytes = forward_bytes,
    .variants = tf32_variants);

ROW(attention_gradient_split_kv, .reject = reject_split_kv, .workspace_bytes = gradient_bytes,
    .variants = gradient_mma_variants);
ROW(attention_gradient_hopper_single_pass, .reject = reject_single_pass, .yield = yield_single_pass,
    .workspace_bytes = single_pass_bytes, .variants = gradient_single_pass_variants);
ROW(attention_gradient_hopper, .reject = reject_two_pass, .workspace_bytes = two_pass_bytes,
    .variants = gradient_hopper_variants);
ROW(attention_gradient_hopper_wide, .reject = reject_wide, .workspace_bytes = two_pass_bytes,
    .variants = gradient_wide_variants);
ROW(attention_gradient_mma, .reject = reject_mma, .workspace_bytes = mean_bytes,
    .variants = gradient_mma_variants);
ROW(attention_gradient_tf32, .reject = reject_tf32, .workspace_bytes = gradient_bytes);
