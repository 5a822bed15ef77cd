/* cupti.h - the functions of CUPTI, NVIDIA's profiling interface, loaded at run time: a machine
 * without it only lacks the GPU's own activity records. */
#ifndef RUNTIME_CUDA_CUPTI_H
#define RUNTIME_CUDA_CUPTI_H

#include <cupti.h>

#include "base/status.h"

/* X(field, the function of cupti.h) */
#define FOR_EACH_CUPTI_FUNCTION(X)                                                                 \
    X(result_string, cuptiGetResultString)                                                         \
    X(subscribe, cuptiSubscribe)                                                                   \
    X(unsubscribe, cuptiUnsubscribe)                                                               \
    X(callback_enable, cuptiEnableCallback)                                                        \
    X(activity_register, cuptiActivityRegisterCallbacks)                                           \
    X(activity_enable, cuptiActivityEnable)                                                        \
    X(activity_disable, cuptiActivityDisable)                                                      \
    X(activity_flush, cuptiActivityFlushAll)                                                       \
    X(activity_next, cuptiActivityGetNextRecord)                                                   \
    X(activity_dropped, cuptiActivityGetNumDroppedRecords)                                         \
    X(callback_name, cuptiGetCallbackName)                                                         \
    X(external_push, cuptiActivityPushExternalCorrelationId)                                       \
    X(external_pop, cuptiActivityPopExternalCorrelationId)                                         \
    X(node_id, cuptiGetGraphNodeId)                                                                \
    X(timestamp, cuptiGetTimestamp)

typedef struct cupti_functions {
#define FIELD(field, function) __typeof__(&function) field;
    FOR_EACH_CUPTI_FUNCTION(FIELD)
#undef FIELD
} cupti_functions;

NODISCARD dyno_status cupti_load(const cupti_functions **out);

/* Translates its status codes: all become DYNO_UNSUPPORTED, for nothing depends on it. */
NODISCARD dyno_status cupti_status(CUptiResult result, const char *what);

#endif
