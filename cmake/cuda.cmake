# The CUDA module, libdyno_cuda.so: built beside dyno, loaded by it where there is a GPU. Without
# the module, nothing else changes. nvcc is looked for in $CUDACXX, $PATH, $CUDA_HOME and
# /usr/local/cuda.
set(DYNO_CUDA auto CACHE STRING
  "Build the CUDA module: on, off, or auto (for this machine's GPUs, or DYNO_CUDA_ARCHITECTURES)")
set(DYNO_CUDA_ARCHITECTURES "" CACHE STRING
  "Chips the CUDA module has machine code for (-real) or PTX (-virtual); DYNO_CUDA=on: all of them")
set(DYNO_CUDA_KERNELS "" CACHE PATH
  "Another build directory: its compiled kernels are linked, none are compiled here")
set(ALL_CUDA_ARCHITECTURES 80-real 89-real 90a-real 90-virtual)

# Ends this file: a module that was asked for must be built, otherwise one line says why it is not.
# dyno must not find one that an earlier configuration built here.
macro(leave_cuda_out reason)
  if(DYNO_CUDA STREQUAL "on")
    message(FATAL_ERROR "DYNO_CUDA is on, and the CUDA module cannot be built: ${reason}")
  endif()
  message(NOTICE "${reason}: building without the CUDA module${ARGN}")
  file(REMOVE ${CMAKE_BINARY_DIR}/libdyno_cuda.so)
  return()
endmacro()

if(NOT DYNO_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "DYNO_CUDA is '${DYNO_CUDA}'; it may be auto, on or off")
endif()
if(DYNO_CUDA STREQUAL "off")
  leave_cuda_out("DYNO_CUDA is off")
endif()
set(CUDA_CHIPS ${DYNO_CUDA_ARCHITECTURES})
if(DYNO_CUDA STREQUAL "auto" AND NOT CUDA_CHIPS)
  if(NOT FOUND_GPU_ARCHITECTURES) # a GPU is asked once for each build directory
    include(cmake/find-gpu.cmake)
    find_gpu_architectures(found)
    set(FOUND_GPU_ARCHITECTURES "${found}" CACHE INTERNAL "What this machine's GPUs run")
  endif()
  set(CUDA_CHIPS ${FOUND_GPU_ARCHITECTURES})
  if(NOT CUDA_CHIPS)
    leave_cuda_out("no GPU here" "; make CUDA=1 builds it")
  endif()
endif()
if(NOT CUDA_CHIPS OR CUDA_CHIPS STREQUAL "all")
  set(CUDA_CHIPS ${ALL_CUDA_ARCHITECTURES})
endif()

if(NOT DEFINED ENV{CUDACXX})
  find_program(DYNO_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  mark_as_advanced(DYNO_NVCC)
  if(DYNO_NVCC)
    set(ENV{CUDACXX} ${DYNO_NVCC})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${CUDA_CHIPS})
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  leave_cuda_out("nvcc is not here")
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
find_path(DYNO_CUBLASLT_HEADERS cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(DYNO_CUBLASLT_HEADERS)
if(NOT DYNO_CUBLASLT_HEADERS OR CUDAToolkit_VERSION VERSION_LESS 12.5)
  leave_cuda_out("CUDA ${CUDAToolkit_VERSION} is here, 12.5 or later with cublasLt.h is needed")
endif()

file(GLOB_RECURSE CUDA_MODULE_SOURCES CONFIGURE_DEPENDS src/runtime/cuda/*.c src/ops/*_cublas.c)
list(FILTER CUDA_MODULE_SOURCES EXCLUDE REGEX "/src/runtime/cuda/load\\.c$")
file(GLOB_RECURSE CUDA_KERNEL_SOURCES CONFIGURE_DEPENDS src/runtime/cuda/*.cu src/ops/*.cu)

# The module has its own copies of what it needs of the library, and no name of theirs is seen
# outside: only failures go back (runtime/cuda/module.h).
set(CUDA_MODULE_COPIES
  src/base/arena.c src/base/cache.c src/base/demangle.c src/base/file.c src/base/hash.c
  src/base/memory.c src/base/name_table.c
  src/base/printable.c src/base/status.c src/base/text.c src/base/trust.c src/base/units.c
  src/tensor/attributes.c src/tensor/dtype.c src/tensor/role.c src/tensor/shape.c
  src/tensor/tensor.c
  src/plan/hazards.c
  src/profile/launch_log.c
  src/ops/matmul/matmul_strided.c src/ops/collectives.c
  src/runtime/autotune.c src/runtime/cuda_library.c src/runtime/nvrtc.c src/runtime/product_problem.c
  src/runtime/tuning_cache.c)

add_library(dyno_cuda_c OBJECT ${CUDA_MODULE_SOURCES} ${CUDA_MODULE_COPIES})
target_include_directories(dyno_cuda_c PRIVATE src include)
target_include_directories(dyno_cuda_c SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
  ${DYNO_CUBLASLT_HEADERS})
target_compile_definitions(dyno_cuda_c PRIVATE DYNO_VERSION="${PROJECT_VERSION}" _DEFAULT_SOURCE)
target_link_libraries(dyno_cuda_c PRIVATE dyno_flags)

# The kernels are compiled without sanitizers, so a build with them can link those of one without.
if(DYNO_CUDA_KERNELS)
  foreach(source ${CUDA_KERNEL_SOURCES})
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${source})
    set(object ${DYNO_CUDA_KERNELS}/CMakeFiles/dyno_cuda_kernels.dir/${name}.o)
    if(NOT EXISTS ${object})
      message(FATAL_ERROR "DYNO_CUDA_KERNELS: ${DYNO_CUDA_KERNELS} has not compiled ${name}; build "
        "the CUDA module there first")
    endif()
    list(APPEND COMPILED_KERNELS ${object})
  endforeach()
  add_library(dyno_cuda_kernels OBJECT IMPORTED)
  set_target_properties(dyno_cuda_kernels PROPERTIES IMPORTED_OBJECTS "${COMPILED_KERNELS}")
else()
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
    CUDA_COMPILER_LAUNCHER "${CUDA_LAUNCHER}" CUDA_VISIBILITY_PRESET hidden)
endif()
set_target_properties(dyno_cuda_c PROPERTIES C_VISIBILITY_PRESET hidden)

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
# CMake adds the runtime by itself only where it compiles CUDA sources.
target_link_libraries(dyno_cuda PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS} m)
