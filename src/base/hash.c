/* hash.c - two 64-bit FNV-1a hashes with different seeds, each finished by splitmix64. */
#include "base/hash.h"

#include <stdio.h>

static uint64_t finish(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

hash_string hash_text(const char *bytes, size_t count) {
    uint64_t a = 0xcbf29ce484222325u, b = 0x9ae16a3b2f90404fu;
    for (size_t i = 0; i < count; i++) {
        a = (a ^ (unsigned char)bytes[i]) * 0x100000001b3u;
        b = (b ^ (unsigned char)bytes[i]) * 0x100000001b3u + 0x9e3779b97f4a7c15u;
    }
    hash_string out;
    snprintf(out.text, sizeof out.text, "%016llx%016llx", (unsigned long long)finish(a),
             (unsigned long long)finish(b ^ count));
    return out;
}
