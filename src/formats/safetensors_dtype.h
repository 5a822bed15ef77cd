/* safetensors_dtype.h - the format's names for element types. For safetensors*.c only. */
#ifndef FORMATS_SAFETENSORS_DTYPE_H
#define FORMATS_SAFETENSORS_DTYPE_H

#include "tensor/dtype.h"

static const char *const safetensors_dtype_names[DTYPE_COUNT] = {
    [DTYPE_F64] = "F64", [DTYPE_F32] = "F32", [DTYPE_BF16] = "BF16",
    [DTYPE_F16] = "F16", [DTYPE_I64] = "I64", [DTYPE_I32] = "I32",
    [DTYPE_U16] = "U16", [DTYPE_U8] = "U8",   [DTYPE_BOOL] = "BOOL",
};

#endif
