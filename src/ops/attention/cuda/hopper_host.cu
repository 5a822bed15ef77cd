#include "ops/attention/cuda/hopper_host.cuh"

/* The driver's function, without linking to the driver. */
static PFN_cuTensorMapEncodeTiled_v12000 find_encode(void) {
    static PFN_cuTensorMapEncodeTiled_v12000 encode;
    static int is_looked_up;
    if (!is_looked_up) {
        cudaDriverEntryPointQueryResult found;
        void *entry = NULL;
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                             cudaEnableDefault, &found) == cudaSuccess &&
            found == cudaDriverEntryPointSuccess)
            encode = (PFN_cuTensorMapEncodeTiled_v12000)entry;
        is_looked_up = 1;
    }
    return encode;
}

enum { MOST_DEVICES = 64 };

int hopper_multiprocessors(void) {
    static int known[MOST_DEVICES]; /* the answer plus one */
    int ordinal = 0, major = 0, minor = 0, count = 0;
    if (cudaGetDevice(&ordinal) != cudaSuccess || ordinal >= MOST_DEVICES)
        return 0;
    if (known[ordinal])
        return known[ordinal] - 1;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, ordinal);
    int answer = major == 9 && minor == 0 && find_encode() ? count : 0;
    known[ordinal] = answer + 1;
    return answer;
}

dyno_status hopper_check(const attention_call *call) {
    if (hopper_multiprocessors() == 0)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "attention: the plan is for sm_90, and this GPU or its driver is another");
    if (!call->is_aligned || (uintptr_t)call->workspace % 16)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "attention: operands do not begin at multiples of 16 bytes, which kernels "
                         "for sm_90 need");
    return DYNO_OK;
}

dyno_status hopper_refuse(const char *kernel) {
    return dyno_fail(DYNO_UNSUPPORTED,
                     "%s: the module has no code for sm_90a, or the driver does not describe these "
                     "operands to the tensor memory accelerator",
                     kernel);
}

int hopper_describe_rows(CUtensorMap *map, const attention_rows *rows, const attention_call *call,
                         int heads, int count, int tile_rows) {
    cuuint64_t sizes[4] = {(cuuint64_t)call->head_dim, (cuuint64_t)count, (cuuint64_t)heads,
                           (cuuint64_t)call->batch};
    int64_t strides[3] = {rows->row, rows->head, rows->batch};
    cuuint64_t bytes[3];
    cuuint32_t box[4] = {64, (cuuint32_t)tile_rows, 1, 1}, steps[4] = {1, 1, 1, 1};
    for (int i = 0; i < 3; i++) /* where there is only one, its stride says nothing */
        bytes[i] = sizes[i + 1] > 1 ? (cuuint64_t)strides[i] * 2 : (cuuint64_t)call->head_dim * 2;
    CUtensorMapDataType type = call->type == CUDA_DTYPE_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    return find_encode()(map, type, 4, rows->data, sizes, bytes, box, steps,
                         CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

int hopper_heads_at_once(int64_t bytes_per_head, int heads) {
    const int64_t L2_SHARE = (int64_t)32 << 20; /* of 50 MiB */
    int64_t fit = L2_SHARE / (bytes_per_head > 0 ? bytes_per_head : 1);
    return fit < 1 ? 1 : fit < heads ? (int)fit : heads;
}
