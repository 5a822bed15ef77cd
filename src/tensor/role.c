#include "tensor/role.h"

const char *role_name(role r) {
    static const char *const names[ROLE_COUNT] = {
        "input", "parameter", "optimizer-state", "gradient", "activation", "saved", "workspace"};
    return names[r];
}

const char *phase_name(phase p) {
    static const char *const names[PHASE_COUNT] = {"forward", "backward", "optimizer",
                                                   "communication"};
    return names[p];
}
