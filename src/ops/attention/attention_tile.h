/* attention_tile.h - so many queries by so many keys that a kernel of attention takes at a time:
 * what its variants are named after. Read by C and by C++. */
#ifndef OPS_ATTENTION_TILE_H
#define OPS_ATTENTION_TILE_H

typedef struct attention_tile {
    int queries, keys;
} attention_tile;

enum { ATTENTION_MOST_TILE_ROWS = 65536 };

/* Digits from *at on, which moves behind them; 0 when there are none or too many. */
static inline int attention_parse_rows(const char **at) {
    int rows = 0;
    for (; **at >= '0' && **at <= '9' && rows <= ATTENTION_MOST_TILE_ROWS; ++*at)
        rows = rows * 10 + (**at - '0');
    return rows <= ATTENTION_MOST_TILE_ROWS ? rows : 0;
}

/* Nothing else but "QxK", both from 1 to ATTENTION_MOST_TILE_ROWS; 0 where it is not that. */
static inline int attention_tile_parse(const char *from, attention_tile *out) {
    out->queries = attention_parse_rows(&from);
    int has_both = *from == 'x';
    from += has_both;
    out->keys = has_both ? attention_parse_rows(&from) : 0;
    return has_both && *from == '\0' && out->queries > 0 && out->keys > 0;
}

#endif
