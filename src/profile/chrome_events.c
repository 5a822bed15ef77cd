#include "profile/chrome_events.h"

#include <inttypes.h>
#include <math.h>

#include "base/json.h"

enum { BUFFER_BYTES = 256 << 10 };

static void write_out(chrome_events *to) {
    if (to->status == DYNO_OK)
        to->status = byte_sink_append(to->sink, text_string(&to->buffer), to->buffer.length);
    to->buffer.length = 0;
}

void chrome_begin(chrome_events *to, char kind, const char *name, const char *category,
                  chrome_thread at) {
    text_append(&to->buffer, to->count++ ? ",\n" : "\n");
    text_format(&to->buffer, "{\"ph\": \"%c\", \"name\": ", kind);
    json_append_string(&to->buffer, name);
    if (category)
        text_format(&to->buffer, ", \"cat\": \"%s\"", category);
    text_format(&to->buffer, ", \"pid\": %" PRId64 ", \"tid\": %" PRId64, at.process, at.thread);
    to->has_arguments = false;
}

static void append_time(chrome_events *to, const char *key, int64_t ns) {
    text_format(&to->buffer, ", \"%s\": %" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

void chrome_time(chrome_events *to, int64_t at_ns) { append_time(to, "ts", at_ns - to->base_ns); }

void chrome_duration(chrome_events *to, int64_t ns) { append_time(to, "dur", ns); }

void chrome_id(chrome_events *to, int64_t id) {
    text_format(&to->buffer, ", \"id\": %" PRId64, id);
}

void chrome_flow_end(chrome_events *to) { text_append(&to->buffer, ", \"bp\": \"e\""); }

static void append_key(chrome_events *to, const char *key) {
    text_format(&to->buffer, "%s\"%s\": ", to->has_arguments ? ", " : ", \"args\": {", key);
    to->has_arguments = true;
}

void chrome_text(chrome_events *to, const char *key, const char *value) {
    if (!value)
        return;
    append_key(to, key);
    json_append_string(&to->buffer, value);
}

void chrome_number(chrome_events *to, const char *key, double value) {
    if (!isfinite(value))
        return;
    append_key(to, key);
    bool is_whole = fabs(value) < 0x1p53 && value >= floor(value) && value <= floor(value);
    text_format(&to->buffer, is_whole ? "%.0f" : "%.17g", value);
}

void chrome_integer(chrome_events *to, const char *key, int64_t value) {
    append_key(to, key);
    text_format(&to->buffer, "%" PRId64, value);
}

void chrome_extent(chrome_events *to, const char *key, const int *extent) {
    append_key(to, key);
    text_format(&to->buffer, "[%d, %d, %d]", extent[0], extent[1], extent[2]);
}

void chrome_end(chrome_events *to) {
    text_append(&to->buffer, to->has_arguments ? "}}" : "}");
    if (to->buffer.length >= BUFFER_BYTES)
        write_out(to);
}

void chrome_raw(chrome_events *to, const char *json) { text_append(&to->buffer, json); }

dyno_status chrome_finish(chrome_events *to) {
    write_out(to);
    text_release(&to->buffer);
    return to->status;
}
