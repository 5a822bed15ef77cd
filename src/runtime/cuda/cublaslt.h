/* cublaslt.h - the functions of cuBLASLt, loaded at run time: the library is half a gigabyte, and a
 * GPU can be described without it. */
#ifndef RUNTIME_CUDA_CUBLASLT_H
#define RUNTIME_CUDA_CUBLASLT_H

#include <cublasLt.h>

#include "base/status.h"

/* X(field, the function of cublasLt.h) */
#define FOR_EACH_CUBLASLT_FUNCTION(X)                                                              \
    X(version, cublasLtGetVersion)                                                                 \
    X(status_string, cublasLtGetStatusString)                                                      \
    X(create, cublasLtCreate)                                                                      \
    X(destroy, cublasLtDestroy)                                                                    \
    X(operation_create, cublasLtMatmulDescCreate)                                                  \
    X(operation_destroy, cublasLtMatmulDescDestroy)                                                \
    X(operation_set, cublasLtMatmulDescSetAttribute)                                               \
    X(layout_create, cublasLtMatrixLayoutCreate)                                                   \
    X(layout_destroy, cublasLtMatrixLayoutDestroy)                                                 \
    X(layout_set, cublasLtMatrixLayoutSetAttribute)                                                \
    X(preference_create, cublasLtMatmulPreferenceCreate)                                           \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy)                                         \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute)                                        \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic)                                                   \
    X(algorithm_check, cublasLtMatmulAlgoCheck)                                                    \
    X(multiply, cublasLtMatmul)

typedef struct cublaslt_functions {
#define FIELD(field, function) __typeof__(&function) field;
    FOR_EACH_CUBLASLT_FUNCTION(FIELD)
#undef FIELD
} cublaslt_functions;

NODISCARD dyno_status cublaslt_load(const cublaslt_functions **out);

/* Translates its status codes. */
NODISCARD dyno_status cublaslt_status(cublasStatus_t status, const char *what);

#endif
