/* squares_op.c - integers are added, so the order of terms makes no difference.
 *
 * A block of elements is added up in 64 bits, in several tables by turns, because most elements of a
 * gradient have one of a few exponents and each addition would wait for the one before it. Tasks then
 * add blocks in 128 bits, each in a slot of the workspace. */
#include "ops/squares/squares.h"

#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "graph/op.h"
#include "ops/cast/convert.h"
#include "ops/kernel.h"

typedef unsigned __int128 wide_integer;

enum { TABLES = 4, MOST_SLOTS = 32, PLACE_OF_OTHERS = 0 };

/* ---- one sum ---- */

typedef struct exact_sum {
    wide_integer by_exponent[SQUARES_EXPONENTS];
    uint64_t nans, infinities;
} exact_sum;

static void add_other(exact_sum *sum, uint32_t bits) {
    *(bits & 0x7fffffu ? &sum->nans : &sum->infinities) += 1;
}

/* Denormals have the scale of exponent 1 and no hidden bit. */
static inline int place_of(uint32_t bits, uint64_t *square) {
    int exponent = (int)(bits >> 23 & 0xffu);
    uint64_t mantissa = (bits & 0x7fffffu) | (uint64_t)(exponent > 0) << 23;
    *square = mantissa * mantissa;
    return exponent > 0 ? exponent : 1;
}

/* At most SQUARES_BLOCK elements. */
static void add_block(exact_sum *sum, int64_t count, const float *x) {
    uint64_t tables[TABLES][SQUARES_EXPONENTS + 1];
    memset(tables, 0, sizeof tables);
    int64_t i = 0;
    for (; i + TABLES <= count; i += TABLES)
        for (int t = 0; t < TABLES; t++) {
            uint64_t square;
            int place = place_of(bits_from_float(x[i + t]), &square);
            tables[t][place] += square;
        }
    for (; i < count; i++) {
        uint64_t square;
        int place = place_of(bits_from_float(x[i]), &square);
        tables[0][place] += square;
    }
    uint64_t others = 0;
    for (int t = 0; t < TABLES; t++) {
        for (int e = 1; e < SQUARES_EXPONENTS; e++)
            sum->by_exponent[e] += tables[t][e];
        others |= tables[t][SQUARES_EXPONENTS];
    }
    for (i = 0; others && i < count; i++)
        if ((bits_from_float(x[i]) >> 23 & 0xffu) == 0xffu)
            add_other(sum, bits_from_float(x[i]));
}

static void merge(exact_sum *into, const exact_sum *from) {
    for (int e = 1; e < SQUARES_EXPONENTS; e++)
        into->by_exponent[e] += from->by_exponent[e];
    into->nans += from->nans;
    into->infinities += from->infinities;
}

static void store(const exact_sum *sum, double *limbs) {
    for (int e = 1; e < SQUARES_EXPONENTS; e++)
        for (int l = 0; l < SQUARES_LIMBS; l++)
            limbs[e * SQUARES_LIMBS + l] = (double)(uint32_t)(sum->by_exponent[e] >> 32 * l);
    double *others = limbs + PLACE_OF_OTHERS * SQUARES_LIMBS;
    others[0] = (double)sum->nans;
    others[1] = (double)sum->infinities;
    others[2] = 0;
}

static void load(const double *limbs, exact_sum *sum) {
    memset(sum, 0, sizeof *sum);
    for (int e = 1; e < SQUARES_EXPONENTS; e++)
        for (int l = 0; l < SQUARES_LIMBS; l++)
            sum->by_exponent[e] += (wide_integer)limbs[e * SQUARES_LIMBS + l] << 32 * l;
    const double *others = limbs + PLACE_OF_OTHERS * SQUARES_LIMBS;
    sum->nans = (uint64_t)others[0];
    sum->infinities = (uint64_t)others[1];
}

/* From small to large, always in this order. */
static double root(const double *limbs, int64_t parts) {
    exact_sum all = {0}, part;
    for (int64_t i = 0; i < parts; i++) {
        load(limbs + i * SQUARES_LENGTH, &part);
        merge(&all, &part);
    }
    if (all.nans || all.infinities)
        return all.nans ? (double)NAN : (double)INFINITY;
    double total = 0;
    for (int e = 1; e < SQUARES_EXPONENTS; e++)
        total += ldexp((double)all.by_exponent[e], 2 * (e - 150));
    return sqrt(total);
}

/* ---- squares ---- */

static dyno_status infer_squares(const node *n, value_type *outputs) {
    for (int i = 0; i < n->input_count; i++)
        if (!dtype_is_float(n->inputs[i]->type) || n->inputs[i]->type == DTYPE_F64)
            return dyno_fail(DYNO_INVALID, "input %d is %s, not f32, bf16 or f16", i,
                             dtype_name(n->inputs[i]->type));
    outputs[0] = (value_type){DTYPE_F64, SHAPE(SQUARES_LENGTH)};
    return DYNO_OK;
}

static op_cost cost_squares(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    for (int i = 0; i < n->input_count; i++)
        cost.flops += 2 * (double)shape_elements(&n->inputs[i]->shape);
    return cost;
}

static void reference_squares(const node *n, const double *const *inputs, double *const *outputs) {
    exact_sum sum = {0};
    for (int i = 0; i < n->input_count; i++)
        for (int64_t j = 0; j < shape_elements(&n->inputs[i]->shape); j++) {
            float x = (float)inputs[i][j];
            add_block(&sum, 1, &x);
        }
    store(&sum, outputs[0]);
}

typedef struct squares_context {
    const tensor *in;
    exact_sum *slots;
    int64_t slot_count;
} squares_context;

static int64_t blocks_of(const tensor *t) {
    return (shape_elements(&t->shape) + SQUARES_BLOCK - 1) / SQUARES_BLOCK;
}

/* Slot s has the blocks s, s + slot_count, ... */
static void add_slots(void *context, int64_t begin, int64_t end) {
    const squares_context *c = context;
    int64_t elements = shape_elements(&c->in->shape), blocks = blocks_of(c->in);
    float wide[SQUARES_BLOCK];
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t block = slot; block < blocks; block += c->slot_count) {
            int64_t start = block * SQUARES_BLOCK, left = elements - start;
            int64_t n = left < SQUARES_BLOCK ? left : SQUARES_BLOCK;
            const float *x = wide;
            if (c->in->type == DTYPE_F32)
                x = (const float *)c->in->data + start;
            else
                convert_low_to_f32(c->in->type, n, (const uint16_t *)c->in->data + start, wide);
            add_block(&c->slots[slot], n, x);
        }
}

static int64_t slots_for(const kernel_args *args) {
    int64_t most = 1;
    for (int i = 0; i < args->input_count; i++)
        most = blocks_of(&args->inputs[i]) > most ? blocks_of(&args->inputs[i]) : most;
    return most < MOST_SLOTS ? most : MOST_SLOTS;
}

static size_t squares_workspace(const kernel_args *args) {
    return (size_t)slots_for(args) * sizeof(exact_sum);
}

static dyno_status run_squares(const kernel_args *args) {
    squares_context c = {.slots = args->workspace, .slot_count = slots_for(args)};
    memset(c.slots, 0, (size_t)c.slot_count * sizeof *c.slots);
    for (int i = 0; i < args->input_count; i++) {
        c.in = &args->inputs[i];
        threads_for(c.slot_count, 1, add_slots, &c);
    }
    for (int64_t s = 1; s < c.slot_count; s++)
        merge(&c.slots[0], &c.slots[s]);
    store(&c.slots[0], args->outputs[0].data);
    return DYNO_OK;
}

static const char *reject(const kernel_args *args) {
    for (int i = 0; i < args->input_count; i++)
        if (!tensor_is_contiguous(&args->inputs[i]))
            return "inputs must be dense";
    return NULL;
}

/* Two integers for each exponent, and the two counts. */
static size_t squares_workspace_cuda(const kernel_args *args) {
    (void)args;
    return (size_t)SQUARES_EXPONENTS * 2 * sizeof(uint64_t);
}

static const kernel squares_exact = {.name = "squares_exact",
                                     .target = TARGET_CPU,
                                     .reject = reject,
                                     .workspace_bytes = squares_workspace,
                                     .run = run_squares};
static const kernel squares_cuda = {.name = "squares_cuda",
                                    .target = TARGET_CUDA,
                                    .reject = reject,
                                    .workspace_bytes = squares_workspace_cuda};

const op op_squares = {.name = "squares",
                       .summary = "exact sum of the squares of all inputs, by exponent",
                       .class = OP_CLASS_OPTIMIZER,
                       .input_count = OP_ANY_COUNT,
                       .output_count = 1,
                       .infer = infer_squares,
                       .cost = cost_squares,
                       .reference = reference_squares,
                       .kernels = (const kernel *const[]){&squares_exact, &squares_cuda, NULL}};

value *build_squares(graph *g, value *const *values, int count) {
    return graph_add_node(g, &op_squares, values, count, NULL, 0);
}

/* ---- the root ---- */

static dyno_status infer_root(const node *n, value_type *outputs) {
    const value *sums = n->inputs[0];
    if (sums->type != DTYPE_F64 || sums->shape.rank != 1 || sums->shape.dim[0] % SQUARES_LENGTH)
        return dyno_fail(DYNO_INVALID, "%s[%s] is no list of sums of squares, f64[k * %d]",
                         dtype_name(sums->type), shape_format(&sums->shape).text, SQUARES_LENGTH);
    outputs[0] = (value_type){DTYPE_F32, SHAPE_SCALAR};
    return DYNO_OK;
}

static op_cost cost_root(const node *n) { return op_cost_streaming(n, 1); }

static void reference_root(const node *n, const double *const *inputs, double *const *outputs) {
    outputs[0][0] = root(inputs[0], n->inputs[0]->shape.dim[0] / SQUARES_LENGTH);
}

static dyno_status run_root(const kernel_args *args) {
    *(float *)args->outputs[0].data =
        (float)root(args->inputs[0].data, args->inputs[0].shape.dim[0] / SQUARES_LENGTH);
    return DYNO_OK;
}

static const kernel root_exact = {
    .name = "root_of_squares_exact", .target = TARGET_CPU, .reject = reject, .run = run_root};
static const kernel root_cuda = {
    .name = "root_of_squares_cuda", .target = TARGET_CUDA, .reject = reject};

const op op_root_of_squares = {.name = "root_of_squares",
                               .summary = "Euclidean norm from exact sums of squares",
                               .class = OP_CLASS_OPTIMIZER,
                               .input_count = 1,
                               .output_count = 1,
                               .infer = infer_root,
                               .cost = cost_root,
                               .reference = reference_root,
                               .kernels = (const kernel *const[]){&root_exact, &root_cuda, NULL}};

value *build_root_of_squares(graph *g, value *sums) {
    return graph_add_node(g, &op_root_of_squares, &sums, 1, NULL, 0);
}
