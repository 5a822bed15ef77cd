/* attention_problem.cuh - problems for attention's CUDA kernels: drawn numbers, operands in any
 * layout on host and device, and a run of the kernels on them. Part of attention_check.cu. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/attention/cuda/attention_cuda.cuh"
#include "ops/attention/cuda/hopper_host.cuh"

extern "C" {
cuda_run dyno_attention_cuda, dyno_attention_gradient_cuda;
cuda_run dyno_attention_cuda_f32, dyno_attention_gradient_cuda_f32;
cuda_list_tiles dyno_attention_cuda_tiles, dyno_attention_gradient_cuda_tiles;
cuda_list_tiles dyno_attention_cuda_f32_tiles, dyno_attention_gradient_cuda_f32_tiles;
}

/* ---- what the module would give the kernels ---- */

struct attributes {
    int is_causal;
    double scale;
    int is_tf32;
    int tile_number; /* 0: as the kernel thinks best; else that one of its tiles, round and round */
    cuda_tile tile;
};
extern "C" int64_t cuda_integer(const cuda_args *args, const char *) {
    return args->attributes->is_causal;
}
extern "C" int64_t cuda_integer_or(const cuda_args *args, const char *name, int64_t otherwise) {
    const cuda_tile *tile = &args->attributes->tile;
    return strcmp(name, "tile_queries") == 0 ? tile->queries
           : strcmp(name, "tile_keys") == 0  ? tile->keys
           : strcmp(name, "tf32") == 0       ? args->attributes->is_tf32
                                             : otherwise;
}
extern "C" double cuda_real(const cuda_args *args, const char *) { return args->attributes->scale; }

/* ---- numbers ---- */

static uint64_t random_state = 1;
static uint32_t next_random(void) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(random_state >> 33);
}
static double uniform(void) { return (next_random() + 0.5) / 2147483648.0; }
static int below(int limit) { return (int)(next_random() % (uint32_t)limit); }
/* Sum of uniforms: normal enough, and fast. */
static float normal(void) {
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return (float)sum;
}

static uint16_t to_low(int type, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == CUDA_DTYPE_BF16)
        return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    /* Normal f16 only, which is all that is drawn here; below that, zero. */
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude < 0x38800000u)
        return (uint16_t)sign;
    return (uint16_t)(sign | ((magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13));
}
static float from_low(int type, uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float number;
    if (type == CUDA_DTYPE_F16) {
        int exponent = x >> 10 & 31, fraction = x & 1023;
        if (exponent == 31)
            return fraction ? NAN : x >> 15 ? -INFINITY : INFINITY;
        float size = exponent ? ldexpf((float)(fraction + 1024), exponent - 25)
                              : ldexpf((float)fraction, -24);
        return x >> 15 ? -size : size;
    }
    memcpy(&number, &bits, sizeof number);
    return number;
}
static int bytes_of(int type) { return type == CUDA_DTYPE_F32 ? 4 : 2; }
static float load(int type, const char *at) {
    float number;
    uint16_t low;
    if (type == CUDA_DTYPE_F32) {
        memcpy(&number, at, 4);
        return number;
    }
    memcpy(&low, at, 2);
    return from_low(type, low);
}
static void store(int type, char *at, float x) {
    uint16_t low = to_low(type, x);
    memcpy(at, type == CUDA_DTYPE_F32 ? (void *)&x : (void *)&low, (size_t)bytes_of(type));
}

/* ---- operands ---- */

static void expect_cuda(cudaError_t status, const char *what) {
    if (status == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

/* An operand with its memory on both sides. `offset` elements lie before it. */
typedef struct operand {
    cuda_tensor t; /* data: on the device */
    char *host, *device;
    size_t bytes;
    int64_t offset;
} operand;

static operand make_operand(int type, int rank, const int64_t *dim, const int64_t *stride,
                            int64_t offset) {
    operand o = {};
    int64_t last = offset;
    o.t.type = type;
    o.t.shape.rank = rank;
    for (int i = 0; i < rank; i++) {
        o.t.shape.dim[i] = dim[i];
        o.t.stride[i] = stride[i];
        last += (dim[i] - 1) * stride[i];
    }
    o.offset = offset;
    o.bytes = (size_t)(last + 1) * (size_t)bytes_of(type);
    o.host = (char *)malloc(o.bytes);
    expect_cuda(cudaMalloc(&o.device, o.bytes), "memory for an operand");
    o.t.data = o.device + offset * bytes_of(type);
    memset(o.host, 0xff, o.bytes); /* NaN in every type */
    return o;
}
static void release(operand *o) {
    free(o->host);
    cudaFree(o->device);
}
static void send(operand *o) { cudaMemcpy(o->device, o->host, o->bytes, cudaMemcpyHostToDevice); }
static void fetch(operand *o) { cudaMemcpy(o->host, o->device, o->bytes, cudaMemcpyDeviceToHost); }

static char *element(const operand *o, int64_t b, int64_t h, int64_t row, int64_t d) {
    const int64_t *s = o->t.stride;
    int64_t at = o->offset + b * s[0] + h * s[1] + row * s[2] + (o->t.shape.rank > 3 ? d : 0);
    return o->host + at * bytes_of(o->t.type);
}
static double number(const operand *o, int64_t b, int64_t h, int64_t row, int64_t d) {
    return load(o->t.type, element(o, b, h, row, d));
}
/* Rows are stretches of one long list of normal numbers: there may be hundreds of millions. */
static void fill(operand *o, double size) {
    enum { LIST = 1 << 18, LONGEST = 256 };
    static char list[LIST * 4];
    const int64_t *n = o->t.shape.dim;
    int bytes = bytes_of(o->t.type);
    for (int i = 0; i < LIST; i++)
        store(o->t.type, list + i * bytes, (float)(normal() * size));
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t h = 0; h < n[1]; h++)
            for (int64_t i = 0; i < n[2]; i++)
                memcpy(element(o, b, h, i, 0), list + below(LIST - LONGEST) * bytes,
                       (size_t)(n[3] * bytes));
    send(o);
}

/* ---- problems ---- */

/* DENSE [B,H,T,S]; TOKENS [B,T,H,S], as the model has them; PADDED: rows apart by an odd number,
 * beginning at an odd address. */
enum layout { DENSE, TOKENS, PADDED };

typedef struct problem {
    int B, H, K, T, T2, S, is_causal, type;
    enum layout layout;
    double size; /* of the numbers in Q and K; large ones give large scores */
    int is_tf32;
    int is_turned; /* Q and K count as rotated, dQ and dK are of what they were before */
} problem;

enum { Q, K, V, O, DO, DQ, DK, DV, OPERANDS };

typedef struct instance {
    problem p;
    struct attributes attributes;
    operand x[OPERANDS], lse, cosine, sine;
    void *workspace;
    size_t workspace_bytes;
} instance;

static operand make_rows(const problem *p, int heads, int rows) {
    int64_t S = p->S, dim[4] = {p->B, heads, rows, S};
    int64_t row = p->layout == PADDED ? S + 3 : S;
    int64_t dense[4] = {heads * rows * row, rows * row, row, 1};
    int64_t tokens[4] = {rows * heads * S, S, heads * S, 1};
    return make_operand(p->type, 4, dim, p->layout == TOKENS ? tokens : dense,
                        p->layout == PADDED ? 1 : 0);
}

/* Every row of the tables has angles of its own. */
static void make_tables(instance *in) {
    const problem *p = &in->p;
    int64_t rows = p->T > p->T2 ? p->T : p->T2, half = p->S / 2;
    int64_t dim[2] = {rows, half}, stride[2] = {half, 1};
    in->cosine = make_operand(CUDA_DTYPE_F32, 2, dim, stride, 0);
    in->sine = make_operand(CUDA_DTYPE_F32, 2, dim, stride, 0);
    for (int64_t i = 0; i < rows * half; i++) {
        double angle = 6.283185307179586 * uniform();
        store(CUDA_DTYPE_F32, in->cosine.host + 4 * i, (float)cos(angle));
        store(CUDA_DTYPE_F32, in->sine.host + 4 * i, (float)sin(angle));
    }
    send(&in->cosine);
    send(&in->sine);
}

/* A row of dQ or dK, of so many, rotated back as the tables say, if at all. */
static void turn_back(const instance *in, int row, int rows, double *x) {
    int64_t half = in->p.S / 2;
    if (!in->p.is_turned)
        return;
    int64_t first = (in->cosine.t.shape.dim[0] - rows + row) * half;
    for (int64_t j = 0; j < half; j++) {
        double c = load(CUDA_DTYPE_F32, in->cosine.host + 4 * (first + j));
        double s = load(CUDA_DTYPE_F32, in->sine.host + 4 * (first + j));
        double low = x[j], high = x[j + half];
        x[j] = low * c + high * s;
        x[j + half] = high * c - low * s;
    }
}

/* Enough for both ops, whichever kernels they go to. */
static size_t most_workspace(const problem *p) {
    attention_sizes sizes = {p->B,  p->H, p->K,         p->T,
                             p->T2, p->S, p->is_causal, p->type == CUDA_DTYPE_F32};
    int64_t bytes[] = {
        attention_angles_at((int64_t)p->B * p->H, p->T, attention_sum_columns(p->S)) +
            attention_angle_bytes(p->T, p->S),
        attention_forward_floats(&sizes) * 4, attention_gradient_floats(&sizes) * 4};
    int64_t most = bytes[0] > bytes[1] ? bytes[0] : bytes[1];
    return (size_t)(most > bytes[2] ? most : bytes[2]);
}

static instance make_instance(const problem *p) {
    instance in = {};
    in.p = *p;
    in.attributes.is_causal = p->is_causal;
    in.attributes.is_tf32 = p->is_tf32;
    in.attributes.scale = 1 / sqrt((double)p->S);
    for (int i = 0; i < OPERANDS; i++) {
        bool is_of_keys = i == K || i == V || i == DK || i == DV;
        in.x[i] = make_rows(p, is_of_keys ? p->K : p->H, is_of_keys ? p->T2 : p->T);
        if (i == O || i >= DQ)
            send(&in.x[i]);
        else
            fill(&in.x[i], i == Q || i == K ? p->size : 1);
    }
    int64_t dim[3] = {p->B, p->H, p->T}, stride[3] = {(int64_t)p->H * p->T, p->T, 1};
    in.lse = make_operand(CUDA_DTYPE_F32, 3, dim, stride, 0);
    make_tables(&in);
    in.workspace_bytes = most_workspace(p);
    expect_cuda(cudaMalloc(&in.workspace, in.workspace_bytes), "memory for workspace");
    return in;
}
static void release_instance(instance *in) {
    for (int i = 0; i < OPERANDS; i++)
        release(&in->x[i]);
    release(&in->lse);
    release(&in->cosine);
    release(&in->sine);
    cudaFree(in->workspace);
}

/* In the copy of the attributes that the arguments point to. */
static void choose_tile(const cuda_args *args, cuda_list_tiles *list, struct attributes *own) {
    cuda_tile tiles[16];
    int count = own->tile_number ? list(args, tiles) : 0;
    if (count)
        own->tile = tiles[(own->tile_number - 1) % count];
}

static void run_forward(const instance *in, cudaStream_t stream) {
    cuda_tensor inputs[3] = {in->x[Q].t, in->x[K].t, in->x[V].t};
    cuda_tensor outputs[2] = {in->x[O].t, in->lse.t};
    struct attributes own = in->attributes;
    cuda_args args = {3, 2, inputs, outputs, &own, in->workspace};
    bool is_f32 = in->p.type == CUDA_DTYPE_F32;
    choose_tile(&args, is_f32 ? dyno_attention_cuda_f32_tiles : dyno_attention_cuda_tiles, &own);
    if (is_f32)
        dyno_attention_cuda_f32(&args, stream);
    else
        dyno_attention_cuda(&args, stream);
}
static void run_backward(const instance *in, cudaStream_t stream) {
    cuda_tensor inputs[8] = {in->x[Q].t,  in->x[K].t, in->x[V].t,   in->x[O].t,
                             in->x[DO].t, in->lse.t,  in->cosine.t, in->sine.t};
    cuda_tensor outputs[3] = {in->x[DQ].t, in->x[DK].t, in->x[DV].t};
    struct attributes own = in->attributes;
    cuda_args args = {in->p.is_turned ? 8 : 6, 3, inputs, outputs, &own, in->workspace};
    bool is_f32 = in->p.type == CUDA_DTYPE_F32;
    choose_tile(
        &args, is_f32 ? dyno_attention_gradient_cuda_f32_tiles : dyno_attention_gradient_cuda_tiles,
        &own);
    if (is_f32)
        dyno_attention_gradient_cuda_f32(&args, stream);
    else
        dyno_attention_gradient_cuda(&args, stream);
}
