/* tokens.c - every id is checked as it is read: one that is outside the vocabulary would index
 * past the end of the embedding. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/status.h"
#include "formats/input_file.h"

enum { PIECE_BYTES = 16384 };

struct dyno_tokens {
    input_file input;
    int token_bytes;
    int64_t count;
};

dyno_status dyno_tokens_open(const char *path, int token_bytes, dyno_tokens **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(path);
    if (token_bytes != 2 && token_bytes != 4)
        return dyno_fail(DYNO_INVALID,
                         "reading tokens from '%s': %d bytes a token, it must be 2 or 4", path,
                         token_bytes);
    input_file input;
    RETURN_IF_FAILED(input_file_open(path, &input));
    if (input.size % token_bytes != 0) {
        dyno_status status = dyno_fail(
            DYNO_CORRUPT,
            "'%s' is %" PRId64 " bytes, no whole number of tokens of %d bytes; it is truncated, or "
            "its tokens have another size",
            path, input.size, token_bytes);
        input_file_close(&input);
        return status;
    }
    dyno_tokens *source = memory_allocate(1, sizeof *source);
    *source = (dyno_tokens){
        .input = input, .token_bytes = token_bytes, .count = input.size / token_bytes};
    *out = source;
    return status_conclude(DYNO_OK);
}

void dyno_tokens_close(dyno_tokens *source) {
    if (!source)
        return;
    input_file_close(&source->input);
    free(source);
}

int64_t dyno_tokens_count(const dyno_tokens *source) { return source ? source->count : 0; }

static uint32_t load_id(const unsigned char *bytes, int token_bytes) {
    uint32_t id = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
    return token_bytes == 2 ? id : id | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static dyno_status read_piece(const dyno_tokens *source, int64_t start, int64_t count,
                              int64_t vocab, int32_t *ids) {
    unsigned char bytes[PIECE_BYTES];
    RETURN_IF_FAILED(input_file_read(&source->input, start * source->token_bytes, bytes,
                                     (size_t)(count * source->token_bytes)));
    for (int64_t i = 0; i < count; i++) {
        uint32_t id = load_id(bytes + i * source->token_bytes, source->token_bytes);
        if (id >= vocab)
            return dyno_fail(DYNO_CORRUPT,
                             "'%s': token %" PRId64 " is %" PRIu32 ", the vocabulary has %" PRId64
                             " ids; was it made for another "
                             "vocabulary, or with tokens of another size than %d bytes?",
                             source->input.path, start + i, id, vocab, source->token_bytes);
        ids[i] = (int32_t)id;
    }
    return DYNO_OK;
}

dyno_status dyno_tokens_read(const dyno_tokens *source, int64_t start, int64_t count, int64_t vocab,
                             int32_t *ids) {
    RETURN_IF_NULL(source, ids);
    if (vocab < 1 || vocab > INT32_MAX)
        return dyno_fail(DYNO_INVALID, "the vocabulary is %" PRId64 ", it must be from 1 to %d",
                         vocab, INT32_MAX);
    int64_t end;
    if (start < 0 || count < 0 || !checked_add(start, count, &end))
        return dyno_fail(DYNO_INVALID,
                         "'%s': %" PRId64 " tokens from token %" PRId64 " are no range of a file",
                         source->input.path, count, start);
    if (end > source->count)
        return dyno_fail(DYNO_INVALID,
                         "'%s' is too short: %" PRId64 " tokens are needed (%" PRId64
                         " from token %" PRId64 "), it has %" PRId64,
                         source->input.path, end, count, start, source->count);
    int64_t piece = PIECE_BYTES / source->token_bytes;
    for (int64_t done = 0; done < count; done += piece)
        RETURN_IF_FAILED(read_piece(
            source, start + done, count - done < piece ? count - done : piece, vocab, ids + done));
    return status_conclude(DYNO_OK);
}
