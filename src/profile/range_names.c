#include "profile/range_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool has_prefix(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Functions of NVIDIA's libraries, which mark their calls: "ncclAllReduce", "cublasGemmEx". */
static bool is_call_of_library(const char *name) {
    static const char *const PREFIXES[] = {"nccl", "cublas", "cudnn", "cusparse", "cusolver"};
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++)
        if (has_prefix(name, PREFIXES[i]) && isupper((unsigned char)name[strlen(PREFIXES[i])]))
            return true;
    return has_prefix(name, "cub::") || has_prefix(name, "thrust::");
}

bool range_domain_is_of_library(const char *domain) {
    static const char *const DOMAINS[] = {"NCCL",  "CCCL",     "CUB",      "thrust", "cuBLAS",
                                          "cuDNN", "cuSPARSE", "cuSOLVER", "cuFFT",  "NVSHMEM"};
    for (size_t i = 0; i < sizeof DOMAINS / sizeof *DOMAINS; i++) {
        size_t length = strlen(DOMAINS[i]);
        if (strncasecmp(domain, DOMAINS[i], length) == 0 &&
            !islower((unsigned char)domain[length])) /* "cubes" is a program's own */
            return true;
    }
    return false;
}

/* Names that PyTorch, its distributed layers and its compiler give to ranges. */
static bool is_of_library(const char *name) {
    static const char *const PREFIXES[] = {"Optimizer.zero_grad#",
                                           "enumerate(DataLoader)#",
                                           "Torch-Compiled Region",
                                           "## Call CompiledFxGraph",
                                           "CompiledFunction",
                                           "DistributedDataParallel.",
                                           "FullyShardedDataParallel.",
                                           "FSDP::",
                                           "nn.Module: ",
                                           "nccl:",
                                           "gloo:",
                                           "PyTorch Profiler"};
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++)
        if (has_prefix(name, PREFIXES[i]))
            return true;
    return is_call_of_library(name);
}

static int64_t number_behind(const char *name, const char *word) {
    const char *found = strstr(name, word);
    return found ? strtoll(found + strlen(word), NULL, 10) : -1;
}

/* "aten::mm, seq = 12, op_id = 34", "autograd::engine::evaluate_function: MmBackward0, seq = 12". */
static bool is_op(const char *name) {
    return has_prefix(name, "aten::") || has_prefix(name, "autograd::") ||
           has_prefix(name, "torch::") || strstr(name, ", op_id = ") || strstr(name, ", seq = ");
}

/* A word for a step, then a number: "step 3", "train_step_12", "Iteration #5", "batch 7/100". */
static range_meaning judge_step(const char *name) {
    static const char *const WORDS[] = {"step", "iteration", "iter", "batch", "microbatch"};
    range_meaning none = {RANGE_OF_PROGRAM, -1, (int)strlen(name), false};
    size_t length = strlen(name), end = length;
    while (end > 0 && isdigit((unsigned char)name[end - 1]))
        end--;
    if (end > 0 && end < length && name[end - 1] == '/') /* the number of all, behind its own */
        for (length = --end; end > 0 && isdigit((unsigned char)name[end - 1]);)
            end--;
    size_t word_end = end;
    while (word_end > 0 && strchr(" _#:-=", name[word_end - 1]))
        word_end--;
    if (end == length || word_end == 0)
        return none;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        size_t bytes = strlen(WORDS[i]);
        if (word_end < bytes || strncasecmp(name + word_end - bytes, WORDS[i], bytes) != 0)
            continue;
        if (word_end > bytes && isalpha((unsigned char)name[word_end - bytes - 1]) &&
            !isupper((unsigned char)name[word_end - bytes]))
            continue; /* "backstep 3" */
        return (range_meaning){RANGE_STEP, strtoll(name + end, NULL, 10), (int)word_end, false};
    }
    return none;
}

range_meaning range_judge(const char *name) {
    if (has_prefix(name, "ProfilerStep#"))
        return (range_meaning){RANGE_STEP, number_behind(name, "#"), 12, true};
    if (has_prefix(name, "Optimizer.step#"))
        return (range_meaning){RANGE_OPTIMIZER, -1, (int)strlen(name), false};
    if (is_of_library(name))
        return (range_meaning){RANGE_OF_LIBRARY, -1, (int)strlen(name), false};
    if (is_op(name))
        return (range_meaning){RANGE_OP, number_behind(name, ", seq = "), (int)strcspn(name, ","),
                               false};
    return judge_step(name);
}

bool range_is_backward_op(const char *op) {
    return has_prefix(op, "autograd::engine::evaluate_function");
}
