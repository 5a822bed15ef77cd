#include "base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Each rounds up to the next unit where it would otherwise print 1024.00, 1000.0 or 60.0. */

units_text units_bytes(int64_t bytes) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    units_text out;
    double value = (double)bytes;
    int step = 0;
    while (fabs(value) >= (step ? 1023.995 : 1024) && step < 5) {
        value /= 1024;
        step++;
    }
    snprintf(out.text, sizeof out.text, step ? "%.2f %s" : "%.0f %s", value, unit[step]);
    return out;
}

units_text units_count(double count) {
    static const char *const unit[] = {"", " k", " M", " G", " T", " P", " E"};
    units_text out;
    int step = 0;
    while (fabs(count) >= (step ? 999.95 : 999.5) && step < 6) {
        count /= 1000;
        step++;
    }
    int decimals = step == 0 ? 0 : fabs(count) >= 9.995 ? 1 : 2;
    snprintf(out.text, sizeof out.text, "%.*f%s", decimals, count, unit[step]);
    return out;
}

units_text units_duration(double seconds) {
    units_text out;
    long long whole = llround(seconds);
    if (seconds < 59.95)
        snprintf(out.text, sizeof out.text, "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(out.text, sizeof out.text, "%lld min %02lld s", whole / 60, whole % 60);
    else
        snprintf(out.text, sizeof out.text, "%lld h %02lld min", whole / 3600, whole / 60 % 60);
    return out;
}

dyno_status units_parse_bytes(const char *text, int64_t *bytes) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        {"", 1},         {"B", 1},      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
        {"TiB", 0x1p40}, {"K", 0x1p10}, {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
        {"kB", 1e3},     {"MB", 1e6},   {"GB", 1e9},     {"TB", 1e12},
    };
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(isdigit((unsigned char)text[0]) || text[0] == '.') || !isfinite(value))
        return dyno_fail(DYNO_INVALID, "'%s' is not a size; write it like 32GiB or 512MiB", text);
    while (isspace((unsigned char)*end))
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(end, units[i].name) == 0) {
            double total = value * units[i].factor;
            if (total < 1 || total > 0x1p62)
                return dyno_fail(DYNO_INVALID, "size '%s' is outside 1 B to 4 EiB", text);
            *bytes = (int64_t)total;
            return DYNO_OK;
        }
    return dyno_fail(DYNO_INVALID,
                     "'%s' is not a size: unknown unit '%s'; use KiB, MiB, GiB or TiB", text, end);
}

/* Fails unless the text begins with a number that is not negative; *end is what follows it. */
static bool parse_number(const char *text, double *value, const char **end) {
    char *behind;
    *value = strtod(text, &behind);
    bool is_plain = isdigit((unsigned char)text[0]) || text[0] == '.';
    while (isspace((unsigned char)*behind))
        behind++;
    *end = behind;
    return is_plain && isfinite(*value) && *value >= 0;
}

dyno_status units_parse_duration(const char *text, double *seconds) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},   {"s", 1},    {"sec", 1},  {"ms", 1e-3},
                 {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    double value;
    const char *unit;
    if (parse_number(text, &value, &unit))
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strcasecmp(unit, units[i].name) == 0 && value * units[i].factor <= 1e9) {
                *seconds = value * units[i].factor;
                return DYNO_OK;
            }
    return dyno_fail(DYNO_INVALID, "'%s' is not a time; write it like 90s, 20min or 2h", text);
}

dyno_status units_parse_share(const char *text, double *share) {
    double value;
    const char *unit;
    bool is_number = parse_number(text, &value, &unit);
    bool is_percent = is_number && strcmp(unit, "%") == 0;
    double found = is_percent ? value / 100 : value;
    if (!is_number || (!is_percent && *unit) || found >= 1)
        return dyno_fail(DYNO_INVALID,
                         "'%s' is not a share from 0 to below 100 %%; write it like 2%% or 0.02",
                         text);
    *share = found;
    return DYNO_OK;
}

dyno_status units_parse_bandwidth(const char *text, double *bytes_a_second) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        {"B/s", 1},        {"kB/s", 1e3},       {"MB/s", 1e6},       {"GB/s", 1e9},
        {"TB/s", 1e12},    {"KiB/s", 0x1p10},   {"MiB/s", 0x1p20},   {"GiB/s", 0x1p30},
        {"TiB/s", 0x1p40}, {"Mbit/s", 1e6 / 8}, {"Gbit/s", 1e9 / 8}, {"Tbit/s", 1e12 / 8},
    };
    double value;
    const char *unit;
    if (!parse_number(text, &value, &unit))
        return dyno_fail(DYNO_INVALID, "'%s' is not a bandwidth; write it like 450GB/s", text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0) {
            double rate = value * units[i].factor;
            if (rate < 1 || rate > 1e18)
                return dyno_fail(DYNO_INVALID, "bandwidth '%s' is outside 1 B/s to 1e18 B/s", text);
            *bytes_a_second = rate;
            return DYNO_OK;
        }
    return dyno_fail(DYNO_INVALID,
                     "'%s' is not a bandwidth: unknown unit '%s'; use MB/s, GB/s or TB/s, MiB/s or "
                     "GiB/s, or Gbit/s",
                     text, unit);
}
