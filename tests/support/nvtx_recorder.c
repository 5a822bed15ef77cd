/* nvtx_recorder.c - stands in for nsys and ncu: writes what programs tell NVTX to a file.
 *
 * NVTX loads the library that NVTX_INJECTION64_PATH names and calls InitializeInjectionNvtx2, once
 * for the program and once for each of its libraries that has NVTX of its own. Every call is one line
 * of the file that NVTX_RECORDER_FILE names, with tabs between: process, thread, call, domain, name.
 * Names in wide characters are not recorded: dyno gives none. With NVTX_RECORDER_REFUSES in the
 * environment it refuses to listen. */
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void record(const char *call, nvtxDomainHandle_t domain, const char *name) {
    const char *path = getenv("NVTX_RECORDER_FILE");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (file < 0)
        return;
    char line[1024];
    int length = snprintf(line, sizeof line, "%d\t%d\t%s\t%s\t%s\n", (int)getpid(), (int)gettid(),
                          call, domain ? (const char *)domain : "", name);
    /* One write is one line, also where several threads write. A line that is cut would say less than
     * was told. */
    if ((size_t)length >= sizeof line || write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

static const char *message_of(const nvtxEventAttributes_t *event) {
    if (event->version != NVTX_VERSION || event->size != NVTX_EVENT_ATTRIB_STRUCT_SIZE)
        return "(attributes of another version)";
    if (event->messageType == NVTX_MESSAGE_TYPE_ASCII)
        return event->message.ascii;
    if (event->messageType == NVTX_MESSAGE_TYPE_REGISTERED)
        return (const char *)event->message.registered;
    return "(no name)";
}

/* ---- calls with a domain; a domain and a registered string are handled by a copy of their names ---- */

static nvtxDomainHandle_t NVTX_API domain_create(const char *name) {
    nvtxDomainHandle_t domain = (nvtxDomainHandle_t)strdup(name);
    record("domain", domain, "");
    return domain;
}

static void NVTX_API domain_destroy(nvtxDomainHandle_t domain) { free(domain); }

static nvtxStringHandle_t NVTX_API domain_string(nvtxDomainHandle_t domain, const char *name) {
    (void)domain;
    return (nvtxStringHandle_t)strdup(name);
}

static int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
    record("push", domain, message_of(event));
    return NVTX_NO_PUSH_POP_TRACKING;
}

static int NVTX_API domain_pop(nvtxDomainHandle_t domain) {
    record("pop", domain, "");
    return NVTX_NO_PUSH_POP_TRACKING;
}

static nvtxRangeId_t start(nvtxDomainHandle_t domain, const char *name) {
    static atomic_ullong started;
    nvtxRangeId_t id = atomic_fetch_add(&started, 1) + 1;
    char numbered[512];
    snprintf(numbered, sizeof numbered, "%llu %s", (unsigned long long)id, name);
    record("start", domain, numbered);
    return id;
}

static nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain,
                                           const nvtxEventAttributes_t *event) {
    return start(domain, message_of(event));
}

static void NVTX_API domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id) {
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)id);
    record("end", domain, number);
}

static void NVTX_API domain_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
    record("mark", domain, message_of(event));
}

/* ---- calls without one ---- */

static int NVTX_API push_event(const nvtxEventAttributes_t *event) {
    return domain_push(NULL, event);
}

static int NVTX_API push(const char *name) {
    record("push", NULL, name);
    return NVTX_NO_PUSH_POP_TRACKING;
}

static int NVTX_API pop(void) { return domain_pop(NULL); }

static nvtxRangeId_t NVTX_API start_event(const nvtxEventAttributes_t *event) {
    return domain_start(NULL, event);
}

static nvtxRangeId_t NVTX_API start_named(const char *name) { return start(NULL, name); }

static void NVTX_API end(nvtxRangeId_t id) { domain_end(NULL, id); }

static void NVTX_API mark_event(const nvtxEventAttributes_t *event) { domain_mark(NULL, event); }

static void NVTX_API mark(const char *name) { record("mark", NULL, name); }

static void NVTX_API name_thread(uint32_t thread, const char *name) {
    (void)thread;
    record("thread", NULL, name);
}

/* ---- installing them ---- */

typedef struct callback {
    NvtxCallbackModule module;
    unsigned id;
    NvtxFunctionPointer function;
} callback;

#define CORE(name, function)                                                                       \
    { NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_##name, (NvtxFunctionPointer)function }
#define CORE2(name, function)                                                                      \
    { NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_##name, (NvtxFunctionPointer)function }
static const callback CALLBACKS[] = {
    CORE(MarkEx, mark_event),
    CORE(MarkA, mark),
    CORE(RangeStartEx, start_event),
    CORE(RangeStartA, start_named),
    CORE(RangeEnd, end),
    CORE(RangePushEx, push_event),
    CORE(RangePushA, push),
    CORE(RangePop, pop),
    CORE(NameOsThreadA, name_thread),
    CORE2(DomainMarkEx, domain_mark),
    CORE2(DomainRangeStartEx, domain_start),
    CORE2(DomainRangeEnd, domain_end),
    CORE2(DomainRangePushEx, domain_push),
    CORE2(DomainRangePop, domain_pop),
    CORE2(DomainRegisterStringA, domain_string),
    CORE2(DomainCreateA, domain_create),
    CORE2(DomainDestroy, domain_destroy),
};
#undef CORE
#undef CORE2

/* The number of functions of each module that NVIDIA's header knows, with 0, which none has. */
static unsigned size_of(NvtxCallbackModule module) {
    switch (module) {
    case NVTX_CB_MODULE_CORE:
        return NVTX_CBID_CORE_SIZE;
    case NVTX_CB_MODULE_CUDA:
        return NVTX_CBID_CUDA_SIZE;
    case NVTX_CB_MODULE_OPENCL:
        return NVTX_CBID_OPENCL_SIZE;
    case NVTX_CB_MODULE_CUDART:
        return NVTX_CBID_CUDART_SIZE;
    case NVTX_CB_MODULE_CORE2:
        return NVTX_CBID_CORE2_SIZE;
    case NVTX_CB_MODULE_SYNC:
        return NVTX_CBID_SYNC_SIZE;
    default:
        return 0;
    }
}

/* As strict as a tool may be: every module has all of its slots, and the table ends behind them. */
static int tables_are_whole(const NvtxExportTableCallbacks *callbacks) {
    for (int module = NVTX_CB_MODULE_CORE; module < NVTX_CB_MODULE_SIZE; module++) {
        NvtxFunctionTable table = NULL;
        unsigned count = 0, wanted = size_of((NvtxCallbackModule)module);
        if (!callbacks->GetModuleFunctionTable((NvtxCallbackModule)module, &table, &count) ||
            count != wanted || table[0] || table[count])
            return 0;
        for (unsigned i = 1; i < count; i++)
            if (!table[i])
                return 0;
    }
    return 1;
}

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t exports) {
    const NvtxExportTableVersionInfo *version = exports(NVTX_ETID_VERSIONINFO);
    const NvtxExportTableCallbacks *callbacks = exports(NVTX_ETID_CALLBACKS);
    if (!version || version->struct_size < sizeof *version || version->version < 3 || !callbacks ||
        callbacks->struct_size < sizeof *callbacks || !tables_are_whole(callbacks))
        return 0;
    version->SetInjectionNvtxVersion(NVTX_VERSION);
    for (size_t i = 0; i < sizeof CALLBACKS / sizeof *CALLBACKS; i++) {
        NvtxFunctionTable table;
        callbacks->GetModuleFunctionTable(CALLBACKS[i].module, &table, NULL);
        *table[CALLBACKS[i].id] = CALLBACKS[i].function;
    }
    /* NVTX unloads a tool that refuses: its functions are there, and may not be called. */
    return !getenv("NVTX_RECORDER_REFUSES");
}
