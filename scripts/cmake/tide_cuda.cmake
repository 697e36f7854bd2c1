# libtide_cuda.so: core/backend/cuda and kernels. It exports one function and links neither libtide nor a CUDA library
# but the static runtime, so a machine without a driver can open it and be told so. Sets TIDE_CUDA_SUMMARY.
set(TIDE_CUDA_SUMMARY "no CUDA: cpu and simulated devices only")
if(TIDE_CUDA STREQUAL "OFF")
  return()
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS core/backend/library.c core/backend/nccl.c core/os/posix.c core/backend/cuda/*.c kernels/*.cu kernels/*/*.cu)

find_program(TIDE_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
mark_as_advanced(TIDE_NVCC)

# The architectures that this nvcc can compile for, out of the ones that tide supports.
function(tide_known_architectures out)
  execute_process(COMMAND ${TIDE_NVCC} --list-gpu-arch OUTPUT_VARIABLE listed ERROR_QUIET)
  set(known)
  foreach(arch IN ITEMS 75 80 86 89 90 100 120)
    if(listed MATCHES "compute_${arch}(\n|$)")
      list(APPEND known ${arch})
    endif()
  endforeach()
  set(${out} ${known} PARENT_SCOPE)
endfunction()

# Asked for, else this machine's GPUs, else every known one and PTX of the newest for what comes later.
function(tide_choose_architectures out)
  if(TIDE_CUDA_ARCHITECTURES)
    set(${out} ${TIDE_CUDA_ARCHITECTURES} PARENT_SCOPE)
    return()
  endif()
  tide_known_architectures(known)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE caps RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    set(caps "")
  endif()
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" caps "${caps}")
  list(TRANSFORM caps REPLACE "\\." "")
  list(REMOVE_DUPLICATES caps)
  set(wanted)
  foreach(cap IN LISTS caps)
    list(APPEND wanted ${cap}-real)
  endforeach()
  if(NOT wanted)
    list(TRANSFORM known APPEND -real OUTPUT_VARIABLE wanted)
    list(GET known -1 newest)
    list(APPEND wanted ${newest}-virtual)
  endif()
  set(${out} ${wanted} PARENT_SCOPE)
endfunction()

if(TIDE_NVCC)
  if(NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${TIDE_NVCC})
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  if(TIDE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "tide: TIDE_CUDA=ON, but no working CUDA Toolkit (nvcc) was found; put it on PATH or in /usr/local/cuda")
  endif()
  message(STATUS "tide: no working CUDA Toolkit (nvcc) found: building for cpu and simulated devices")
  return()
endif()
tide_choose_architectures(CMAKE_CUDA_ARCHITECTURES)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

# Four fifths of the time goes into optimising kernels, which a machine that only asks whether they compile never runs.
set(quick)
if(TIDE_CUDA_QUICK AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  set(quick --Ofast-compile=max)
elseif(TIDE_CUDA_QUICK)
  set(quick -Xcicc=-O1 -Xptxas=-O1)
endif()

# PTX of every elementwise operation, which ptx.c carries: of the oldest architecture, which all others take too.
list(FILTER cuda_sources EXCLUDE REGEX "_ptx\\.cu$")
set(op_ptx ${CMAKE_CURRENT_BINARY_DIR}/op.ptx)
tide_known_architectures(oldest)
list(GET oldest 0 oldest)
separate_arguments(op_flags NATIVE_COMMAND "${CMAKE_CUDA_FLAGS}")
if(CMAKE_CUDA_HOST_COMPILER)
  list(APPEND op_flags -ccbin ${CMAKE_CUDA_HOST_COMPILER})
endif()
file(GLOB op_headers CONFIGURE_DEPENDS kernels/*.cuh kernels/*/*.cuh core/include/tide/op.def core/base/mathematics/*.h core/base/special.h)
add_custom_command(OUTPUT ${op_ptx}
  COMMAND ${CMAKE_CUDA_COMPILER} -ptx -rdc=true -arch=compute_${oldest} -std=c++17 --expt-relaxed-constexpr ${op_flags}
    -I${PROJECT_SOURCE_DIR}/core -I${PROJECT_SOURCE_DIR}/core/include -I${PROJECT_SOURCE_DIR}/kernels
    -o ${op_ptx} ${PROJECT_SOURCE_DIR}/kernels/loops/op_ptx.cu
  DEPENDS kernels/loops/op_ptx.cu ${op_headers} VERBATIM)
set_source_files_properties(core/backend/cuda/ptx.c PROPERTIES
  COMPILE_DEFINITIONS "TIDE_OP_PTX=\"${op_ptx}\"" OBJECT_DEPENDS ${op_ptx})

# What is written for Hopper's own instructions is compiled for it alone, and chosen at run time.
list(FILTER cuda_sources EXCLUDE REGEX "_hopper\\.cu$")
file(GLOB hopper_sources CONFIGURE_DEPENDS kernels/*/*_hopper.cu)
add_library(tide_hopper OBJECT ${hopper_sources})
set_target_properties(tide_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real POSITION_INDEPENDENT_CODE ON)

add_library(tide_cuda MODULE ${cuda_sources} $<TARGET_OBJECTS:tide_hopper>)
target_link_libraries(tide_cuda PRIVATE tide_flags CUDA::cudart_static)
target_link_libraries(tide_hopper PRIVATE tide_flags)
add_dependencies(tide_cuda tide_texts)
foreach(target IN ITEMS tide_cuda tide_hopper)
  target_include_directories(${target} PRIVATE core core/include kernels ${PROJECT_BINARY_DIR}/script)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xfatbin=-compress-all;-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter;${quick}>
    $<$<AND:$<BOOL:${TIDE_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings;-Xcompiler=-Werror>)
endforeach()
set(exports ${PROJECT_SOURCE_DIR}/scripts/cmake/libtide_cuda.map)
target_link_options(tide_cuda PRIVATE -Wl,--version-script=${exports} -Wl,-z,defs
  -Wl,-soname,libtide_cuda.so # a module has none otherwise, and Debian asks it of every library in /usr/lib
  -Wl,--wrap=__cudaRegisterFunction -static-libstdc++ -static-libgcc) # preload.c notes the kernels
set_target_properties(tide_cuda PROPERTIES OUTPUT_NAME tide_cuda PREFIX lib LINKER_LANGUAGE CUDA
  CUDA_RUNTIME_LIBRARY Static LINK_DEPENDS ${exports})
tide_glibc_floor(tide_cuda)
# What tide.cuda.get_arch_list() says: "90" is machine code and the intermediate code beside it.
set(arch_list)
foreach(arch IN LISTS CMAKE_CUDA_ARCHITECTURES)
  string(REGEX REPLACE "-.*" "" number ${arch})
  if(NOT arch MATCHES "-virtual$")
    list(APPEND arch_list sm_${number})
  endif()
  if(NOT arch MATCHES "-real$")
    list(APPEND arch_list compute_${number})
  endif()
endforeach()
list(JOIN arch_list " " arch_list)
set_source_files_properties(core/backend/cuda/nvml.c PROPERTIES COMPILE_DEFINITIONS "TIDE_CUDA_ARCH_LIST=\"${arch_list}\"")
list(JOIN CMAKE_CUDA_ARCHITECTURES " " archs)
set(TIDE_CUDA_SUMMARY "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${archs}")
if(TIDE_CUDA_QUICK)
  string(APPEND TIDE_CUDA_SUMMARY ", kernels not optimised")
endif()
