# The CUDA module, libdyno_cuda.so: built beside dyno wherever there is a working nvcc ($CUDACXX,
# $PATH, $CUDA_HOME, /usr/local/cuda), loaded by dyno where there is a GPU. Without nvcc, nothing
# else changes.
set(DYNO_CUDA_ARCHITECTURES "80-real;89-real;90a-real;90-virtual" CACHE STRING
  "Chips the CUDA module has machine code for (-real) or PTX (-virtual); one builds faster: 90a")

if(NOT DEFINED ENV{CUDACXX})
  find_program(DYNO_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  mark_as_advanced(DYNO_NVCC)
  if(DYNO_NVCC)
    set(ENV{CUDACXX} ${DYNO_NVCC})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${DYNO_CUDA_ARCHITECTURES})
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(NOTICE "nvcc is not here: dyno builds without its CUDA module")
  return()
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
find_path(DYNO_CUBLASLT_HEADERS cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(DYNO_CUBLASLT_HEADERS)
if(NOT DYNO_CUBLASLT_HEADERS OR CUDAToolkit_VERSION VERSION_LESS 12.5)
  message(NOTICE "CUDA ${CUDAToolkit_VERSION} is here: the CUDA module wants 12.5 or later with "
    "cublasLt.h; dyno builds without it")
  return()
endif()

file(GLOB_RECURSE CUDA_MODULE_SOURCES CONFIGURE_DEPENDS src/runtime/cuda/*.c src/ops/*_cublas.c)
list(FILTER CUDA_MODULE_SOURCES EXCLUDE REGEX "/src/runtime/cuda/load\\.c$")
file(GLOB_RECURSE CUDA_KERNEL_SOURCES CONFIGURE_DEPENDS src/runtime/cuda/*.cu src/ops/*.cu)

# The module has its own copies of what it needs of the library, and no name of theirs is seen
# outside: only failures go back (runtime/cuda/module.h).
set(CUDA_MODULE_COPIES
  src/base/arena.c src/base/cache.c src/base/file.c src/base/hash.c src/base/memory.c
  src/base/status.c src/base/text.c src/base/units.c
  src/tensor/attributes.c src/tensor/dtype.c src/tensor/role.c src/tensor/shape.c
  src/tensor/tensor.c
  src/plan/hazards.c
  src/profile/activity.c
  src/ops/matmul/matmul_strided.c
  src/runtime/cuda_library.c src/runtime/nvrtc.c src/runtime/product_problem.c
  src/runtime/tuning_cache.c)

add_library(dyno_cuda_c OBJECT ${CUDA_MODULE_SOURCES} ${CUDA_MODULE_COPIES})
target_include_directories(dyno_cuda_c PRIVATE src include)
target_include_directories(dyno_cuda_c SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
  ${DYNO_CUBLASLT_HEADERS})
target_compile_definitions(dyno_cuda_c PRIVATE DYNO_VERSION="${PROJECT_VERSION}" _DEFAULT_SOURCE)
target_link_libraries(dyno_cuda_c PRIVATE dyno_flags)

# What ptxas says of registers and spills is kept beside each object, for scripts/check-spills.
add_library(dyno_cuda_kernels OBJECT ${CUDA_KERNEL_SOURCES})
target_include_directories(dyno_cuda_kernels PRIVATE src include)
target_compile_options(dyno_cuda_kernels PRIVATE -O3 -lineinfo -Xptxas=-v
  -Xcompiler=-Wall)
# Line numbers are most of the code and nothing of it: the module is a tenth as large this way.
if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
  target_compile_options(dyno_cuda_kernels PRIVATE --compress-mode=size)
endif()
set(CUDA_LAUNCHER ${CMAKE_SOURCE_DIR}/scripts/keep-ptxas-output ${CMAKE_CUDA_COMPILER_LAUNCHER})
set_target_properties(dyno_cuda_kernels PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
  CUDA_COMPILER_LAUNCHER "${CUDA_LAUNCHER}")
set_target_properties(dyno_cuda_c dyno_cuda_kernels PROPERTIES
  C_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)

add_library(dyno_cuda MODULE $<TARGET_OBJECTS:dyno_cuda_c> $<TARGET_OBJECTS:dyno_cuda_kernels>)
set_target_properties(dyno_cuda PROPERTIES PREFIX lib LINKER_LANGUAGE CUDA
  CUDA_RUNTIME_LIBRARY Static CUDA_RESOLVE_DEVICE_SYMBOLS OFF
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/libdyno_cuda.map)
# A sanitizer's functions are found in the program that loads the module.
set(CUDA_MODULE_UNDEFINED defs)
if(DYNO_SANITIZE)
  set(CUDA_MODULE_UNDEFINED undefs)
endif()
target_link_options(dyno_cuda PRIVATE -static-libgcc -static-libstdc++
  LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/libdyno_cuda.map
  LINKER:--exclude-libs,ALL LINKER:-z,${CUDA_MODULE_UNDEFINED})
target_link_libraries(dyno_cuda PRIVATE ${CMAKE_DL_LIBS} m)

# Attention's kernels by themselves, checked and timed; for scripts/gpu-check.
add_executable(attention_check EXCLUDE_FROM_ALL bench/attention_check.cu
  $<FILTER:$<TARGET_OBJECTS:dyno_cuda_kernels>,INCLUDE,src/ops/attention/>)
target_include_directories(attention_check PRIVATE src)
set_target_properties(attention_check PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
  CUDA_RUNTIME_LIBRARY Static CUDA_RESOLVE_DEVICE_SYMBOLS OFF)
