#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "formats/safetensors.h"
#include "support/scratch.h"

static void assert_message_has(const char *part) {
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' is not in: %s", part, dyno_error_message());
}

/* A file in memory: the true length of `json`, then `data_bytes` zero bytes. */
typedef struct image {
    char bytes[16384];
    size_t size;
} image;

static image image_make(const char *json, size_t data_bytes) {
    image made = {.size = 8 + strlen(json) + data_bytes};
    assert_true(made.size <= sizeof made.bytes);
    for (int i = 0; i < 8; i++)
        made.bytes[i] = (char)(strlen(json) >> (8 * i));
    memcpy(made.bytes + 8, json, strlen(json));
    return made;
}

static dyno_status parse(const image *file) {
    safetensors_header header;
    dyno_status status = safetensors_parse_header(file->bytes, file->size, (int64_t)file->size,
                                                  "x.safetensors", &header);
    if (status != DYNO_OK) {
        assert_int_equal(header.count, 0);
        assert_null(header.entries);
        assert_message_has("x.safetensors");
    }
    safetensors_header_release(&header);
    return status;
}

static void assert_refused(const char *json, size_t data_bytes, dyno_status expected,
                           const char *message) {
    image file = image_make(json, data_bytes);
    dyno_status status = parse(&file);
    if (status != expected)
        fail_msg("status %d instead of %d for %s", (int)status, (int)expected, json);
    assert_message_has(message);
}

static void good_headers_are_accepted(void **state) {
    (void)state;
    static const struct {
        const char *json;
        size_t data_bytes;
    } cases[] = {
        {"{}", 0},
        {"{}      ", 0},
        {"{\"__metadata__\":{\"format\":\"pt\"}}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"BOOL\",\"shape\":[0,5],\"data_offsets\":[0,0]}}", 0},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,7]},"
         "\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},"
         "\"a\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         7},
        {"{\"a\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1,1,2],\"data_offsets\":[0,4]}}", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        image file = image_make(cases[i].json, cases[i].data_bytes);
        if (parse(&file) != DYNO_OK)
            fail_msg("refused: %s: %s", cases[i].json, dyno_error_message());
    }
}

static void entries_come_in_the_order_of_the_data(void **state) {
    (void)state;
    image file = image_make("{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,7]},"
                            "\"a\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                            7);
    safetensors_header header;
    assert_int_equal(
        safetensors_parse_header(file.bytes, file.size, (int64_t)file.size, "x", &header), DYNO_OK);
    assert_int_equal(header.count, 2);
    assert_string_equal(header.entries[0].name, "a");
    assert_string_equal(header.entries[1].name, "b");
    assert_int_equal(header.entries[0].offset, file.size - 7);
    assert_int_equal(header.entries[1].offset, file.size - 3);
    assert_int_equal(header.entries[1].type, DTYPE_U8);
    safetensors_header_release(&header);
}

static void every_truncation_is_refused(void **state) {
    (void)state;
    image file =
        image_make("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24);
    assert_int_equal(parse(&file), DYNO_OK);
    for (size_t size = 0; size < file.size; size++) {
        safetensors_header header;
        /* A copy of exactly that size, so that a sanitizer sees a read beyond it. */
        char *exact = malloc(size ? size : 1);
        memcpy(exact, file.bytes, size);
        assert_int_equal(
            safetensors_parse_header(exact, size, (int64_t)size, "x.safetensors", &header),
            DYNO_CORRUPT);
        assert_int_equal(header.count, 0);
        free(exact);
    }
}

static void bytes_after_the_end_are_refused(void **state) {
    (void)state;
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 25,
                   DYNO_CORRUPT, "the tensors take 24 bytes, the file has 25");
    assert_refused("{}", 1, DYNO_CORRUPT, "the tensors take 0 bytes");
}

static void lying_header_length_is_refused(void **state) {
    (void)state;
    image good =
        image_make("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24);
    static const uint64_t lies[] = {0,
                                    1,
                                    10,
                                    83,
                                    84,
                                    100,
                                    100000000,
                                    100000001,
                                    1u << 31,
                                    INT64_MAX,
                                    UINT64_MAX,
                                    UINT64_MAX - 7,
                                    (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        image file = good;
        memcpy(file.bytes, &lies[i], 8);
        if (lies[i] != good.size - 8 - 24)
            assert_int_equal(parse(&file), DYNO_CORRUPT);
    }
    image file = good;
    memcpy(file.bytes, &(uint64_t){100000001}, 8);
    assert_int_equal(parse(&file), DYNO_CORRUPT);
    assert_message_has("claims 100000001 bytes, the limit is 100000000");
    memcpy(file.bytes, &(uint64_t){5000}, 8);
    assert_int_equal(parse(&file), DYNO_CORRUPT);
    assert_message_has("claims 5000 bytes");
}

static void header_that_is_no_json_object_is_refused(void **state) {
    (void)state;
    assert_refused("", 0, DYNO_CORRUPT, "'{'");
    assert_refused("[]", 0, DYNO_CORRUPT, "'{'");
    assert_refused(" {}", 0, DYNO_CORRUPT, "'{'");
    assert_refused("{\"a\":", 0, DYNO_CORRUPT, "JSON");
    assert_refused("{} x", 0, DYNO_CORRUPT, "JSON");
    assert_refused("{\"\xff\":{}}", 0, DYNO_CORRUPT, "JSON");
    assert_refused("{\"a\\u0000b\":{}}", 0, DYNO_CORRUPT, "JSON");
}

static void duplicate_names_are_refused(void **state) {
    (void)state;
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                   2, DYNO_CORRUPT, "duplicate");
    assert_refused(
        "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
        DYNO_CORRUPT, "duplicate");
}

static void metadata_must_be_strings(void **state) {
    (void)state;
    assert_refused("{\"__metadata__\":7}", 0, DYNO_CORRUPT, "__metadata__");
    assert_refused("{\"__metadata__\":null}", 0, DYNO_CORRUPT, "__metadata__");
    assert_refused("{\"__metadata__\":{\"k\":1}}", 0, DYNO_CORRUPT, "'k'");
    assert_refused("{\"__metadata__\":{\"k\":{}}}", 0, DYNO_CORRUPT, "'k'");
}

static void malformed_entries_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *entry;
        dyno_status status;
        const char *message;
    } cases[] = {
        {"7", DYNO_CORRUPT, "object"},
        {"null", DYNO_CORRUPT, "object"},
        {"[]", DYNO_CORRUPT, "object"},
        {"{}", DYNO_CORRUPT, "dtype"},
        {"{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}", DYNO_CORRUPT, "dtype"},
        {"{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}", DYNO_UNSUPPORTED, "'f32'"},
        {"{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}", DYNO_UNSUPPORTED,
         "F8_E4M3"},
        {"{\"dtype\":\"\",\"shape\":[1],\"data_offsets\":[0,4]}", DYNO_UNSUPPORTED, "''"},
        {"{\"dtype\":\"F32\",\"data_offsets\":[0,4]}", DYNO_CORRUPT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}", DYNO_CORRUPT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}", DYNO_CORRUPT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}", DYNO_CORRUPT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}", DYNO_CORRUPT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[-1,-1],\"data_offsets\":[0,4]}", DYNO_CORRUPT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,4]}", DYNO_UNSUPPORTED,
         "7 dimensions, the limit is 6"},
        {"{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}",
         DYNO_CORRUPT, "JSON"},
        {"{\"dtype\":\"F32\",\"shape\":[1]}", DYNO_CORRUPT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":4}", DYNO_CORRUPT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}", DYNO_CORRUPT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}", DYNO_CORRUPT,
         "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}", DYNO_CORRUPT,
         "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}", DYNO_CORRUPT,
         "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}", DYNO_CORRUPT, "bytes 4 to 0"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}", DYNO_CORRUPT,
         "bytes -4 to 0"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", DYNO_CORRUPT,
         "the data is 4 bytes"},
        {"{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[9223372036854775800,9223372036854775804]}",
         DYNO_CORRUPT, "the data is 4 bytes"},
        {"{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[-9223372036854775808,9223372036854775807]}",
         DYNO_CORRUPT, "the data is 4 bytes"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}", DYNO_CORRUPT, "is 8 bytes"},
        {"{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,4]}", DYNO_CORRUPT, "is 8 bytes"},
        {"{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,4]}", DYNO_CORRUPT, "is 2 bytes"},
        {"{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}", DYNO_CORRUPT,
         "64 bits"},
        {"{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}",
         DYNO_CORRUPT, "64 bits"},
        {"{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}",
         DYNO_CORRUPT, "64 bits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        snprintf(json, sizeof json, "{\"weight\":%s}", cases[i].entry);
        assert_refused(json, 4, cases[i].status, cases[i].message);
        if (!strstr(cases[i].message, "JSON"))
            assert_message_has("'weight'");
    }
}

static void overlapping_tensors_are_refused(void **state) {
    (void)state;
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                   8, DYNO_CORRUPT, "'b' overlaps 'a'");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
                   8, DYNO_CORRUPT, "overlaps");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}",
                   8, DYNO_CORRUPT, "overlaps");
}

static void holes_are_refused(void **state) {
    (void)state;
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                   8, DYNO_CORRUPT, "'b' leaves a hole after 'a'");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
                   DYNO_CORRUPT, "leaves a hole after 'the header'");
}

static void files_that_cannot_be_read_are_refused(void **state) {
    (void)state;
    scratch made = scratch_create();
    safetensors_file *file = (safetensors_file *)&made;
    assert_int_equal(safetensors_open(scratch_join(&made, "absent").text, &file), DYNO_NOT_FOUND);
    assert_null(file);
    assert_int_equal(safetensors_open(made.path, &file), DYNO_INVALID);
    assert_int_equal(safetensors_open("/dev/zero", &file), DYNO_INVALID);
    scratch_path pipe_path = scratch_join(&made, "pipe");
    assert_int_equal(mkfifo(pipe_path.text, 0600), 0);
    assert_int_equal(safetensors_open(pipe_path.text, &file), DYNO_INVALID);
    scratch_write(&made, "empty", "", 0);
    assert_int_equal(safetensors_open(scratch_join(&made, "empty").text, &file), DYNO_CORRUPT);
    scratch_write(&made, "short", "1234567", 7);
    assert_int_equal(safetensors_open(scratch_join(&made, "short").text, &file), DYNO_CORRUPT);
    /* A sparse file that really has room for a header of 200 MB. */
    scratch_write(&made, "huge", &(uint64_t){200000000}, 8);
    assert_int_equal(truncate(scratch_join(&made, "huge").text, 300000000), 0);
    assert_int_equal(safetensors_open(scratch_join(&made, "huge").text, &file), DYNO_CORRUPT);
    assert_message_has("claims 200000000 bytes, the limit is 100000000");
    scratch_remove(&made);
}

static void a_file_that_shrinks_while_open_is_an_error(void **state) {
    (void)state;
    scratch made = scratch_create();
    image good =
        image_make("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24);
    scratch_write(&made, "m", good.bytes, good.size);
    safetensors_file *file;
    assert_int_equal(safetensors_open(scratch_join(&made, "m").text, &file), DYNO_OK);
    assert_int_equal(truncate(scratch_join(&made, "m").text, (off_t)good.size - 4), 0);
    float values[6];
    assert_int_equal(safetensors_read_f32(file, safetensors_at(file, 0), values), DYNO_IO);
    double wide[6];
    assert_int_equal(safetensors_read_f64(file, safetensors_at(file, 0), wide), DYNO_IO);
    safetensors_close(file);
    scratch_remove(&made);
}

static void what_is_written_reads_back_converted(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "m.safetensors");
    const double values[] = {0, -0.0, 1, -2.5, 0x1p-14, 65504, INFINITY};
    enum { COUNT = sizeof values / sizeof *values };
    const dtype types[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I32};
    enum { TENSORS = sizeof types / sizeof *types };
    const char *const names[] = {"double", "single \"quoted\"", "brain\xc3\xa9", "half", "integer"};
    safetensors_tensor tensors[TENSORS];
    for (int t = 0; t < TENSORS; t++)
        tensors[t] =
            (safetensors_tensor){.name = names[t], .type = types[t], .shape = SHAPE(COUNT, 1)};
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    safetensors_writer *writer;
    assert_int_equal(safetensors_writer_create(path.text, tensors, TENSORS, metadata, &writer),
                     DYNO_OK);
    json_decref(metadata);
    assert_int_equal(access(path.text, F_OK), -1); /* nothing shows before commit */
    for (int t = 0; t < TENSORS; t++) {
        double storage[COUNT];
        for (int i = 0; i < COUNT; i++)
            dtype_store(types[t], storage, i, values[i]);
        assert_int_equal(
            safetensors_writer_append(writer, storage, COUNT * (size_t)dtype_bytes(types[t])),
            DYNO_OK);
    }
    assert_int_equal(safetensors_writer_commit(writer), DYNO_OK);
    assert_int_equal(scratch_count(made.path), 1);

    safetensors_file *file;
    assert_int_equal(safetensors_open(path.text, &file), DYNO_OK);
    assert_int_equal(safetensors_count(file), TENSORS);
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    assert_null(safetensors_metadata(file, "other"));
    assert_null(safetensors_find(file, "absent"));
    assert_null(safetensors_find(file, ""));
    for (int t = 0; t < TENSORS; t++) {
        const safetensors_entry *entry = safetensors_find(file, names[t]);
        assert_ptr_equal(entry, safetensors_at(file, t));
        assert_int_equal(entry->type, types[t]);
        assert_int_equal(entry->offset % dtype_bytes(types[t]), 0);
        float single[COUNT];
        double wide[COUNT];
        if (types[t] == DTYPE_I32) {
            assert_int_equal(safetensors_read_f32(file, entry, single), DYNO_UNSUPPORTED);
            assert_message_has("I32");
            assert_int_equal(safetensors_read_f64(file, entry, wide), DYNO_UNSUPPORTED);
            int32_t raw[COUNT];
            assert_int_equal(safetensors_read(file, entry, raw), DYNO_OK);
            assert_int_equal(raw[5], 65504);
            continue;
        }
        assert_int_equal(safetensors_read_f32(file, entry, single), DYNO_OK);
        assert_int_equal(safetensors_read_f64(file, entry, wide), DYNO_OK);
        for (int i = 0; i < COUNT; i++) {
            double expected = values[i] == 65504 && types[t] == DTYPE_BF16 ? 65536 : values[i];
            assert_true(wide[i] == expected && signbit(wide[i]) == signbit(expected));
            assert_true(single[i] == (float)expected);
        }
    }
    safetensors_close(file);
    safetensors_close(NULL);
    scratch_remove(&made);
}

static void tensors_larger_than_a_piece_are_converted_whole(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "m.safetensors");
    enum { COUNT = (1 << 20) + 12345 };
    uint16_t *half = malloc(COUNT * sizeof *half);
    for (int i = 0; i < COUNT; i++)
        half[i] = (uint16_t)(i % 0x7f80);
    safetensors_tensor tensor = {.name = "w", .type = DTYPE_BF16, .shape = SHAPE(COUNT)};
    safetensors_writer *writer;
    assert_int_equal(safetensors_writer_create(path.text, &tensor, 1, NULL, &writer), DYNO_OK);
    for (size_t done = 0; done < COUNT * 2;) { /* in odd pieces */
        size_t piece = COUNT * 2 - done < 99991 ? COUNT * 2 - done : 99991;
        assert_int_equal(safetensors_writer_append(writer, (char *)half + done, piece), DYNO_OK);
        done += piece;
    }
    assert_int_equal(safetensors_writer_commit(writer), DYNO_OK);
    safetensors_file *file;
    assert_int_equal(safetensors_open(path.text, &file), DYNO_OK);
    float *single = malloc(COUNT * sizeof *single);
    assert_int_equal(safetensors_read_f32(file, safetensors_at(file, 0), single), DYNO_OK);
    for (int i = 0; i < COUNT; i++)
        if (single[i] != dtype_bf16_to_f32(half[i]))
            fail_msg("element %d", i);
    safetensors_close(file);
    free(single);
    free(half);
    scratch_remove(&made);
}

static void writer_that_gets_too_few_or_too_many_bytes_writes_nothing(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "m.safetensors");
    safetensors_tensor tensor = {.name = "w", .type = DTYPE_F32, .shape = SHAPE(4)};
    const float data[5] = {0};
    safetensors_writer *writer;
    assert_int_equal(safetensors_writer_create(path.text, &tensor, 1, NULL, &writer), DYNO_OK);
    assert_int_equal(safetensors_writer_append(writer, data, 12), DYNO_OK);
    assert_int_equal(safetensors_writer_commit(writer), DYNO_INVALID);
    assert_message_has("12 of 16");
    assert_int_equal(scratch_count(made.path), 0);
    assert_int_equal(safetensors_writer_create(path.text, &tensor, 1, NULL, &writer), DYNO_OK);
    assert_int_equal(safetensors_writer_append(writer, data, 20), DYNO_INVALID);
    assert_message_has("4 bytes more than the 16");
    safetensors_writer_abandon(writer);
    safetensors_writer_abandon(NULL);
    assert_int_equal(scratch_count(made.path), 0);
    scratch_remove(&made);
}

static void writer_refuses_bad_declarations(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "m.safetensors");
    safetensors_writer *writer;
    safetensors_tensor twice[] = {{.name = "w", .type = DTYPE_F32, .shape = SHAPE(1)},
                                  {.name = "w", .type = DTYPE_F32, .shape = SHAPE(1)}};
    assert_int_equal(safetensors_writer_create(path.text, twice, 2, NULL, &writer), DYNO_INVALID);
    assert_message_has("used twice");
    safetensors_tensor reserved = {.name = "__metadata__", .type = DTYPE_F32, .shape = SHAPE(1)};
    assert_int_equal(safetensors_writer_create(path.text, &reserved, 1, NULL, &writer),
                     DYNO_INVALID);
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    assert_int_equal(safetensors_writer_create(path.text, &reserved, 1, metadata, &writer),
                     DYNO_INVALID);
    json_object_set_new(metadata, "step", json_integer(3));
    assert_int_equal(safetensors_writer_create(path.text, twice, 1, metadata, &writer),
                     DYNO_INVALID);
    assert_message_has("step");
    json_decref(metadata);
    safetensors_tensor large = {
        .name = "w", .type = DTYPE_F32, .shape = SHAPE((int64_t)1 << 40, (int64_t)1 << 40)};
    assert_int_equal(safetensors_writer_create(path.text, &large, 1, NULL, &writer), DYNO_INVALID);
    safetensors_tensor negative = {.name = "w", .type = DTYPE_F32, .shape = SHAPE(-1)};
    assert_int_equal(safetensors_writer_create(path.text, &negative, 1, NULL, &writer),
                     DYNO_INVALID);
    safetensors_tensor unreadable = {.name = "\xff", .type = DTYPE_F32, .shape = SHAPE(1)};
    assert_int_equal(safetensors_writer_create(path.text, &unreadable, 1, NULL, &writer),
                     DYNO_INVALID);
    assert_null(writer);
    assert_int_equal(scratch_count(made.path), 0);
    scratch_remove(&made);
}

/* The status of writing one tensor of `count` floats. */
static dyno_status write_zeros(const char *path, int count) {
    safetensors_tensor tensor = {.name = "w", .type = DTYPE_F32, .shape = SHAPE(count)};
    safetensors_writer *writer;
    RETURN_IF_FAILED(safetensors_writer_create(path, &tensor, 1, NULL, &writer));
    float *zeros = calloc((size_t)count, sizeof *zeros);
    dyno_status status = safetensors_writer_append(writer, zeros, (size_t)count * sizeof *zeros);
    free(zeros);
    if (status != DYNO_OK) {
        safetensors_writer_abandon(writer);
        return status;
    }
    return safetensors_writer_commit(writer);
}

static void full_disk_leaves_the_old_file_and_nothing_else(void **state) {
    (void)state;
    assert_int_equal(write_zeros("/dev/full", 10), DYNO_IO);
    assert_int_equal(write_zeros("/dev/full", 1000000), DYNO_IO);
    assert_message_has("/dev/full");
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "m.safetensors");
    assert_int_equal(write_zeros(path.text, 10), DYNO_OK);
    struct stat before, after;
    assert_int_equal(stat(path.text, &before), 0);
    const int counts[] = {100, 2000, 100000};
    const long limits[] = {0, 50, 4096};
    for (int i = 0; i < 3; i++) {
        scratch_limit_file_size(limits[i]);
        dyno_status status = write_zeros(path.text, counts[i]);
        scratch_limit_file_size(-1);
        assert_int_equal(status, DYNO_IO);
        assert_int_equal(scratch_count(made.path), 1);
        assert_int_equal(stat(path.text, &after), 0);
        assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size);
    }
    scratch_remove(&made);
}

static void directory_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    scratch made = scratch_create();
    assert_int_equal(write_zeros(scratch_join(&made, "absent/m").text, 10), DYNO_IO);
    assert_int_equal(write_zeros(made.path, 10), DYNO_INVALID);
    assert_int_equal(write_zeros("/proc/m.safetensors", 10), DYNO_IO); /* root neither */
    assert_int_equal(scratch_count(made.path), 0);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_headers_are_accepted),
        cmocka_unit_test(entries_come_in_the_order_of_the_data),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(bytes_after_the_end_are_refused),
        cmocka_unit_test(lying_header_length_is_refused),
        cmocka_unit_test(header_that_is_no_json_object_is_refused),
        cmocka_unit_test(duplicate_names_are_refused),
        cmocka_unit_test(metadata_must_be_strings),
        cmocka_unit_test(malformed_entries_are_refused),
        cmocka_unit_test(overlapping_tensors_are_refused),
        cmocka_unit_test(holes_are_refused),
        cmocka_unit_test(files_that_cannot_be_read_are_refused),
        cmocka_unit_test(a_file_that_shrinks_while_open_is_an_error),
        cmocka_unit_test(what_is_written_reads_back_converted),
        cmocka_unit_test(tensors_larger_than_a_piece_are_converted_whole),
        cmocka_unit_test(writer_that_gets_too_few_or_too_many_bytes_writes_nothing),
        cmocka_unit_test(writer_refuses_bad_declarations),
        cmocka_unit_test(full_disk_leaves_the_old_file_and_nothing_else),
        cmocka_unit_test(directory_that_cannot_be_written_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
