/* keys.h - the names that a run.json uses, each in one place: measuring writes them, reports read
 * them. docs/run-json.md says what stands under each and in which unit.
 *
 * They are macros, so that they can stand in static tables and be joined with a prefix. A new name
 * is a new row here and in docs/run-json.md; a name that files hold already is never changed. */
#ifndef MEASURE_KEYS_H
#define MEASURE_KEYS_H

/* Verbs that make a run; those of the last two are not kept. */
#define RUN_BENCH "bench"
#define RUN_ATTENTION "attention"
#define RUN_PLAN "plan"
#define RUN_PRECISION "precision"
#define RUN_DOCTOR "doctor"

/* Parameters of a cell: what was asked for, and where a plan has its peak. */
#define PARAM_MODEL "model"
#define PARAM_CONTEXT "context"
#define PARAM_BATCH "batch"
#define PARAM_WARMUP "warmup"
#define PARAM_STEPS "steps"
#define PARAM_PASS "pass"
#define PARAM_MODE "mode"
#define PARAM_MATH "math"
#define PARAM_ATTENTION "attention"
#define PARAM_RECOMPUTE "recompute"
#define PARAM_GRADIENTS "gradients"
#define PARAM_DEVICE "device"
#define PARAM_THREADS "threads"
#define PARAM_SEED "seed"
#define PARAM_IMPL "impl"
#define PARAM_CAUSAL "causal"
#define PARAM_HEADS "heads"
#define PARAM_SEQ "seq"
#define PARAM_HEAD_DIM "head_dim"
#define PARAM_TILE "tile"
#define PARAM_TILES_USED "tiles_used"
#define PARAM_REPS "reps"
#define PARAM_PEAK_AT "peak_at"
#define PARAM_FITS "fits"
#define PARAM_FITS_WITH "fits_with"
#define PARAM_PART "part"
#define PARAM_ITEM "item"
#define PARAM_VALUE "value"
#define PARAM_NOTE "note"
#define PARAM_WAY "way"
#define PARAM_TERM_TYPE "term_type"
#define PARAM_TOTAL_TYPE "total_type"
#define PARAM_TERMS "terms"
#define PARAM_TERM "term"

/* Metrics of a cell: counts and sizes of its plan, */
#define METRIC_TOKENS "tokens"
#define METRIC_PARAMETERS "parameters"
#define METRIC_LAUNCHES "launches"
#define METRIC_FLOPS "flops"
#define METRIC_FORWARD_FLOPS "forward_flops"
#define METRIC_BACKWARD_FLOPS "backward_flops"
#define METRIC_OPTIMIZER_FLOPS "optimizer_flops"
#define METRIC_SPLIT_LAUNCHES "split_launches"
#define METRIC_SPLIT_FLOPS "split_flops"
#define METRIC_BYTES_MOVED "bytes_moved"
#define METRIC_PREDICTED_BYTES "predicted_bytes"
#define METRIC_PREDICTED_RESERVED_BYTES "predicted_reserved_bytes"
#define METRIC_BEFORE_BACKWARD_BYTES "before_backward_bytes"
#define METRIC_PEAK_LAUNCH "peak_launch"
#define METRIC_MEMORY_BYTES "memory_bytes"
#define METRIC_NEEDED_BYTES "needed_bytes"
#define METRIC_AVAILABLE_BYTES "available_bytes"
#define METRIC_ESTIMATED_S "estimated_s"
#define METRIC_SUM "sum"
#define METRIC_LOSS "loss"
/* Follows the name of a phase. */
#define METRIC_FLOPS_SUFFIX "_flops"

/* what memory it used, */
#define METRIC_PEAK_BYTES "peak_bytes"
#define METRIC_RESERVED_BYTES "reserved_bytes"
#define METRIC_ARENA_BYTES "arena_bytes"
#define METRIC_COMMITTED_BYTES "committed_bytes"
#define METRIC_DEVICE_USED_BYTES "device_used_bytes"
#define METRIC_RSS_BYTES "rss_bytes"
/* Followed by a role, and by what of a GPU's memory is no tensor. */
#define METRIC_AT_PEAK_PREFIX "at_peak."
#define METRIC_DEVICE_PREFIX "device."

/* what its times are compared with and consist of, */
#define METRIC_PEAK_GFLOPS "peak_gflops"
#define METRIC_SETUP_NS "setup_ns"
#define METRIC_FIRST_STEP_NS "first_step_ns"
#define METRIC_TRACED_STEP_NS "traced_step_ns"
#define METRIC_IN_LAUNCHES_NS "in_launches_ns"
#define METRIC_DEVICE_SPAN_NS "device_span_ns"
#define METRIC_DEVICE_BUSY_NS "device_busy_ns"
#define METRIC_DEVICE_UNKNOWN_NS "device_unknown_ns"
#define METRIC_BETWEEN_STEPS_NS "between_steps_ns"
#define METRIC_LAUNCHES_UNSEEN "launches_unseen"

/* and who else used the processor meanwhile. */
#define METRIC_WATCHED_NS "watched_ns"
#define METRIC_OWN_CPU_NS "own_cpu_ns"
#define METRIC_ALL_CPU_NS "all_cpu_ns"
#define METRIC_WAITED_NS "waited_ns"
#define METRIC_PREEMPTIONS "preemptions"

/* Samples of a cell. Those of a phase, or of several that run at the same time, have the names that
 * phase_name (plan/plan.h) gives them, joined by '+'. */
#define SERIES_WARMUP "warmup"
#define SERIES_STEP "step"
#define SERIES_FORWARD "forward"
#define SERIES_BACKWARD "backward"
#define SERIES_OPTIMIZER "optimizer"
#define SERIES_BACKWARD_OPTIMIZER "backward+optimizer"

/* Breakdowns, the keys of their rows and their columns. */
#define BREAKDOWN_BY_CLASS "by_class"
#define BREAKDOWN_BY_KERNEL "by_kernel"
#define BREAKDOWN_BY_PHASE "by_phase"
#define BREAKDOWN_BY_SCOPE "by_scope"
#define BREAKDOWN_PEAK_VALUES "peak_values"

#define KEY_CLASS "class"
#define KEY_KERNEL "kernel"
#define KEY_PHASE "phase"
#define KEY_SCOPE "scope"
#define KEY_VALUE "value"
#define KEY_ROLE "role"
#define KEY_FORMULA "formula"

#define COLUMN_TIME "time"
#define COLUMN_COUNT "count"
#define COLUMN_FLOPS "flops"
#define COLUMN_BYTES "bytes"
#define COLUMN_RUNNING "running"
#define COLUMN_FORWARD "forward"
#define COLUMN_BACKWARD "backward"
#define COLUMN_OPTIMIZER "optimizer"
#define COLUMN_LAUNCHES "launches"

/* The environment: the machine, */
#define ENV_DATE "date"
#define ENV_CPU "cpu"
#define ENV_CPU_FLAGS "cpu_flags"
#define ENV_CORES_PHYSICAL "cores_physical"
#define ENV_CORES_LOGICAL "cores_logical"
#define ENV_CORES_AVAILABLE "cores_available"
#define ENV_ISA_AVX2 "isa_avx2"
#define ENV_ISA_AVX512 "isa_avx512"
#define ENV_ISA_AVX512_BF16 "isa_avx512_bf16"
#define ENV_ISA_AMX_BF16 "isa_amx_bf16"
#define ENV_L1_DATA_BYTES "l1_data_bytes"
#define ENV_L2_BYTES "l2_bytes"
#define ENV_L3_BYTES "l3_bytes"
#define ENV_FREQUENCY_GOVERNOR "frequency_governor"
#define ENV_KERNEL "kernel"
#define ENV_MEMORY_TOTAL_BYTES "memory_total_bytes"
#define ENV_MEMORY_AVAILABLE_BYTES "memory_available_bytes"
#define ENV_LOAD_AVERAGE_1MIN "load_average_1min"
#define ENV_LOAD_AVERAGE_5MIN "load_average_5min"
#define ENV_LOAD_AVERAGE_15MIN "load_average_15min"

/* dyno itself and what the run uses, */
#define ENV_COMPILER "compiler"
#define ENV_DYNO_VERSION "dyno_version"
#define ENV_DYNO_REVISION "dyno_revision"
#define ENV_THREADS "threads"
#define ENV_ONEDNN "onednn"
#define ENV_TARGET "target"
#define ENV_DEVICE "device"

/* what the machine can do, measured, */
#define ENV_PEAK_GFLOPS "peak_gflops"
#define ENV_PEAK_BF16_GFLOPS "peak_bf16_gflops"
#define ENV_PEAK_BF16_BY "peak_bf16_by"
#define ENV_READ_GBS "read_gbs"
#define ENV_COPY_GBS "copy_gbs"
#define ENV_VERDICT "verdict"

/* and a GPU. */
#define ENV_GPU "gpu"
#define ENV_GPU_COMPUTE_CAPABILITY "gpu_compute_capability"
#define ENV_GPU_MULTIPROCESSORS "gpu_multiprocessors"
#define ENV_GPU_MEMORY_BYTES "gpu_memory_bytes"
#define ENV_GPU_MEMORY_FREE_BYTES "gpu_memory_free_bytes"
#define ENV_CUDA_DRIVER "cuda_driver"
#define ENV_CUDA_RUNTIME "cuda_runtime"
#define ENV_GPU_COPY_GBS "gpu_copy_gbs"
#define ENV_GPU_FP32_TFLOPS "gpu_fp32_tflops"
#define ENV_GPU_TF32_TFLOPS "gpu_tf32_tflops"
#define ENV_GPU_BF16_TFLOPS "gpu_bf16_tflops"
#define ENV_GPU_FP16_TFLOPS "gpu_fp16_tflops"

#endif
