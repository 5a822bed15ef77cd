/* read_pytorch.c - the JSON that PyTorch's profiler (Kineto) writes, event by event.
 *
 * The first reading takes what the host did: operations, ranges that the program or PyTorch marked, and
 * the calls of the CUDA runtime and driver. The second takes kernels, copies and memsets, which name
 * the call by its correlation id. A trace in which no device did anything is one of the host: then
 * there is no second reading, and the operations themselves are the records. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/byte_source.h"
#include "base/json_stream.h"
#include "base/stop.h"
#include "base/text.h"
#include "profile/foreign_trace.h"

enum { MOST_OPERANDS = 3, MOST_DIMENSIONS = 8, PROGRESS_EVENTS = 4096 };

typedef struct operand_shape {
    int64_t dimensions[MOST_DIMENSIONS];
    int rank; /* as in the file, also where it is too large to be kept */
    int element_bytes;
} operand_shape;

/* What dyno's own traces (chrome_trace.h) say of a kernel besides; absent is "" or NAN. */
typedef struct own_words {
    text phase, scope, op, class_name;
    double backward_part, flops, bytes;
} own_words;

/* What is used of an event; absent is 0, HOST_NONE or "". */
typedef struct trace_event {
    text name, category;
    own_words own;
    char phase; /* 'X', 'M', ...: Chrome's word for the kind of event */
    int64_t process, thread;
    bool has_begin, has_duration;
    int64_t begin_ns, duration_ns;
    int64_t id, correlation, sequence, forward_thread;
    int64_t device, stream, registers, shared_bytes, graph_node, graph;
    int64_t grid[3], block[3];
    operand_shape operands[MOST_OPERANDS];
} trace_event;

typedef struct pytorch_file {
    foreign_reading *reading;
    byte_source *source;
    json_stream *stream;
    trace_event event;
    dyno_status (*on_event)(struct pytorch_file *file);
    double done_before; /* of the whole, when this reading began */
    int64_t event_count, device_events, host_events;
} pytorch_file;

/* ---- values ---- */

/* Processes and threads are numbers; those that are names ("stream 7") get a number by their text. */
static int64_t number_of_name(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return (int64_t)(hash >> 1) | (int64_t)1 << 62;
}

/* An integer, also in quotes, as older versions write them. What is none is 0. */
static int64_t integer_of(const json_stream *stream, json_token token) {
    int64_t value = 0;
    if (token == JSON_TOKEN_NUMBER || token == JSON_TOKEN_STRING)
        json_number_scaled(json_stream_text(stream), 0, &value);
    return value;
}

static int64_t identity_of(const json_stream *stream, json_token token) {
    int64_t value = 0;
    const char *name = json_stream_text(stream);
    if (token == JSON_TOKEN_STRING && !json_number_scaled(name, 0, &value))
        return number_of_name(name);
    return token == JSON_TOKEN_NUMBER ? integer_of(stream, token) : value;
}

/* [24, 1, 1]; what is no array of numbers leaves zeros. */
static dyno_status read_extent(json_stream *stream, json_token token, int64_t *extent) {
    if (token != JSON_TOKEN_ARRAY)
        return json_stream_skip(stream, token);
    for (int i = 0;; i++) {
        RETURN_IF_FAILED(json_stream_next(stream, &token));
        if (token == JSON_TOKEN_ARRAY_END)
            return DYNO_OK;
        if (i < 3)
            extent[i] = integer_of(stream, token);
        RETURN_IF_FAILED(json_stream_skip(stream, token));
    }
}

static dyno_status read_shape(json_stream *stream, json_token token, operand_shape *shape) {
    if (token != JSON_TOKEN_ARRAY) {
        if (shape)
            shape->rank = 0;
        return json_stream_skip(stream, token);
    }
    for (int i = 0;; i++) {
        RETURN_IF_FAILED(json_stream_next(stream, &token));
        if (token == JSON_TOKEN_ARRAY_END)
            return DYNO_OK;
        if (shape && i < MOST_DIMENSIONS)
            shape->dimensions[i] = token == JSON_TOKEN_NUMBER ? integer_of(stream, token) : 0;
        if (shape)
            shape->rank = i + 1;
        RETURN_IF_FAILED(json_stream_skip(stream, token));
    }
}

/* [[4, 8], [8, 16], []], one for each argument. */
static dyno_status read_shapes(json_stream *stream, json_token token, operand_shape *shapes) {
    if (token != JSON_TOKEN_ARRAY)
        return json_stream_skip(stream, token);
    for (int i = 0;; i++) {
        RETURN_IF_FAILED(json_stream_next(stream, &token));
        if (token == JSON_TOKEN_ARRAY_END)
            return DYNO_OK;
        RETURN_IF_FAILED(read_shape(stream, token, i < MOST_OPERANDS ? &shapes[i] : NULL));
    }
}

static int bytes_of_type(const char *type) {
    static const struct {
        const char *name;
        int bytes;
    } TYPES[] = {{"float", 4}, {"double", 8}, {"c10::Half", 2}, {"c10::BFloat16", 2}};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (strcmp(type, TYPES[i].name) == 0)
            return TYPES[i].bytes;
    return 0;
}

static dyno_status read_types(json_stream *stream, json_token token, operand_shape *shapes) {
    if (token != JSON_TOKEN_ARRAY)
        return json_stream_skip(stream, token);
    for (int i = 0;; i++) {
        RETURN_IF_FAILED(json_stream_next(stream, &token));
        if (token == JSON_TOKEN_ARRAY_END)
            return DYNO_OK;
        if (i < MOST_OPERANDS && token == JSON_TOKEN_STRING)
            shapes[i].element_bytes = bytes_of_type(json_stream_text(stream));
        RETURN_IF_FAILED(json_stream_skip(stream, token));
    }
}

/* ---- events ---- */

static void set_text(text *to, const json_stream *stream, json_token token) {
    to->length = 0;
    text_append(to, token == JSON_TOKEN_STRING ? json_stream_text(stream) : "");
}

/* Other arguments are left alone. */
static void take_own_word(own_words *own, const char *key, const json_stream *stream,
                          json_token token) {
    const struct {
        const char *key;
        text *words;
    } texts[] = {{"phase", &own->phase},
                 {"scope", &own->scope},
                 {"op", &own->op},
                 {"class", &own->class_name}};
    const struct {
        const char *key;
        double *value;
    } numbers[] = {
        {"backward part", &own->backward_part}, {"flops", &own->flops}, {"bytes", &own->bytes}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(key, texts[i].key) == 0)
            set_text(texts[i].words, stream, token);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0 && token == JSON_TOKEN_NUMBER)
            *numbers[i].value = strtod(json_stream_text(stream), NULL);
}

static dyno_status read_arguments(pytorch_file *file) {
    json_stream *stream = file->stream;
    trace_event *e = &file->event;
    const struct {
        const char *key;
        int64_t *value;
    } numbers[] = {{"External id", &e->id},
                   {"external id", &e->id},
                   {"correlation", &e->correlation},
                   {"Sequence number", &e->sequence},
                   {"Fwd thread id", &e->forward_thread},
                   {"device", &e->device},
                   {"stream", &e->stream},
                   {"registers per thread", &e->registers},
                   {"shared memory", &e->shared_bytes},
                   {"graph node id", &e->graph_node},
                   {"graph id", &e->graph}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    for (;;) {
        json_token token;
        RETURN_IF_FAILED(json_stream_next(stream, &token));
        if (token == JSON_TOKEN_OBJECT_END)
            return DYNO_OK;
        char key[32] = ""; /* the stream has one text at a time */
        if (strlen(json_stream_text(stream)) < sizeof key)
            strcpy(key, json_stream_text(stream));
        int at = 0;
        while (at < NUMBERS && strcmp(key, numbers[at].key) != 0)
            at++;
        bool is_grid = strcmp(key, "grid") == 0, is_block = strcmp(key, "block") == 0;
        bool is_shapes = strcmp(key, "Input Dims") == 0, is_types = strcmp(key, "Input type") == 0;
        RETURN_IF_FAILED(json_stream_next(stream, &token));
        if (is_grid || is_block)
            RETURN_IF_FAILED(read_extent(stream, token, is_grid ? e->grid : e->block));
        else if (is_shapes)
            RETURN_IF_FAILED(read_shapes(stream, token, e->operands));
        else if (is_types)
            RETURN_IF_FAILED(read_types(stream, token, e->operands));
        else {
            if (at < NUMBERS)
                *numbers[at].value = integer_of(stream, token);
            else
                take_own_word(&e->own, key, stream, token);
            RETURN_IF_FAILED(json_stream_skip(stream, token));
        }
    }
}

/* Microseconds, with as many digits as there are. */
static dyno_status read_time(const json_stream *stream, json_token token, int64_t *ns) {
    if ((token == JSON_TOKEN_NUMBER || token == JSON_TOKEN_STRING) &&
        json_number_scaled(json_stream_text(stream), 3, ns))
        return DYNO_OK;
    return json_stream_fail(stream, "a time of an event is no number of microseconds");
}

enum { EVENT_TEXTS = 6 };
static void list_texts(trace_event *e, text **out) {
    text *texts[EVENT_TEXTS] = {&e->name,      &e->category, &e->own.phase,
                                &e->own.scope, &e->own.op,   &e->own.class_name};
    memcpy(out, texts, sizeof texts);
}

static dyno_status read_event(pytorch_file *file) {
    json_stream *stream = file->stream;
    trace_event *e = &file->event;
    text name = e->name, category = e->category;
    own_words own = e->own;
    own.backward_part = own.flops = own.bytes = (double)NAN;
    *e = (trace_event){.name = name,
                       .category = category,
                       .own = own,
                       .correlation = HOST_NONE,
                       .sequence = HOST_NONE};
    text *texts[EVENT_TEXTS];
    list_texts(e, texts);
    for (int i = 0; i < EVENT_TEXTS; i++) {
        texts[i]->length = 0;
        text_append(texts[i], "");
    }
    for (;;) {
        json_token token;
        char key[8] = "";
        RETURN_IF_FAILED(json_stream_next(stream, &token));
        if (token == JSON_TOKEN_OBJECT_END)
            return file->on_event(file);
        if (strlen(json_stream_text(stream)) < sizeof key)
            strcpy(key, json_stream_text(stream));
        RETURN_IF_FAILED(json_stream_next(stream, &token));
        if (strcmp(key, "args") == 0 && token == JSON_TOKEN_OBJECT) {
            RETURN_IF_FAILED(read_arguments(file));
            continue;
        }
        if (strcmp(key, "name") == 0)
            set_text(&e->name, stream, token);
        else if (strcmp(key, "cat") == 0)
            set_text(&e->category, stream, token);
        else if (strcmp(key, "ph") == 0)
            e->phase = token == JSON_TOKEN_STRING ? json_stream_text(stream)[0] : '\0';
        else if (strcmp(key, "pid") == 0)
            e->process = identity_of(stream, token);
        else if (strcmp(key, "tid") == 0)
            e->thread = identity_of(stream, token);
        else if (strcmp(key, "dur") == 0) {
            e->has_duration = true;
            RETURN_IF_FAILED(read_time(stream, token, &e->duration_ns));
        } else if (strcmp(key, "ts") == 0) {
            e->has_begin = true;
            RETURN_IF_FAILED(read_time(stream, token, &e->begin_ns));
        }
        RETURN_IF_FAILED(json_stream_skip(stream, token));
    }
}

static void report_progress(const pytorch_file *file) {
    const foreign_visitor *visitor = file->reading->visitor;
    int64_t size = byte_source_size(file->source);
    if (!visitor->on_progress || file->event_count % PROGRESS_EVENTS != 0 || size == 0)
        return;
    double done = (double)byte_source_position(file->source) / (double)size;
    visitor->on_progress(visitor->caller, file->done_before + 0.5 * done);
}

static dyno_status read_events(pytorch_file *file) {
    for (;;) {
        json_token token;
        RETURN_IF_FAILED(json_stream_next(file->stream, &token));
        if (token == JSON_TOKEN_ARRAY_END)
            return DYNO_OK;
        if (token != JSON_TOKEN_OBJECT)
            return json_stream_fail(file->stream, "an event is no object");
        RETURN_IF_FAILED(read_event(file));
        file->event_count++;
        report_progress(file);
        RETURN_IF_FAILED(stop_check("reading a trace"));
    }
}

/* Chrome's format is an array of events, or an object that has it as "traceEvents". */
static dyno_status read_document(pytorch_file *file) {
    json_token token;
    bool has_events = false;
    RETURN_IF_FAILED(json_stream_next(file->stream, &token));
    if (token == JSON_TOKEN_ARRAY) {
        RETURN_IF_FAILED(read_events(file));
        return json_stream_next(file->stream, &token);
    }
    if (token != JSON_TOKEN_OBJECT)
        return json_stream_fail(file->stream, "a trace is an object or an array of events");
    for (;;) {
        RETURN_IF_FAILED(json_stream_next(file->stream, &token));
        if (token == JSON_TOKEN_OBJECT_END)
            break;
        bool is_events = strcmp(json_stream_text(file->stream), "traceEvents") == 0;
        RETURN_IF_FAILED(json_stream_next(file->stream, &token));
        if (is_events && token == JSON_TOKEN_ARRAY) {
            has_events = true;
            RETURN_IF_FAILED(read_events(file));
        } else {
            RETURN_IF_FAILED(json_stream_skip(file->stream, token));
        }
    }
    if (!has_events)
        return dyno_fail(DYNO_CORRUPT,
                         "'%s' has no \"traceEvents\": it is JSON, but no trace that PyTorch's "
                         "profiler wrote",
                         file->reading->path);
    return json_stream_next(file->stream, &token);
}

/* ---- what an event is ---- */

static bool is_category(const trace_event *e, const char *const *names) {
    for (; *names; names++)
        if (strcasecmp(e->category.data, *names) == 0)
            return true;
    return false;
}

/* The second name of each is that of version 1.8. */
static bool is_operation(const trace_event *e) {
    return is_category(e, (const char *const[]){"cpu_op", "Operator", NULL});
}

static bool is_range(const trace_event *e) {
    static const char MODULE[] = "nn.Module: ";
    return is_category(e, (const char *const[]){"user_annotation", NULL}) ||
           (is_category(e, (const char *const[]){"python_function", NULL}) &&
            strncmp(e->name.data, MODULE, strlen(MODULE)) == 0);
}

static bool is_call(const trace_event *e) {
    return is_category(e, (const char *const[]){"cuda_runtime", "cuda_driver", "Runtime", NULL});
}

/* gpu_user_annotation is a range of the host once more, drawn over its kernels: no work. */
static bool is_of_device(const trace_event *e) {
    return is_category(
        e, (const char *const[]){"kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset", NULL});
}

/* What PyTorch's own tables leave out: its time is that of its caller. */
static bool is_left_out(const char *name) {
    static const char *const NAMES[] = {"[memory]",
                                        "[OutOfMemory]",
                                        "profiler::_record_function_enter",
                                        "profiler::_record_function_enter_new",
                                        "profiler::_record_function_exit",
                                        "aten::is_leaf",
                                        "aten::output_nr",
                                        "aten::_version"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(name, NAMES[i]) == 0)
            return true;
    return false;
}

static dyno_status check_event(const pytorch_file *file) {
    const trace_event *e = &file->event;
    int64_t most = (int64_t)1 << 61;
    if (e->has_begin && e->has_duration && e->begin_ns >= 0 && e->begin_ns <= most &&
        e->duration_ns >= 0 && e->duration_ns <= most - e->begin_ns)
        return DYNO_OK;
    quoted_text name = text_quote(e->name.data);
    if (!e->has_begin || !e->has_duration)
        return json_stream_fail(file->stream, "the event '%s' has no %s, which every 'X' has",
                                name.text, e->has_begin ? "dur" : "ts");
    return json_stream_fail(file->stream, "the event '%s' begins at %.3f us and takes %.3f us",
                            name.text, (double)e->begin_ns / 1e3, (double)e->duration_ns / 1e3);
}

/* ---- the first reading ---- */

/* [m, k] x [k, n], or several of them. */
static void count_flops(const operand_shape *a, const operand_shape *b, host_span *op) {
    int rank = a->rank;
    if (rank != b->rank || rank < 2 || rank > 3)
        return;
    double batch = rank == 3 ? (double)a->dimensions[0] : 1;
    double m = (double)a->dimensions[rank - 2], k = (double)a->dimensions[rank - 1],
           n = (double)b->dimensions[rank - 1];
    if (a->dimensions[rank - 1] != b->dimensions[rank - 2] ||
        !(batch > 0 && m > 0 && k > 0 && n > 0))
        return;
    op->flops = 2 * batch * m * n * k;
    op->bytes = batch * (m * k + k * n + m * n) * a->element_bytes;
}

/* Row maximum, difference, exponential, sum and quotient: one each for every element, as dyno's own ops
 * have them. */
static void count_softmax(const operand_shape *x, host_span *op) {
    enum { FLOPS_PER_ELEMENT = 5 };
    double elements = x->rank > 0 && x->rank <= MOST_DIMENSIONS ? 1 : 0;
    for (int i = 0; i < x->rank && i < MOST_DIMENSIONS; i++)
        elements *= x->dimensions[i] > 0 ? (double)x->dimensions[i] : 0;
    op->flops = elements > 0 ? FLOPS_PER_ELEMENT * elements : 0;
    op->bytes = elements > 0 ? 2 * elements * x->element_bytes : 0;
}

static void count_flops_of_op(const trace_event *e, host_span *op) {
    static const struct {
        const char *name;
        int first; /* the argument that is the left factor */
    } PRODUCTS[] = {{"aten::mm", 0}, {"aten::bmm", 0}, {"aten::addmm", 1}, {"aten::baddbmm", 1}};
    for (size_t i = 0; i < sizeof PRODUCTS / sizeof *PRODUCTS; i++)
        if (strcmp(e->name.data, PRODUCTS[i].name) == 0)
            count_flops(&e->operands[PRODUCTS[i].first], &e->operands[PRODUCTS[i].first + 1], op);
    if (strcmp(e->name.data, "aten::_softmax") == 0)
        count_softmax(&e->operands[0], op);
}

static dyno_status add_span(pytorch_file *file, int thread) {
    const trace_event *e = &file->event;
    host_span span = {.begin_ns = e->begin_ns,
                      .end_ns = e->begin_ns + e->duration_ns,
                      .id = e->id,
                      .sequence = e->sequence,
                      .thread = thread,
                      .kind = RANGE_OF_PROGRAM};
    if (is_operation(e)) {
        span.kind = RANGE_OP;
        span.is_backward = e->forward_thread != 0;
        count_flops_of_op(e, &span);
    }
    file->host_events++;
    RETURN_IF_FAILED(host_timeline_name(file->reading->timeline, e->name.data, &span.name));
    return host_timeline_add_span(file->reading->timeline, span);
}

static dyno_status take_host_event(pytorch_file *file) {
    const trace_event *e = &file->event;
    bool has_span = is_operation(e) || is_range(e);
    if (e->phase == 'B' && (has_span || is_call(e) || is_of_device(e)))
        return json_stream_fail(file->stream,
                                "the event '%s' is a begin (ph B) with an end elsewhere; events in "
                                "one piece (ph X) are read, which PyTorch's profiler writes",
                                text_quote(e->name.data).text);
    if (e->phase != 'X' || (!has_span && !is_call(e) && !is_of_device(e))) {
        file->reading->trace->skipped++;
        return DYNO_OK;
    }
    RETURN_IF_FAILED(check_event(file));
    if (is_of_device(e)) {
        foreign_product product = {
            .correlation = e->correlation, .id = e->id, .ns = e->duration_ns};
        file->device_events++;
        return foreign_note_kernel(file->reading, e->name.data, product);
    }
    if (has_span && is_left_out(e->name.data))
        return DYNO_OK;
    int thread;
    RETURN_IF_FAILED(host_timeline_thread(file->reading->timeline, e->process, e->thread, &thread));
    if (has_span)
        return add_span(file, thread);
    if (e->correlation == HOST_NONE) { /* it launched nothing that could be found */
        file->reading->trace->skipped++;
        return DYNO_OK;
    }
    host_call call = {.correlation = e->correlation,
                      .begin_ns = e->begin_ns,
                      .end_ns = e->begin_ns + e->duration_ns,
                      .id = e->id,
                      .thread = thread};
    return host_timeline_add_call(file->reading->timeline, call);
}

/* ---- the second reading ---- */

static int to_int(int64_t value) { return value < 0 || value > INT32_MAX ? 0 : (int)value; }

/* A kernel of dyno's says itself what it is for, as one of a graph could not by its call. */
static void take_own_words(pytorch_file *file, launch_record *record) {
    const own_words *own = &file->event.own;
    if (!own->phase.length)
        return;
    file->reading->trace->format = FOREIGN_FORMAT_OWN;
    record->phase = own->phase.data;
    record->scope = own->scope.data;
    record->op = own->op.length ? own->op.data : NULL;
    record->class_name = own->class_name.length ? own->class_name.data : NULL;
    if (own->backward_part > 0 && own->backward_part < 1)
        record->backward_part = own->backward_part;
    record->has_cost =
        isfinite(own->flops) && isfinite(own->bytes) && own->flops >= 0 && own->bytes >= 0;
    record->flops = record->has_cost ? own->flops : 0;
    record->bytes = record->has_cost ? own->bytes : 0;
}

static dyno_status take_device_event(pytorch_file *file) {
    const trace_event *e = &file->event;
    if (e->phase != 'X' || !is_of_device(e))
        return DYNO_OK;
    RETURN_IF_FAILED(check_event(file));
    launch_record record = {.recorded = e->name.length ? e->name.data : FOREIGN_KERNEL_WITHOUT_NAME,
                            .registers = to_int(e->registers),
                            .shared_bytes = e->shared_bytes < 0 ? 0 : e->shared_bytes,
                            .device = to_int(e->device),
                            .stream = to_int(e->stream),
                            .correlation = e->correlation,
                            .graph_node = (uint64_t)(e->graph_node ? e->graph_node : e->graph),
                            .begin_ns = e->begin_ns,
                            .end_ns = e->begin_ns + e->duration_ns};
    for (int i = 0; i < 3; i++) {
        record.grid[i] = to_int(e->grid[i]);
        record.block[i] = to_int(e->block[i]);
    }
    take_own_words(file, &record);
    return foreign_hand_on(file->reading, 0, e->id, &record);
}

/* ---- both ---- */

static dyno_status read_through(pytorch_file *file, dyno_status (*on_event)(pytorch_file *)) {
    file->on_event = on_event;
    file->stream = json_stream_create(file->source, file->reading->path);
    dyno_status status = read_document(file);
    json_stream_destroy(file->stream);
    file->stream = NULL;
    return status;
}

static dyno_status read_twice(pytorch_file *file) {
    RETURN_IF_FAILED(read_through(file, take_host_event));
    if (!file->device_events && !file->host_events)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s' has no operations, ranges or kernels among its %lld events; is it a "
                         "trace of PyTorch's profiler, and was a step recorded?",
                         file->reading->path, (long long)file->event_count);
    RETURN_IF_FAILED(foreign_seal_host(file->reading));
    if (!file->device_events) {
        RETURN_IF_FAILED(foreign_hand_on_host(file->reading));
        if (file->reading->trace->records)
            return DYNO_OK;
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s' has no operations or kernels among its %lld events, only ranges; "
                         "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
                         file->reading->path, (long long)file->event_count);
    }
    file->done_before = 0.5;
    RETURN_IF_FAILED(byte_source_rewind(file->source));
    return read_through(file, take_device_event);
}

dyno_status read_pytorch(foreign_reading *reading) {
    pytorch_file file = {.reading = reading};
    reading->trace->format = "PyTorch";
    RETURN_IF_FAILED(byte_source_open(reading->path, &file.source));
    dyno_status status = read_twice(&file);
    byte_source_close(file.source);
    text *texts[EVENT_TEXTS];
    list_texts(&file.event, texts);
    for (int i = 0; i < EVENT_TEXTS; i++)
        text_release(texts[i]);
    return status;
}
