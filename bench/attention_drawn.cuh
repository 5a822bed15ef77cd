/* attention_drawn.cuh - problems drawn at random, and their checks. Part of attention_check.cu. */
#pragma once

/* What the kernels for sm_90 take. Some have so many heads that every block gets several tiles. */
static problem draw_aligned_problem(int round, int longest, bool is_wide) {
    static const int heads[] = {64, 80,  96,  128, 64,  80,  40,  48,
                                72, 104, 112, 120, 136, 192, 248, 256};
    static const int wide[] = {256, 192, 136, 160, 200};
    problem p = {};
    p.S = is_wide ? wide[round % 5] : heads[round % 16];
    p.type = below(3) ? CUDA_DTYPE_BF16 : CUDA_DTYPE_F16;
    p.K = round % 5 == 2 ? 12 + below(6) : 1 + below(2);
    p.H = p.K * (1 + below(3));
    p.B = 1 + below(2);
    p.T = 1 + below(longest);
    p.T2 = below(3) ? p.T : 1 + below(longest);
    p.is_causal = below(3) > 0;
    p.layout = (enum layout)below(2);
    p.size = below(6) ? 1 : 20;
    p.is_turned = attention_turns_back(p.S) && p.T == p.T2 && below(3);
    return p;
}

static problem draw_problem(int round, int longest) {
    static const int heads[] = {8,  16, 20,  32,  40,  64,  64,  72,
                                80, 96, 100, 128, 128, 160, 192, 256};
    static const int lengths[] = {1,  2,   3,   15,  16,  17,  63,  64,
                                  65, 127, 128, 129, 191, 193, 256, 300};
    static const int types[] = {CUDA_DTYPE_BF16, CUDA_DTYPE_BF16, CUDA_DTYPE_F16, CUDA_DTYPE_F32};
    problem p = {};
    p.S = heads[below(16)];
    p.type = types[round % 4];
    p.is_tf32 = p.type == CUDA_DTYPE_F32 && below(2);
    p.K = 1 + below(2);
    p.H = p.K * (1 + below(3));
    p.B = 1 + below(2);
    do
        p.T = below(2) ? lengths[below(16)] : 1 + below(longest);
    while (p.T > longest);
    do
        p.T2 = below(3) ? p.T : below(2) ? lengths[below(16)] : 1 + below(longest);
    while (p.T2 > longest);
    p.is_causal = below(2);
    p.layout = (enum layout)below(3);
    /* Scores of hundreds in tf32 are off by tenths, and so is all that follows. */
    p.size = p.is_tf32 || below(6) ? 1 : 20;
    p.is_turned = p.type != CUDA_DTYPE_F32 && attention_turns_back(p.S) && p.T == p.T2 && below(3);
    return p;
}

/* So few heads that rows are cut into pieces; some rows see nothing. */
static problem draw_few(int round, int longest) {
    static const int heads[] = {8, 16, 20, 32, 64, 80, 96, 100, 128, 128, 192, 256};
    static const int types[] = {CUDA_DTYPE_F32, CUDA_DTYPE_BF16, CUDA_DTYPE_F16, CUDA_DTYPE_F32,
                                CUDA_DTYPE_BF16};
    problem p = {};
    p.S = heads[round % 12];
    p.type = types[round % 5];
    p.is_tf32 = p.type == CUDA_DTYPE_F32 && round % 3 == 0;
    p.B = 1 + below(4) / 3;
    p.K = 1 + below(4) / 3;
    p.H = p.K * (below(3) ? 1 : 1 + below(4));
    p.T = longest / 2 + below(longest);
    p.T2 = below(2) ? p.T : 1 + below(2 * longest);
    p.is_causal = below(4) > 0;
    p.layout = (enum layout)below(3);
    p.size = p.is_tf32 || below(6) ? 1 : 20;
    return p;
}

static int check_few(int rounds, int longest) {
    int failures = 0;
    for (int round = 0; round < rounds; round++) {
        problem p = draw_few(round, longest);
        failures += check(&p, 60);
    }
    printf("%d drawn problems of few heads: %s\n", rounds, failures ? "FAILED" : "ok");
    return failures;
}

static int check_all(int rounds, int longest) {
    int failures = 0;
    for (int round = 0; round < rounds; round++) {
        problem p = draw_problem(round, longest);
        failures += check(&p, 150);
        p = draw_aligned_problem(round, round % 8 ? 2 * longest : 8 * longest, false);
        attention_way = ATTENTION_TWICE; /* which is for many heads otherwise */
        failures += check(&p, round % 8 ? 150 : 40);
        attention_way = ATTENTION_ONCE; /* and for long contexts */
        if (attention_sum_columns(p.S))
            failures += check(&p, round % 8 ? 150 : 40);
        attention_way = ATTENTION_BEST;
    }
    printf("%d drawn problems: %s\n", 2 * rounds, failures ? "FAILED" : "ok");
    return failures;
}

static int check_wide(int rounds, int longest) {
    int failures = 0;
    attention_way = ATTENTION_TWICE;
    for (int round = 0; round < rounds; round++) {
        problem p = draw_aligned_problem(round, round % 8 ? 2 * longest : 8 * longest, true);
        failures += check(&p, round % 8 ? 100 : 40);
    }
    attention_way = ATTENTION_BEST;
    printf("%d drawn problems of large heads: %s\n", rounds, failures ? "FAILED" : "ok");
    return failures;
}
