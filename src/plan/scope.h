/* scope.h - scopes for reports: layers 0, 1, 2 ... are folded into one line. */
#ifndef PLAN_SCOPE_H
#define PLAN_SCOPE_H

enum { SCOPE_TEXT_BYTES = 128 };

typedef struct {
    char text[SCOPE_TEXT_BYTES];
} scope_text;

/* "layers.3.attn.softmax" -> "layers.*.attn.softmax"; "" -> "(top)". */
scope_text scope_fold_layers(const char *scope);
/* The number of the block that a scope or a value's name belongs to: 3 of "layers.3.attn.softmax" and of
 * "g.model.layers.3.mlp.down_proj.weight"; -1 where it has none, as "sums.bucket.3". */
int scope_block(const char *scope);

#endif
