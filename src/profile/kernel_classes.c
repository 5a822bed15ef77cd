/* kernel_classes.c - a list of rules, tried from the first to the last.
 *
 * The order matters: a fused attention kernel has "cutlass" in its name as a product has, and a
 * convolution has "gemm". Names are those of PyTorch, its inductor, cuBLAS, cuDNN, CUTLASS, NCCL and
 * Nsight Systems. */
#define _GNU_SOURCE
#include "profile/kernel_classes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/name_table.h"
#include "base/text.h"

enum { CLASSES_FILE_LIMIT = 1 << 20, MOST_CLASS_BYTES = 64 };

typedef struct class_rule {
    const char *pattern, *class_name;
} class_rule;

static const class_rule BUILT_IN[] = {
    {"nccl", "communication"},
    {"c10d::", "communication"},
    {"record_param_comms", "communication"},
    {"all_reduce", "communication"},
    {"all_gather", "communication"},
    {"reduce_scatter", "communication"},

    {"flash_fwd", CLASS_ATTENTION},
    {"flash_bwd", CLASS_ATTENTION},
    {"flash::", CLASS_ATTENTION},
    {"flashattn", CLASS_ATTENTION},
    {"fmha", CLASS_ATTENTION},
    {"attention", CLASS_ATTENTION},
    {"sdpa", CLASS_ATTENTION},

    {"adam", "optimizer"},
    {"multi_tensor_apply", "optimizer"},
    {"_foreach_", "optimizer"},
    {"fused_sgd", "optimizer"},

    {"nll_loss", "loss"},
    {"cross_entropy", "loss"},
    {"crossentropy", "loss"},
    {"logsoftmax", "loss"},
    {"log_softmax", "loss"},
    {"softmax", CLASS_SOFTMAX},

    {"layer_norm", "norm"},
    {"layernorm", "norm"},
    {"rms_norm", "norm"},
    {"rmsnorm", "norm"},
    {"group_norm", "norm"},
    {"groupnorm", "norm"},
    {"batch_norm", "norm"},
    {"batchnorm", "norm"},
    {"bn_fw", "norm"},
    {"bn_bw", "norm"},
    {"gammabeta", "norm"},
    {"rowwisemoments", "norm"},

    {"convol", "convolution"},
    {"aten::conv1d", "convolution"},
    {"aten::conv2d", "convolution"},
    {"aten::conv3d", "convolution"},
    {"implicit_gemm", "convolution"},
    {"fprop", "convolution"},
    {"dgrad", "convolution"},
    {"wgrad", "convolution"},
    {"winograd", "convolution"},

    /* They scale a product's result or finish it, in kernels of their own: "cublas" is in their types. */
    {"scal_kernel", "element-wise"},
    {"cublasLt::epilogue", "element-wise"},

    {"gemm", CLASS_MATMUL},
    {"gemv", CLASS_MATMUL},
    {"nvjet", CLASS_MATMUL},
    {"cublas", CLASS_MATMUL},
    {"xmma", CLASS_MATMUL},
    {"s16816", CLASS_MATMUL},
    {"splitk", CLASS_MATMUL},
    {"cutlass", CLASS_MATMUL},
    {"triton_tem_", CLASS_MATMUL},
    {"triton_mm", CLASS_MATMUL},
    {"triton_bmm", CLASS_MATMUL},
    {"aten::mm", CLASS_MATMUL},
    {"aten::bmm", CLASS_MATMUL},
    {"aten::mv", CLASS_MATMUL},
    {"aten::dot", CLASS_MATMUL},
    {"aten::addmm", CLASS_MATMUL},
    {"aten::addmv", CLASS_MATMUL},
    {"aten::baddbmm", CLASS_MATMUL},
    {"aten::matmul", CLASS_MATMUL},
    {"aten::linear", CLASS_MATMUL},
    {"aten::einsum", CLASS_MATMUL},
    {"aten::_scaled_mm", CLASS_MATMUL},
    {"mkldnn_linear", CLASS_MATMUL},

    {"aten::vdot", CLASS_MATMUL},
    {"aten::inner", CLASS_MATMUL},
    {"aten::outer", CLASS_MATMUL},
    {"embedding", "gather"},
    {"indexselect", "gather"},
    {"index_select", "gather"},
    {"index_put", "gather"},
    {"index_elementwise", "gather"},
    {"indexfunc", "gather"},
    {"aten::index", "gather"},
    {"gather", "gather"},
    {"scatter", "gather"},
    {"aten::take", "gather"},
    {"aten::masked_select", "gather"},
    {"aten::nonzero", "gather"},
    {"radixsort", "sort"},
    {"mergesort", "sort"},
    {"bitonicsort", "sort"},
    {"topk", "sort"},
    {"aten::sort", "sort"},

    {"memcpy", "copy"},
    {"memset", "copy"},
    {"copy_kernel", "copy"},
    {"catarraybatchedcopy", "copy"},
    {"fillfunctor", "copy"},
    {"fill_kernel", "copy"},
    {"transpose_readwrite", "copy"},
    {"nchwtonhwc", "copy"},
    {"nhwctonchw", "copy"},
    {"aten::copy_", "copy"},
    {"aten::_to_copy", "copy"},
    {"aten::clone", "copy"},
    {"aten::contiguous", "copy"},
    {"aten::cat", "copy"},
    {"aten::stack", "copy"},
    {"aten::fill_", "copy"},
    {"aten::zero_", "copy"},

    {"aten::zeros", "copy"},
    {"aten::ones", "copy"},
    {"aten::full", "copy"},
    {"aten::new_zeros", "copy"},
    {"aten::new_ones", "copy"},
    {"aten::new_full", "copy"},
    {"aten::repeat", "copy"},
    {"aten::roll", "copy"},
    {"aten::flip", "copy"},
    {"constant_pad", "copy"},
    {"aten::pad", "copy"},
    {"aten::item", "copy"},
    {"_local_scalar_dense", "copy"},
    {"dropout", "random"},
    {"distribution_", "random"},
    {"philox", "random"},
    {"aten::rand", "random"},
    {"aten::bernoulli", "random"},
    {"aten::multinomial", "random"},
    {"aten::exponential", "random"},
    {"aten::normal", "random"},
    {"aten::log_normal", "random"},
    {"aten::uniform", "random"},

    {"reduce_kernel", "reduction"},
    {"devicereduce", "reduction"},
    {"devicescan", "reduction"},
    {"reduce_1block", "reduction"},
    {"triton_red_", "reduction"},
    {"triton_per_", "reduction"},
    {"aten::sum", "reduction"},
    {"aten::mean", "reduction"},
    {"aten::maximum", "element-wise"},
    {"aten::minimum", "element-wise"},
    {"aten::max", "reduction"},
    {"aten::min", "reduction"},
    {"aten::aminmax", "reduction"},
    {"aten::amin", "reduction"},
    {"aten::amax", "reduction"},
    {"aten::argmin", "reduction"},
    {"aten::prod", "reduction"},
    {"aten::cumprod", "reduction"},
    {"aten::var", "reduction"},
    {"aten::std", "reduction"},
    {"aten::logsumexp", "reduction"},
    {"aten::any", "reduction"},
    {"aten::all", "reduction"},
    {"aten::count_nonzero", "reduction"},
    {"aten::argmax", "reduction"},
    {"aten::cumsum", "reduction"},
    {"aten::logcumsumexp", "reduction"},
    {"aten::norm", "reduction"},
    {"aten::linalg_vector_norm", "reduction"},

    {"elementwise", "element-wise"},
    {"pointwise", "element-wise"},
    {"triton_poi_", "element-wise"},
    {"triu_tril", "element-wise"},
    {"gelu", "element-wise"},
    {"silu", "element-wise"},
    {"relu", "element-wise"},
    {"sigmoid", "element-wise"},
    {"tanh", "element-wise"},
    {"masked_fill", "element-wise"},
    {"aten::add", "element-wise"},
    {"aten::sub", "element-wise"},
    {"aten::rsub", "element-wise"},
    {"aten::mul", "element-wise"},
    {"aten::div", "element-wise"},
    {"aten::neg", "element-wise"},
    {"aten::expand", "view"},
    {"aten::exp", "element-wise"},
    {"aten::pow", "element-wise"},
    {"aten::sqrt", "element-wise"},
    {"aten::rsqrt", "element-wise"},
    {"aten::lerp", "element-wise"},
    {"aten::log", "element-wise"},
    {"aten::clamp", "element-wise"},
    {"aten::clip", "element-wise"},
    {"aten::abs", "element-wise"},
    {"aten::square", "element-wise"},
    {"aten::reciprocal", "element-wise"},
    {"aten::erf", "element-wise"},
    {"aten::sign", "element-wise"},
    {"aten::sgn", "element-wise"},
    {"aten::floor", "element-wise"},
    {"aten::ceil", "element-wise"},
    {"aten::round", "element-wise"},
    {"aten::trunc", "element-wise"},
    {"aten::frac", "element-wise"},
    {"aten::remainder", "element-wise"},
    {"aten::fmod", "element-wise"},
    {"aten::hypot", "element-wise"},
    {"aten::atan", "element-wise"},
    {"aten::tan", "element-wise"},
    {"aten::logical", "element-wise"},
    {"aten::bitwise", "element-wise"},
    {"aten::isnan", "element-wise"},
    {"aten::isinf", "element-wise"},
    {"aten::isfinite", "element-wise"},
    {"aten::nan_to_num", "element-wise"},
    {"aten::softplus", "element-wise"},
    {"aten::elu", "element-wise"},
    {"aten::glu", "element-wise"},
    {"aten::mish", "element-wise"},
    {"aten::hard", "element-wise"},
    {"aten::threshold", "element-wise"},
    {"aten::heaviside", "element-wise"},
    {"aten::where", "element-wise"},
    {"aten::tril", "element-wise"},
    {"aten::triu", "element-wise"},
    {"aten::arange", "element-wise"},
    {"aten::cos", "element-wise"},
    {"aten::sin", "element-wise"},

    {"aten::empty", "allocation"},
    {"aten::resize", "allocation"},
    {"aten::new_empty", "allocation"},
    {"aten::view", "view"},
    {"aten::_unsafe_view", "view"},
    {"aten::_reshape_alias", "view"},
    {"aten::reshape", "view"},
    {"aten::as_strided", "view"},
    {"aten::transpose", "view"},
    {"aten::permute", "view"},
    {"aten::unsqueeze", "view"},
    {"aten::squeeze", "view"},
    {"aten::select", "view"},
    {"aten::slice", "view"},
    {"aten::split", "view"},
    {"aten::chunk", "view"},
    {"aten::narrow", "view"},
    {"aten::unbind", "view"},
    {"aten::unflatten", "view"},
    {"aten::flatten", "view"},
    {"aten::detach", "view"},
    {"aten::alias", "view"},

    /* Short names, behind longer ones that begin with them and are something else. */
    {"aten::tensordot", CLASS_MATMUL},
    {"aten::ger", CLASS_MATMUL},
    {"aten::trace", "reduction"},
    {"aten::tile", "copy"},
    {"aten::type_as", "copy"},
    {"aten::to", "copy"},
    {"aten::t", "view"},
    {"aten::eq", "element-wise"},
    {"aten::ne", "element-wise"},
    {"aten::gt", "element-wise"},
    {"aten::ge", "element-wise"},
    {"aten::lt", "element-wise"},
    {"aten::le", "element-wise"},
    {"autograd::", "autograd"},
    {"torch::autograd", "autograd"},
};
enum { BUILT_IN_COUNT = sizeof BUILT_IN / sizeof *BUILT_IN };

/* Names come again and again, and trying all rules takes long. */
enum { MOST_REMEMBERED = 1 << 16, MOST_REMEMBERED_BYTES = 32 << 20, NO_CLASS = -2 };

struct kernel_classes {
    class_rule *rules; /* the user's, then the built-in ones; patterns in small letters */
    int count, capacity;
    name_table remembered; /* the rule of a name, or NO_CLASS */
    size_t remembered_bytes;
    text lowered; /* the name that is looked for */
    arena *strings;
};

/* ---- matching ---- */

static void lower(char *name) {
    for (; *name; name++)
        *name = (char)tolower((unsigned char)*name);
}

/* Whether the pattern is somewhere in the name: as if it began and ended with '*'. Each part between
 * stars is looked for behind the one before; the first place is as good as any. */
static bool matches(const char *pattern, const char *name) {
    for (;;) {
        size_t bytes = strcspn(pattern, "*");
        if (bytes) {
            name = memmem(name, strlen(name), pattern, bytes);
            if (!name)
                return false;
            name += bytes;
        }
        if (!pattern[bytes])
            return true;
        pattern += bytes + 1;
    }
}

static int find_rule(kernel_classes *classes, const char *name) {
    classes->lowered.length = 0;
    text_append(&classes->lowered, name);
    lower(classes->lowered.data);
    for (int i = 0; i < classes->count; i++)
        if (matches(classes->rules[i].pattern, classes->lowered.data))
            return i;
    return NO_CLASS;
}

static const char *find(kernel_classes *classes, const char *name) {
    int rule = name_table_find(&classes->remembered, name);
    if (rule == -1) {
        size_t bytes = strlen(name);
        rule = find_rule(classes, name);
        if (classes->remembered.count < MOST_REMEMBERED &&
            bytes <= MOST_REMEMBERED_BYTES - classes->remembered_bytes) {
            classes->remembered_bytes += bytes;
            name_table_set(&classes->remembered, arena_copy_string(classes->strings, name), rule);
        }
    }
    return rule == NO_CLASS ? NULL : classes->rules[rule].class_name;
}

const char *kernel_classes_find(kernel_classes *classes, const char *kernel, const char *op) {
    const char *found = kernel ? find(classes, kernel) : NULL;
    if (!found && op)
        found = find(classes, op);
    return found ? found : CLASS_OTHER;
}

/* ---- the user's file ---- */

/* Without spaces at either end; changes `line`. */
static char *trim(char *line) {
    while (isspace((unsigned char)*line))
        line++;
    char *end = line + strlen(line);
    while (end > line && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    return line;
}

static void add_rule(kernel_classes *classes, const char *pattern, const char *class_name) {
    char *lowered = arena_copy_string(classes->strings, pattern);
    lower(lowered);
    MEMORY_GROW(classes->rules, classes->count, classes->capacity);
    classes->rules[classes->count++] = (class_rule){lowered, class_name};
}

static dyno_status add_line(kernel_classes *classes, char *line, const char *path, int number) {
    char *rule = trim(line), *comma = strrchr(rule, ',');
    if (!*rule || *rule == '#')
        return DYNO_OK;
    if (!comma)
        return dyno_fail(DYNO_INVALID,
                         "'%s': line %d: '%s' has no comma; a rule is \"pattern, class\"", path,
                         number, text_quote(rule).text);
    *comma = '\0';
    const char *pattern = trim(rule), *class_name = trim(comma + 1);
    if (!pattern[strspn(pattern, "*")])
        return dyno_fail(DYNO_INVALID,
                         "'%s': line %d: the pattern is '%s', which is in every name; write a part "
                         "of the kernel's name before the comma",
                         path, number, pattern);
    if (!*class_name)
        return dyno_fail(DYNO_INVALID,
                         "'%s': line %d: there is no class behind the last comma; a rule is "
                         "\"pattern, class\"",
                         path, number);
    if (strlen(class_name) > MOST_CLASS_BYTES)
        return dyno_fail(DYNO_INVALID, "'%s': line %d: the class has %zu bytes, the limit is %d",
                         path, number, strlen(class_name), MOST_CLASS_BYTES);
    add_rule(classes, pattern, arena_copy_string(classes->strings, class_name));
    return DYNO_OK;
}

static dyno_status add_file(kernel_classes *classes, const char *path) {
    char *bytes;
    size_t size;
    RETURN_IF_FAILED(file_read_all(path, CLASSES_FILE_LIMIT, &bytes, &size));
    dyno_status status = DYNO_OK;
    if (strlen(bytes) != size)
        status = dyno_fail(DYNO_INVALID, "'%s' is no text: it holds a NUL", path);
    int number = 1;
    char *begin =
        strncmp(bytes, "\xef\xbb\xbf", 3) == 0 ? bytes + 3 : bytes; /* a byte order mark */
    for (char *line = begin; line && status == DYNO_OK; number++) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        status = add_line(classes, line, path, number);
        line = end ? end + 1 : NULL;
    }
    free(bytes);
    return status;
}

dyno_status kernel_classes_create(const char *path, kernel_classes **out) {
    kernel_classes *classes = memory_allocate(1, sizeof *classes);
    classes->strings = arena_create();
    dyno_status status = path ? add_file(classes, path) : DYNO_OK;
    for (int i = 0; i < BUILT_IN_COUNT; i++)
        add_rule(classes, BUILT_IN[i].pattern, BUILT_IN[i].class_name);
    if (status != DYNO_OK) {
        kernel_classes_destroy(classes);
        classes = NULL;
    }
    *out = classes;
    return status;
}

void kernel_classes_destroy(kernel_classes *classes) {
    if (!classes)
        return;
    name_table_release(&classes->remembered);
    text_release(&classes->lowered);
    arena_destroy(classes->strings);
    free(classes->rules);
    free(classes);
}
