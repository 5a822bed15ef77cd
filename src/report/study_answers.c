#include "report/study_answers.h"

#include <math.h>

#include "base/units.h"
#include "measure/keys.h"
#include "report/finding.h"

const study_question study_questions[STUDY_QUESTIONS] = {
    {"How fast?", "No training step was timed.", finding_append_speed},
    {"How far from its limits?", "No cell was timed beside a measured peak.",
     finding_append_limits},
    {"What does not fit?", "No cell ran out of memory.", finding_append_misfits},
    {"What to speed up next?",
     "No step was traced: dyno bench --breakdown tells where its time goes.", finding_append_next}};

void study_append_answer(const study_section *section, const study_question *question, text *out) {
    if (section->run && section->run->cell_count)
        question->append(section->run, out);
}

/* ---- the machine ---- */

const char study_machine_question[] = "Which machine?";

/* Of the first run on this machine that says it. What is computed on paper names no CPU, and its rates are those of
 * the chip that was asked for. */
static const results_value *find(const study *s, const char *key) {
    const results_value *value = NULL;
    for (int i = 0; i < s->count && !value; i++) {
        const results *run = s->sections[i].run;
        if (run && results_find_environment(run, ENV_CPU))
            value = results_find_environment(run, key);
    }
    return value;
}

static void append_text(const study *s, const char *before, const char *key, text *out) {
    const results_value *value = find(s, key);
    if (value && value->kind == RESULTS_TEXT && value->text[0])
        text_format(out, "%s%s%s", out->length ? ", " : "", before, value->text);
}

/* `format` is for one double. */
static void append_number(const study *s, const char *format, const char *key, text *out) {
    double number = results_number(find(s, key));
    if (number > 0 && isfinite(number)) {
        text_append(out, out->length ? ", " : "");
        text_format(out, format, number);
    }
}

static void append_bytes(const study *s, const char *key, text *out) {
    double bytes = results_number(find(s, key));
    if (bytes > 0 && bytes < 0x1p62)
        text_format(out, "%s%s of memory", out->length ? ", " : "",
                    units_bytes((int64_t)bytes).text);
}

static void append_gpu(const study *s, text *out) {
    append_text(s, "", ENV_GPU, out);
    append_bytes(s, ENV_GPU_MEMORY_BYTES, out);
    append_number(s, "peak %.0f TFLOP/s in bf16", ENV_GPU_BF16_TFLOPS, out);
    append_number(s, "%.1f in fp32", ENV_GPU_FP32_TFLOPS, out);
    append_number(s, "copies at %.0f GB/s", ENV_GPU_COPY_GBS, out);
}

static void append_cpu(const study *s, text *out) {
    append_text(s, "", ENV_CPU, out);
    append_number(s, "cores available: %.0f", ENV_CORES_AVAILABLE, out);
    append_bytes(s, ENV_MEMORY_TOTAL_BYTES, out);
    append_number(s, "peak %.1f GFLOP/s in fp32", ENV_PEAK_GFLOPS, out);
    append_number(s, "%.1f in bf16", ENV_PEAK_BF16_GFLOPS, out);
    append_number(s, "copies at %.1f GB/s", ENV_COPY_GBS, out);
}

static void append_versions(const study *s, text *out) {
    append_text(s, "dyno ", ENV_DYNO_VERSION, out);
    append_text(s, "revision ", ENV_DYNO_REVISION, out);
    append_text(s, "", ENV_KERNEL, out);
    for (int i = 0; i < s->count; i++)
        if (s->sections[i].run) {
            text_format(out, "%smeasured %s", out->length ? ", " : "", s->sections[i].run->started);
            break;
        }
}

void study_append_machine(const study *s, text *out) {
    void (*const parts[])(const study *, text *) = {append_gpu, append_cpu, append_versions};
    if (!find(s, ENV_CPU)) {
        text_append(out, "No run of this study names it.");
        return;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        text part = {0};
        parts[i](s, &part);
        if (part.length)
            text_format(out, "%s%s", i && out->length ? "; " : "", text_string(&part));
        text_release(&part);
    }
}
