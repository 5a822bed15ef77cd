#include "runtime/cuda/ranges.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

/* A domain of our own, so that ranges of libraries (cuBLAS has some) can be told apart. */
static nvtxDomainHandle_t domain(void) {
    static nvtxDomainHandle_t ours;
    if (!ours)
        ours = nvtxDomainCreateA("dyno");
    return ours;
}

void cuda_push_range(device *d, const char *name) {
    (void)d;
    nvtxEventAttributes_t event = {0};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = name;
    (void)nvtxDomainRangePushEx(domain(), &event);
}

void cuda_pop_range(device *d) {
    (void)d;
    (void)nvtxDomainRangePop(domain());
}
#else
void cuda_push_range(device *d, const char *name) {
    (void)d;
    (void)name;
}

void cuda_pop_range(device *d) { (void)d; }
#endif
