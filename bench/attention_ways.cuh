/* attention_ways.cuh - the two kernels for attention's gradients on sm_90, by turns in one run, and
 * whether the one that adds to dQ in turns gives the same bits every time. Part of
 * attention_check.cu. */
#pragma once

static __global__ void count_other_bits(const uint32_t *a, const uint32_t *b, size_t words,
                                        unsigned *others) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step)
        if (a[i] != b[i])
            atomicAdd(others, 1);
}

/* Of `runs` more runs, in how many words gradients differ from those of the first. */
static unsigned count_differences(const instance *in, int runs) {
    unsigned *others, all = 0;
    char *first[3];
    expect_cuda(cudaMalloc(&others, sizeof *others), "memory for a count");
    cudaMemset(others, 0, sizeof *others);
    for (int i = 0; i < 3; i++)
        expect_cuda(cudaMalloc(&first[i], in->x[DQ + i].bytes), "memory for gradients");
    for (int run = 0; run <= runs; run++) {
        run_backward(in, NULL);
        for (int i = 0; i < 3; i++) {
            const operand *x = &in->x[DQ + i];
            if (run == 0)
                cudaMemcpyAsync(first[i], x->device, x->bytes, cudaMemcpyDeviceToDevice);
            else
                count_other_bits<<<528, 256>>>((const uint32_t *)x->device, (uint32_t *)first[i],
                                               x->bytes / 4, others);
        }
    }
    cudaMemcpy(&all, others, sizeof all, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 3; i++)
        cudaFree(first[i]);
    cudaFree(others);
    return all;
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int compare_ways(int rounds, int runs, size_t most) {
    enum { MOST_ROUNDS = 15 };
    static const problem rows[] = {
        {1, 16, 16, 16384, 16384, 64, 1, CUDA_DTYPE_BF16, DENSE, 1},
        {2, 16, 16, 8192, 8192, 128, 1, CUDA_DTYPE_BF16, DENSE, 1},
        {2, 16, 16, 8192, 8192, 128, 0, CUDA_DTYPE_BF16, DENSE, 1},
        {4, 16, 16, 4096, 4096, 128, 1, CUDA_DTYPE_BF16, DENSE, 1},
        {4, 32, 32, 4096, 4096, 64, 1, CUDA_DTYPE_BF16, DENSE, 1},
        {4, 32, 32, 4096, 4096, 64, 0, CUDA_DTYPE_BF16, DENSE, 1},
        {4, 32, 8, 2048, 2048, 128, 1, CUDA_DTYPE_F16, TOKENS, 1},
        {8, 16, 16, 2048, 2048, 64, 1, CUDA_DTYPE_BF16, TOKENS, 1},
        {4, 32, 32, 1024, 1024, 128, 1, CUDA_DTYPE_BF16, TOKENS, 1},
        {8, 16, 16, 1024, 1024, 64, 1, CUDA_DTYPE_BF16, TOKENS, 1},
        {1, 4, 4, 8192, 8192, 128, 1, CUDA_DTYPE_BF16, DENSE, 1},
    };
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    int failures = 0;
    printf("%-44s %10s %8s %10s %8s\n", "gradients", "twice ms", "TFLOP/s", "once ms", "TFLOP/s");
    for (size_t i = 0; i < sizeof rows / sizeof *rows && i < most; i++) {
        const problem *p = &rows[i];
        instance in = make_instance(p);
        float ms[2][MOST_ROUNDS];
        run_forward(&in, NULL);
        attention_way = ATTENTION_ONCE;
        unsigned others = count_differences(&in, runs);
        failures += others > 0;
        for (int round = 0; round < rounds && round < MOST_ROUNDS; round++)
            for (int once = 0; once < 2; once++) {
                attention_way = once ? ATTENTION_ONCE : ATTENTION_TWICE;
                ms[once][round] = milliseconds(&in, run_backward, stream);
            }
        attention_way = ATTENTION_BEST;
        double flops = 10.0 * p->B * p->H * p->T * p->T2 * p->S / (p->is_causal ? 2 : 1);
        char name[96];
        snprintf(name, sizeof name, "b%d h%d/%d n%d d%d %s %s %s", p->B, p->H, p->K, p->T, p->S,
                 p->is_causal ? "causal" : "full", type_names[p->type], layout_names[p->layout]);
        printf("%-44s", name);
        for (int once = 0; once < 2; once++) {
            qsort(ms[once], (size_t)rounds, sizeof(float), compare_floats);
            float median = ms[once][rounds / 2];
            printf(" %10.4f %8.1f", median, flops / median * 1e-9);
        }
        printf("  %u words differ in %d runs\n", others, runs);
        fflush(stdout);
        expect_cuda(cudaGetLastError(), "comparing");
        release_instance(&in);
    }
    return failures;
}
