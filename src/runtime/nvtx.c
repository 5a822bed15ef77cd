/* nvtx.c - a program's side of NVTX's injection interface, declared by hand: its headers are absent
 * where dyno is built without CUDA. The interface is stable; NVIDIA's own code for this side is in
 * nvtx3/nvtxDetail of the CUDA toolkit, nvtxTypes.h and nvtxInit.h.
 *
 * The tool's library is loaded and its InitializeInjectionNvtx2 called. That asks us for the table of
 * callbacks, which leads it to the slots of NVTX's functions, and writes its own functions into the
 * slots. Afterwards a call of NVTX is a call through a slot. The slots of every module are there,
 * because a tool may refuse a program that lacks some; we call three of them. */
#include "runtime/nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the interface ---- */

typedef void (*slot)(void);

enum { EXPORT_CALLBACKS = 1, EXPORT_VERSION = 3 };
enum { MODULE_COUNT = 7, MODULE_CORE2 = 5 };
enum { DOMAIN_RANGE_PUSH = 4, DOMAIN_RANGE_POP = 5, DOMAIN_CREATE = 12 }; /* of CORE2 */
enum { NVTX_VERSION = 3, MESSAGE_IS_ASCII = 1 };

typedef struct export_callbacks {
    size_t bytes; /* of this */
    int (*module_slots)(int module, slot ***table, unsigned *count);
} export_callbacks;

typedef struct export_version {
    size_t bytes; /* of this */
    uint32_t version, reserved;
    void (*set_tools_version)(uint32_t version);
} export_version;

typedef struct event {
    uint16_t version, bytes;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
} event;

typedef struct nvtx_domain nvtx_domain; /* opaque */
typedef const void *export_function(uint32_t table);
typedef int initialize_function(export_function *exports);

/* ---- what we offer ---- */

/* Functions of invalid, CORE, CUDA, OPENCL, CUDART, CORE2 and SYNC. Their numbers begin at 1. */
static const unsigned FUNCTIONS[MODULE_COUNT] = {0, 15, 8, 14, 6, 15, 6};
enum { MOST_FUNCTIONS = 15 };

static slot slots[MODULE_COUNT][MOST_FUNCTIONS + 1];
static slot *tables[MODULE_COUNT][MOST_FUNCTIONS + 2]; /* NULL at both ends */

static int module_slots(int module, slot ***table, unsigned *count) {
    if (module <= 0 || module >= MODULE_COUNT)
        return 0;
    for (unsigned i = 1; i <= FUNCTIONS[module]; i++)
        tables[module][i] = &slots[module][i];
    if (table)
        *table = tables[module];
    if (count)
        *count = FUNCTIONS[module] + 1;
    return 1;
}

static void set_tools_version(uint32_t version) { (void)version; }

static const void *exports(uint32_t table) {
    static const export_callbacks CALLBACKS = {sizeof CALLBACKS, module_slots};
    static const export_version VERSION = {sizeof VERSION, NVTX_VERSION, 0, set_tools_version};
    return table == EXPORT_CALLBACKS ? (const void *)&CALLBACKS
           : table == EXPORT_VERSION ? (const void *)&VERSION
                                     : NULL;
}

/* ---- ranges ---- */

static bool is_loaded;

typedef nvtx_domain *create_function(const char *name);
typedef int push_function(nvtx_domain *in, const event *what);
typedef int pop_function(nvtx_domain *in);

/* Slots are read at every call, because a tool may fill them later than in its initialization. */
static slot core2(int function) { return slots[MODULE_CORE2][function]; }

/* NULL, which is NVTX's own domain, where the tool makes none. */
static nvtx_domain *our_domain(void) {
    static _Atomic(nvtx_domain *) ours;
    create_function *create = (create_function *)core2(DOMAIN_CREATE);
    if (!ours && create)
        ours = create("dyno");
    return ours;
}

static void push(void *context, const char *name) {
    (void)context;
    push_function *function = (push_function *)core2(DOMAIN_RANGE_PUSH);
    event what = {.version = NVTX_VERSION,
                  .bytes = sizeof what,
                  .message_type = MESSAGE_IS_ASCII,
                  .message = name};
    if (function)
        (void)function(our_domain(), &what);
}

static void pop(void *context) {
    (void)context;
    pop_function *function = (pop_function *)core2(DOMAIN_RANGE_POP);
    if (function)
        (void)function(our_domain());
}

static bool initialize(void *library) {
    initialize_function *function;
    void *found = dlsym(library, "InitializeInjectionNvtx2");
    memcpy(&function, &found, sizeof function);
    return function && function(exports) != 0;
}

static void load(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    is_loaded = library && initialize(library);
    if (library && !is_loaded)
        dlclose(library);
}

const range_listener *nvtx_listener(void) {
    static const range_listener LISTENER = {.push = push, .pop = pop};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_loaded ? &LISTENER : NULL;
}
