#include "train/split_weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "distributed/world.h"
#include "ops/adamw/split_weight.h"
#include "ops/cast/convert.h"

static dyno_status not_there(const model_parameter *parameter) {
    return dyno_fail(DYNO_INVALID,
                     "storage has no parameter '%s', neither whole nor in halves; it belongs to "
                     "another configuration",
                     parameter->name);
}

/* ---- halves ---- */

/* The parameter's elements in f32, and their halves. */
typedef struct halves {
    float *whole;
    uint16_t *high, *rest;
    dtype low;
} halves;

static void join_range(void *context, int64_t begin, int64_t end) {
    const halves *h = context;
    for (int64_t i = begin; i < end; i++)
        h->whole[i] = split_weight_join(h->high[i], h->rest[i]);
}

static void split_range(void *context, int64_t begin, int64_t end) {
    const halves *h = context;
    if (!dtype_table[h->low].is_f32_upper_half) {
        convert_f32_to_low(h->low, end - begin, h->whole + begin, h->high + begin);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        h->high[i] = split_weight_high(h->whole[i]);
        h->rest[i] = split_weight_rest(h->whole[i]);
    }
}

enum { GRAIN = 16384 };

/* Memory of the host for the two halves of `count` elements, and where they are in it. */
static uint16_t *room_for_halves(int64_t count, halves *h) {
    h->high = memory_allocate((size_t)count * 2, sizeof *h->high);
    h->rest = h->high + count;
    return h->high;
}

/* ---- parts of ranks ---- */

/* The elements of a parameter that are in a rank's part: `count` of them, `inside` into the parameter and
 * `at` into the part. */
typedef struct own_range {
    int64_t inside, at, count;
} own_range;

static own_range range_of(const stored_parameter *there, int64_t elements, int64_t rank) {
    int64_t begin = rank * there->part, end = begin + there->part;
    int64_t from = there->offset > begin ? there->offset : begin;
    int64_t to = there->offset + elements < end ? there->offset + elements : end;
    return (own_range){from - there->offset, from - begin, to > from ? to - from : 0};
}

static dyno_status find_rank(const storage *s, const model_parameter *parameter, communicator **c) {
    *c = storage_communicator(s);
    if (*c)
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID,
                     "'%s' is divided among ranks, and this process does not know them",
                     parameter->name);
}

static dyno_status write_shared(storage *s, const model_parameter *parameter,
                                const stored_parameter *there, const float *from) {
    communicator *c;
    RETURN_IF_FAILED(find_rank(s, parameter, &c));
    own_range own = range_of(there, shape_elements(&parameter->shape), communicator_rank(c));
    if (own.count == 0)
        return DYNO_OK;
    if (there->whole)
        RETURN_IF_FAILED(storage_write_part(s, there->whole, own.at * (int64_t)sizeof *from,
                                            from + own.inside, own.count * (int64_t)sizeof *from));
    if (!there->low_copy)
        return DYNO_OK;
    halves h = {.whole = (float *)from + own.inside,
                .low = storage_find_tensor(s, there->low_copy).type};
    uint16_t *room = room_for_halves(own.count, &h);
    threads_for(own.count, GRAIN, split_range, &h);
    int64_t bytes = own.count * (int64_t)sizeof *room, at = own.at * (int64_t)sizeof *room;
    dyno_status status = storage_write_part(s, there->low_copy, at, h.high, bytes);
    if (status == DYNO_OK && there->rest)
        status = storage_write_part(s, there->rest, at, h.rest, bytes);
    free(room);
    return status;
}

/* This rank's part of the list in f32. */
static dyno_status read_part(const storage *s, const stored_parameter *there, float *part) {
    if (there->whole)
        return storage_read(s, there->whole, part, there->part * (int64_t)sizeof *part);
    int64_t bytes = there->part * (int64_t)sizeof(uint16_t);
    halves h = {.whole = part};
    uint16_t *room = room_for_halves(there->part, &h);
    dyno_status status = storage_read(s, there->low_copy, h.high, bytes);
    if (status == DYNO_OK)
        status = storage_read(s, there->rest, h.rest, bytes);
    if (status == DYNO_OK)
        threads_for(there->part, GRAIN, join_range, &h);
    free(room);
    return status;
}

/* In pieces, each from the rank that has it: every rank calls this for the same parameter. Through the
 * host, whatever the communicator is for. */
static dyno_status read_shared(const storage *s, const model_parameter *parameter,
                               const stored_parameter *there, float *to) {
    enum { PIECE = 16384 };
    communicator *c;
    RETURN_IF_FAILED(find_rank(s, parameter, &c));
    int64_t elements = shape_elements(&parameter->shape);
    int ranks = communicator_count(c), rank = communicator_rank(c);
    float *part = memory_allocate((size_t)there->part, sizeof *part);
    float *mine = memory_allocate(PIECE, sizeof *mine);
    float *all = memory_allocate((size_t)ranks * PIECE, sizeof *all);
    dyno_status status = read_part(s, there, part);
    own_range own = range_of(there, elements, rank);
    for (int64_t done = 0; done < there->part && status == DYNO_OK; done += PIECE) {
        int64_t left = own.count - done, n = left < 0 ? 0 : left < PIECE ? left : PIECE;
        if (n)
            memcpy(mine, part + own.at + done, (size_t)n * sizeof *mine);
        status = world_exchange(c->world, mine, all, PIECE * sizeof *mine);
        for (int r = 0; r < ranks && status == DYNO_OK; r++) {
            own_range its = range_of(there, elements, r);
            int64_t more = its.count - done;
            if (more > 0)
                memcpy(to + its.inside + done, all + (int64_t)r * PIECE,
                       (size_t)(more < PIECE ? more : PIECE) * sizeof *to);
        }
    }
    free(part);
    free(mine);
    free(all);
    return status;
}

dyno_status weight_read(const storage *s, const model_parameter *parameter, float *to) {
    int64_t count = shape_elements(&parameter->shape), bytes = count * (int64_t)sizeof(uint16_t);
    stored_parameter there = storage_find_parameter(s, parameter->name);
    if (there.part)
        return read_shared(s, parameter, &there, to);
    if (there.whole)
        return storage_read(s, there.whole, to, count * (int64_t)sizeof *to);
    if (!there.low_copy || !there.rest)
        return not_there(parameter);
    halves h = {.whole = to};
    uint16_t *room = room_for_halves(count, &h);
    dyno_status status = storage_read(s, there.low_copy, h.high, bytes);
    if (status == DYNO_OK)
        status = storage_read(s, there.rest, h.rest, bytes);
    if (status == DYNO_OK)
        threads_for(count, GRAIN, join_range, &h);
    free(room);
    return status;
}

dyno_status weight_write(storage *s, const model_parameter *parameter, const float *from) {
    int64_t count = shape_elements(&parameter->shape), bytes = count * (int64_t)sizeof(uint16_t);
    stored_parameter there = storage_find_parameter(s, parameter->name);
    if (!there.whole && !(there.low_copy && there.rest))
        return not_there(parameter);
    if (there.part)
        return write_shared(s, parameter, &there, from);
    if (there.whole)
        RETURN_IF_FAILED(storage_write(s, there.whole, from, count * (int64_t)sizeof *from));
    if (!there.low_copy)
        return DYNO_OK;
    halves h = {.whole = (float *)from, .low = storage_find_tensor(s, there.low_copy).type};
    uint16_t *room = room_for_halves(count, &h);
    threads_for(count, GRAIN, split_range, &h);
    dyno_status status = storage_write(s, there.low_copy, h.high, bytes);
    if (status == DYNO_OK && there.rest)
        status = storage_write(s, there.rest, h.rest, bytes);
    free(room);
    return status;
}

bool weight_has_copy(const storage *s, const model_parameter *parameter) {
    stored_parameter there = storage_find_parameter(s, parameter->name);
    return there.whole && there.low_copy;
}

bool weights_have_copies(const storage *s, const plan *p) {
    for (int i = 0; i < p->parameter_count; i++) {
        if (p->parameters[i].low_copy < 0)
            continue;
        const plan_name *copy = &p->names[p->parameters[i].low_copy];
        tensor there = storage_find_tensor(s, copy->name);
        if (!there.data || there.type != copy->operand.layout.type)
            return false;
    }
    return true;
}

/* ---- from plan to plan ---- */

struct held_weights {
    const model_config *config;
    float **values; /* by parameter */
};

static bool is_kept_alike(const storage *s, const plan_parameter *next) {
    stored_parameter there = storage_find_parameter(s, next->name);
    return (there.whole != NULL) == !next->is_split && (there.rest != NULL) == next->is_split;
}

static dyno_status take(const storage *s, held_weights *held) {
    for (int i = 0; i < model_parameter_count(held->config); i++) {
        model_parameter p = model_parameter_at(held->config, i);
        size_t bytes = (size_t)shape_elements(&p.shape) * sizeof(float);
        held->values[i] = memory_try_allocate(bytes);
        if (!held->values[i])
            return dyno_fail(DYNO_OUT_OF_MEMORY, "no memory to hold '%s', %zu bytes", p.name,
                             bytes);
        RETURN_IF_FAILED(weight_read(s, &p, held->values[i]));
    }
    return DYNO_OK;
}

dyno_status weights_hold(storage *s, const model_config *config, const plan *next,
                         held_weights **out) {
    *out = NULL;
    bool is_alike = true;
    for (int i = 0; i < next->parameter_count && is_alike; i++)
        is_alike = is_kept_alike(s, &next->parameters[i]);
    if (is_alike)
        return DYNO_OK;
    held_weights *held = memory_allocate(1, sizeof *held);
    held->config = config;
    held->values = memory_allocate((size_t)model_parameter_count(config), sizeof *held->values);
    dyno_status status = take(s, held);
    if (status != DYNO_OK) {
        held_weights_destroy(held);
        return status;
    }
    storage_shrink(s, 0);
    *out = held;
    return DYNO_OK;
}

dyno_status weights_restore(storage *s, const held_weights *held) {
    for (int i = 0; i < model_parameter_count(held->config); i++) {
        model_parameter p = model_parameter_at(held->config, i);
        RETURN_IF_FAILED(weight_write(s, &p, held->values[i]));
    }
    return DYNO_OK;
}

void held_weights_destroy(held_weights *held) {
    if (!held)
        return;
    for (int i = 0; i < model_parameter_count(held->config); i++)
        free(held->values[i]);
    free(held->values);
    free(held);
}
