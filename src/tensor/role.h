/* role.h - what memory is for, and in which phase it is used: the two labels that reports of bytes
 * and of time are grouped by. */
#ifndef TENSOR_ROLE_H
#define TENSOR_ROLE_H

typedef enum role {
    ROLE_INPUT,           /* given by the caller for each step: tokens, learning rate */
    ROLE_PARAMETER,       /* a weight */
    ROLE_OPTIMIZER_STATE, /* Adam's moments */
    ROLE_GRADIENT,        /* of a parameter */
    ROLE_ACTIVATION,      /* born and used up within a phase, gradients of activations included */
    ROLE_SAVED,           /* made in the forward, used again in the backward */
    ROLE_WORKSPACE,       /* a kernel's scratch; never a value of the graph */
    ROLE_COUNT
} role;

typedef enum phase {
    PHASE_FORWARD,
    PHASE_BACKWARD,
    PHASE_OPTIMIZER,
    PHASE_COMMUNICATION,
    PHASE_COUNT
} phase;

const char *role_name(role r);   /* "optimizer-state" */
const char *phase_name(phase p); /* "forward" */

#endif
