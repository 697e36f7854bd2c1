# Every test, by where its file lies. In a sanitizer's tree only the C tests and the specs are registered, under the
# sanitizer's name; scripts/test --all runs them together with those of the release tree (TIDE_TEST_TREES), for one
# summary. What is labelled `all` runs with --all alone.
set(checks ${PROJECT_SOURCE_DIR}/scripts/checks)
set(prefix "")
set(test_environment "")
set(test_launcher "")
if(TIDE_SANITIZE STREQUAL "thread")
  set(prefix tsan/)
  # It guesses the bounds of a thread's variables in an opened library (a compiled kernel, say) from what lies before
  # them, and ends the process where they happen to begin 16 bytes into a page: it is told not to.
  string(JOIN ":" test_environment "TSAN_OPTIONS=suppressions=${checks}/tsan.supp" second_deadlock_stack=1
    allocator_may_return_null=1 intercept_tls_get_addr=0)
  # ThreadSanitizer maps fixed addresses, which a kernel's wide address randomisation may have taken.
  find_program(TIDE_SETARCH setarch)
  mark_as_advanced(TIDE_SETARCH)
  if(TIDE_SETARCH)
    set(test_launcher ${TIDE_SETARCH} -R)
  endif()
elseif(TIDE_SANITIZE)
  set(prefix asan/)
  set(test_environment "ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1"
    "LSAN_OPTIONS=suppressions=${checks}/lsan.supp:print_suppressions=0" "UBSAN_OPTIONS=print_stacktrace=1")
endif()

# tide_test(NAME seconds [ENV a=b ...] COMMAND ...): a test that runs in the source tree, and at most how many seconds it
# takes alone on two idle cores. Limits are for hangs: ten times that. A busy disk delays short tests by minutes, so they
# have 900 s; and all of .ci/run has to end within 80 minutes where one test hangs, so none has more than 3000 s. The
# longest begin first.
function(tide_test name seconds)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "ENV;COMMAND")
  math(EXPR limit "10 * ${seconds}")
  if(limit LESS 900)
    set(limit 900)
  elseif(limit GREATER 3000)
    set(limit 3000)
  endif()
  add_test(NAME ${prefix}${name} COMMAND ${test_launcher} ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${prefix}${name} PROPERTIES TIMEOUT ${limit} COST ${seconds} SKIP_RETURN_CODE 77
    ENVIRONMENT "${test_environment};${arg_ENV}")
endfunction()

# ---- C tests: linked to the objects, so they may look at private headers ----
file(GLOB c_tests CONFIGURE_DEPENDS spec/c/*_test.c spec/c/*/*_test.c)
if(TIDE_SANITIZE STREQUAL "thread")
  list(FILTER c_tests EXCLUDE REGEX "/(cpu_loops|misuse)_test") # every loop's numbers, every call, on one thread
endif()
foreach(source IN LISTS c_tests)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE core spec/c ${PROJECT_BINARY_DIR}/script)
  target_link_libraries(${name} PRIVATE tide_flags tide_objects)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)
  tide_test(c/${name} 60 COMMAND $<TARGET_FILE:${name}>)
endforeach()

# The calls of misuse_test, from the headers, and of the same test for tide_lua.h.
set(misuse ${PROJECT_SOURCE_DIR}/spec/c/misuse.lua)
set(tide_lua_h ${PROJECT_SOURCE_DIR}/lua_bindings/tide_lua.h)
set(calls ${PROJECT_BINARY_DIR}/script/misuse_calls.inc)
set(lua_calls ${PROJECT_BINARY_DIR}/script/misuse_lua_calls.inc)
add_custom_command(OUTPUT ${calls} ${lua_calls} VERBATIM
  COMMAND tide_runner ${misuse} ${calls} ${public_headers}
  COMMAND tide_runner ${misuse} --lua ${lua_calls} ${tide_lua_h} ${public_headers}
  DEPENDS tide_runner ${misuse} ${tide_lua_h} ${public_headers})
if(TARGET misuse_test)
  target_sources(misuse_test PRIVATE ${calls})
  add_executable(misuse_lua_test spec/c/misuse_test.c ${lua_calls})
  target_compile_definitions(misuse_lua_test PRIVATE MISUSE_LUA)
  target_include_directories(misuse_lua_test PRIVATE core lua_bindings ${PROJECT_BINARY_DIR}/script)
  target_include_directories(misuse_lua_test SYSTEM PRIVATE ${TIDE_LUA_INCLUDE})
  target_link_libraries(misuse_lua_test PRIVATE tide_flags tide_objects tide_binding_objects ${TIDE_LUA_ARCHIVE} m)
  set_target_properties(misuse_lua_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)
  tide_test(c/misuse_lua_test 60 COMMAND $<TARGET_FILE:misuse_lua_test>)
endif()

if(TARGET tide_cuda)
  add_dependencies(ptx_test tide_cuda)
  find_program(TIDE_PTXAS ptxas HINTS ${CUDAToolkit_BIN_DIR})
  mark_as_advanced(TIDE_PTXAS)
  if(TIDE_PTXAS)
    target_compile_definitions(ptx_test PRIVATE "TIDE_PTXAS=\"${TIDE_PTXAS}\"")
  endif()
endif()

# ---- a profiler for the specs: a library such as NVTX_INJECTION64_PATH names ----
add_library(nvtx_recorder MODULE spec/c/nvtx_recorder.c)
target_link_libraries(nvtx_recorder PRIVATE tide_flags)
set_target_properties(nvtx_recorder PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)

# ---- NCCL for simulated devices of several processes: TIDE_NCCL_LIBRARY names it ----
add_library(nccl_double MODULE spec/c/nccl_double.c)
target_link_libraries(nccl_double PRIVATE tide_flags Threads::Threads)
set_target_properties(nccl_double PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)

# ---- an end to long sleeps of simulated devices, for the specs of what is ordered: loaded into the runner ----
add_library(wake MODULE spec/c/wake.c)
target_include_directories(wake PRIVATE core/include)
target_include_directories(wake SYSTEM PRIVATE ${TIDE_LUA_INCLUDE})
target_link_libraries(wake PRIVATE tide_flags)
set_target_properties(wake PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)

# ---- a terminal for the specs of the prompt ----
add_executable(terminal spec/c/terminal.c)
target_link_libraries(terminal PRIVATE tide_flags util)
set_target_properties(terminal PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)
add_library(lost_input MODULE spec/c/lost_input.c)
target_compile_definitions(lost_input PRIVATE _GNU_SOURCE)
set_target_properties(lost_input PROPERTIES PREFIX "" C_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)

# ---- another build of libtide, as LuaJIT's FFI would meet it ----
add_library(other_abi MODULE spec/c/other_abi.c)
target_compile_definitions(other_abi PRIVATE _GNU_SOURCE "LIBTIDE=\"$<TARGET_SONAME_FILE_NAME:tide>\"")
target_include_directories(other_abi PRIVATE core/include)
target_link_libraries(other_abi PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(other_abi PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)

# ---- a time that stands still, for scripts/bench/instructions ----
add_library(still_time MODULE spec/c/still_time.c)
set_target_properties(still_time PROPERTIES PREFIX "" C_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)

# ---- a context of the driver's that is the host's own ----
add_library(context MODULE spec/stress/context.c)
target_include_directories(context SYSTEM PRIVATE ${TIDE_LUA_INCLUDE})
set_target_properties(context PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)

# ---- several Lua states in one process: each a host of the module ----
file(GLOB state_tests CONFIGURE_DEPENDS spec/stress/*_test.c)
list(FILTER state_tests EXCLUDE REGEX "/ramp_test")
foreach(source IN LISTS state_tests)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  if(TIDE_SANITIZE STREQUAL "thread")
    target_sources(${name} PRIVATE scripts/cmake/tsan_longjmp.c)
  endif()
  target_include_directories(${name} PRIVATE core/include lua_bindings)
  target_include_directories(${name} SYSTEM PRIVATE ${TIDE_LUA_INCLUDE})
  target_link_libraries(${name} PRIVATE tide_flags
    -Wl,--whole-archive ${TIDE_LUA_ARCHIVE} -Wl,--no-whole-archive Threads::Threads ${CMAKE_DL_LIBS} m)
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)
  add_dependencies(${name} tide_module)
  if(TIDE_SANITIZE)
    set(rounds "")
  else()
    set(rounds TIDE_STRESS=1000)
  endif()
  if(NOT name STREQUAL "ranks_host_test") # ranks/hosts
    tide_test(stress/${name} 60 ENV ${rounds} COMMAND $<TARGET_FILE:${name}> $<TARGET_FILE:tide_module>)
  endif()
endforeach()

# ---- hosts of frames, for scripts/bench ----
foreach(name IN ITEMS frames frame_jobs)
  add_executable(bench_${name} scripts/bench/${name}.c)
  target_include_directories(bench_${name} PRIVATE core/include lua_bindings)
  target_include_directories(bench_${name} SYSTEM PRIVATE ${TIDE_LUA_INCLUDE})
  target_link_libraries(bench_${name} PRIVATE tide_flags tide
    -Wl,--whole-archive ${TIDE_LUA_ARCHIVE} -Wl,--no-whole-archive Threads::Threads ${CMAKE_DL_LIBS} m)
  set_target_properties(bench_${name} PROPERTIES ENABLE_EXPORTS ON RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)
  add_dependencies(bench_${name} tide_module)
endforeach()
tide_test(stress/bench_frames 6 COMMAND $<TARGET_FILE:bench_frames> $<TARGET_FILE:tide_module> --frames 100 --hz 0)
tide_test(stress/bench_frame_jobs 6 ENV TIDE_SIM_DEVICES=1 COMMAND $<TARGET_FILE:bench_frame_jobs> $<TARGET_FILE:tide_module>
  --device cuda --frames 100 --size 1024)

# Random calls in a state that is not trusted: memory is watched in the sanitizer's tree.
tide_test(stress/sandbox_calls 60 COMMAND $<TARGET_FILE:sandbox_test> $<TARGET_FILE:tide_module> --calls 1 20)
# Seeds whose multiples no int holds.
tide_test(stress/sandbox_seeds 60 COMMAND $<TARGET_FILE:sandbox_test> $<TARGET_FILE:tide_module> --calls 5000000001 5000000004 50)

# ---- memory that fails, tide's and Lua's: a host that holds all of both, so that it can take the place of malloc ----
add_executable(ramp_test spec/stress/ramp_test.c)
if(TIDE_SANITIZE STREQUAL "thread")
  target_sources(ramp_test PRIVATE scripts/cmake/tsan_longjmp.c)
endif()
target_include_directories(ramp_test SYSTEM PRIVATE ${TIDE_LUA_INCLUDE})
target_link_libraries(ramp_test PRIVATE tide_flags tide_objects tide_binding_objects ${TIDE_LUA_ARCHIVE} m
  -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup)
set_target_properties(ramp_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)
tide_test(stress/ramp_test 90 COMMAND $<TARGET_FILE:ramp_test>)

# ---- specs: one suite, once for each kind of device ----
set(busted $<TARGET_FILE:tide_runner> ${checks}/busted.lua)
# They test order, not time, so they run beside each other and beside everything else.
set(suite 250)
if(TIDE_SANITIZE STREQUAL "thread")
  set(suite 400)
elseif(TIDE_SANITIZE)
  set(suite 300)
endif()
# What each run leaves out is counted in a file, which scripts/test shows at the end.
set(pending ${PROJECT_BINARY_DIR}/pending)
file(MAKE_DIRECTORY ${pending})
# What devices, streams and threads of the host are about. Under TSan, and with the stream sanitizer, simulated devices run
# these alone: the arithmetic of a kernel has no threads of its own there, and one stream no race.
file(GLOB all_specs CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} spec/*/*_spec.lua)
# Every function with wrong arguments leaves much behind: a process of its own.
list(FILTER all_specs EXCLUDE REGEX "/sweep_spec")
set(specs_of_devices ${all_specs})
list(FILTER specs_of_devices INCLUDE REGEX "spec/(device|distributed|graph|host|kernel)/|/(copy|file|fuse|fuse_calls|\
fuse_gather|fuse_pending|index|loader|loader_device|matmul|overlap|random|rng|scatter|scope|seed)_spec")
# On the CPU TSan leaves out the files in which no case starts a thread, as a count of calls of pthread_create has shown,
# and those of texts and values, whose threads others start, too.
set(specs_of_threads ${all_specs})
list(FILTER specs_of_threads EXCLUDE REGEX "spec/(call|compat|help|plot|stress)/|/(dlpack|gif|kernel_code|narrow|notebook|npy|\
options|overlap|package|png|print|promotion|random_range|random_support|repl|safetensors|sizes|special_values|tensor|\
vectors)_spec")
# Simulated devices leave out what is the same on each device, so that the CPU's suite has it: texts, files, the prompt;
# under ASan also values of loops and formats, as a simulated device computes with the CPU's.
set(specs_of_sim ${all_specs})
list(FILTER specs_of_sim EXCLUDE REGEX "/(chunks|cpu_memory|help|note|notebook|progress|repl|rows|runner)_spec")
if(TIDE_SANITIZE STREQUAL "thread")
  set(specs_of_sim ${specs_of_devices})
elseif(TIDE_SANITIZE)
  list(FILTER specs_of_sim EXCLUDE REGEX "spec/(compat|plot)/|/(csv|gif|narrow|npy|options|png|print|promotion|\
random_range|random_support|safetensors|sizes|special|special_values|vectors)_spec")
endif()
# Under LuaJIT what differs is calls, blocks, collection and coroutines, beside devices too.
set(specs_of_luajit ${specs_of_sim})
list(FILTER specs_of_luajit INCLUDE REGEX "spec/(call|compat|device|fuse|graph|host)/|/(loader|loader_device|rng)_spec")
function(tide_specs kind)
  set(specs ${all_specs})
  if(kind STREQUAL "sim")
    set(specs ${specs_of_sim})
  elseif(TIDE_SANITIZE STREQUAL "thread")
    set(specs ${specs_of_threads})
  endif()
  tide_test(specs-${kind} ${suite} ENV ${ARGN} TIDE_PENDING=${pending}/specs-${kind} COMMAND ${busted} ${specs})
endfunction()
tide_specs(cpu TIDE_DEVICE=cpu)
if(NOT TIDE_SANITIZE)
  tide_test(specs-sweep 20 ENV TIDE_DEVICE=cpu TIDE_PENDING=${pending}/specs-sweep COMMAND ${busted} spec/call/sweep_spec.lua)
  tide_test(specs-sweep-sim 20 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual
    TIDE_PENDING=${pending}/specs-sweep-sim COMMAND ${busted} spec/call/sweep_spec.lua)
endif()
# Simulated time is virtual, so that the suite waits for nothing; what is about time runs in real time too.
tide_specs(sim TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual)
set(timed event_spec profiler_spec stream_spec sync_spec)
list(TRANSFORM timed REPLACE "(.+)" "spec/device/\\1.lua")
tide_test(specs-clock 30 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=real
  TIDE_PENDING=${pending}/specs-clock COMMAND ${busted} ${timed})
# On several ranks, by each MPI that is installed; messages in pieces of 10 bytes once. Under sanitizers: 2 ranks by MPICH,
# without hooks of UCX into the memory functions, which ThreadSanitizer does not survive.
set(ranks $<TARGET_FILE:tide_runner> ${checks}/ranks.lua)
set(nccl TIDE_DEVICE=cuda TIDE_SIM_DEVICES=1 TIDE_SIM_CLOCK=virtual TIDE_NCCL_LIBRARY=$<TARGET_FILE:nccl_double>)
tide_test(c/nccl_rank_test-double 30 ENV TIDE_NCCL_LIBRARY=$<TARGET_FILE:nccl_double>
  COMMAND $<TARGET_FILE:nccl_rank_test>)
if(TIDE_SANITIZE)
  set(mpich TIDE_RANKS_LAUNCHER=mpirun.mpich UCX_MEM_EVENTS=n)
  tide_test(ranks/cpu 60 ENV TIDE_DEVICE=cpu ${mpich} COMMAND ${ranks} specs $<TARGET_FILE:tide_runner> 2)
  tide_test(ranks/sim 60 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual ${mpich}
    COMMAND ${ranks} specs $<TARGET_FILE:tide_runner> 2)
  tide_test(ranks/specs-nccl 60 ENV ${nccl} ${mpich} COMMAND ${ranks} specs $<TARGET_FILE:tide_runner> 2)
  tide_test(ranks/programs-sim 60 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=2 TIDE_SIM_CLOCK=virtual ${mpich}
    COMMAND ${ranks} programs $<TARGET_FILE:tide_runner> 2 40)
  tide_test(ranks/faults 60 ENV ${mpich} COMMAND ${ranks} faults $<TARGET_FILE:tide_runner> another)
else()
  tide_test(ranks/cpu 120 ENV TIDE_DEVICE=cpu COMMAND ${ranks} specs $<TARGET_FILE:tide_runner> 1 2 3 4)
  tide_test(ranks/sim 120 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual
    COMMAND ${ranks} specs $<TARGET_FILE:tide_runner> 1 2 3 4)
  tide_test(ranks/pieces 30 ENV TIDE_DEVICE=cpu TIDE_MPI_MOST_BYTES=10
    COMMAND ${ranks} specs $<TARGET_FILE:tide_runner> 3)
  tide_test(ranks/programs 60 COMMAND ${ranks} programs $<TARGET_FILE:tide_runner> 4 150)
  tide_test(ranks/hosts 30 COMMAND ${ranks} hosts $<TARGET_FILE:ranks_host_test> $<TARGET_FILE:tide_module>)
  tide_test(ranks/examples 60 COMMAND ${ranks} examples $<TARGET_FILE:tide_runner> 2 3 4)
  tide_test(ranks/saves 60 COMMAND ${ranks} saves $<TARGET_FILE:tide_runner> 8)
  tide_test(ranks/programs-sim 60 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual
    COMMAND ${ranks} programs $<TARGET_FILE:tide_runner> 4 150)
  # The same over a double of NCCL.
  foreach(kind IN ITEMS specs programs)
    set(counts 1 2 3 4)
    if(kind STREQUAL "programs")
      set(counts 4 150)
    endif()
    tide_test(ranks/${kind}-nccl 60 ENV ${nccl} COMMAND ${ranks} ${kind} $<TARGET_FILE:tide_runner> ${counts})
  endforeach()
  tide_test(ranks/alone-nccl 60 ENV ${nccl} TIDE_RANKS_BACKEND=nccl COMMAND ${ranks} specs $<TARGET_FILE:tide_runner> 1)
  tide_test(ranks/faults-nccl 60 ENV TIDE_NCCL_LIBRARY=$<TARGET_FILE:nccl_double>
    COMMAND ${ranks} faults $<TARGET_FILE:tide_runner> device)
  tide_test(ranks/faults 120 COMMAND ${ranks} faults $<TARGET_FILE:tide_runner>)
  # Between two hosts, where the machine allows it: the specs, and a cable that is cut.
  tide_test(ranks/two 120 ENV TIDE_DEVICE=cpu COMMAND ${ranks} two $<TARGET_FILE:tide_runner> link)
  set_tests_properties(${prefix}ranks/two PROPERTIES LABELS all)
endif()
# Kernels written in Lua on a machine without a compiler: by the interpreter alone.
set(interpreted spec/kernel/kernel_lua_spec.lua spec/kernel/kernel_language_spec.lua spec/kernel/kernel_code_spec.lua spec/kernel/kernel_math_spec.lua
  spec/kernel/kernel_barrier_spec.lua spec/kernel/kernel_atomic_spec.lua)
if(TIDE_SANITIZE STREQUAL "thread")
  list(REMOVE_ITEM interpreted spec/kernel/kernel_atomic_spec.lua) # its kernels read what others swap, as a loop of cas does
endif()
tide_test(specs-interpreted 30 ENV TIDE_DEVICE=cpu TIDE_CXX=/nonexistent COMMAND ${busted} ${interpreted})
tide_test(specs-interpreted-sim 30 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual
  TIDE_CXX=/nonexistent COMMAND ${busted} ${interpreted})
# Memory that other streams use, where devices reach each other in other ways.
foreach(fault IN ITEMS nccl peer)
  tide_test(specs-memory-without-${fault} 600 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual
    TIDE_SIM_FAULT=${fault}:off COMMAND ${busted} spec/device/memory_use_spec.lua)
endforeach()
# Linear algebra by each LAPACK that is here, by name: which one a machine prefers depends on its packages.
find_library(TIDE_OPENBLAS NAMES libopenblas.so.0)
find_file(TIDE_LAPACK_REFERENCE liblapack.so.3 PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/lapack NO_DEFAULT_PATH)
mark_as_advanced(TIDE_OPENBLAS TIDE_LAPACK_REFERENCE)
function(tide_lapack_specs name library)
  set(linalg spec/tensor/linalg_spec.lua spec/tensor/matmul_spec.lua spec/tensor/einsum_spec.lua)
  tide_test(specs-${name} 60 ENV TIDE_DEVICE=cpu TIDE_LAPACK=${library} ${ARGN} COMMAND ${busted} ${linalg})
  if(NOT TIDE_SANITIZE)
    tide_test(specs-${name}-sim 60 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual
      TIDE_LAPACK=${library} ${ARGN} COMMAND ${busted} ${linalg})
  endif()
  foreach(test IN ITEMS linalg_test linalg_tail_test)
    tide_test(c/${test}-${name} 60 ENV TIDE_LAPACK=${library} ${ARGN} COMMAND $<TARGET_FILE:${test}>)
  endforeach()
endfunction()
if(TIDE_OPENBLAS)
  tide_lapack_specs(openblas ${TIDE_OPENBLAS})
endif()
if(TIDE_LAPACK_REFERENCE) # with the reference's BLAS: Debian links it to whichever was chosen for all
  get_filename_component(folder ${TIDE_LAPACK_REFERENCE} DIRECTORY)
  tide_lapack_specs(lapack ${TIDE_LAPACK_REFERENCE} LD_LIBRARY_PATH=${folder}:${folder}/../blas)
endif()
# Other schedules of the simulated devices: ten with the one above, fewer where each takes long.
set(last_seed 9)
if(TIDE_SANITIZE)
  set(last_seed 2)
endif()
tide_test(specs-seeds ${suite} COMMAND ${checks}/seeds.sh $<TARGET_FILE:tide_runner> 1 ${last_seed})
set_tests_properties(${prefix}specs-seeds PROPERTIES PROCESSORS 2 LABELS all)
# A machine whose libmvec has none of the functions that loops call: an old glibc.
if(TIDE_GLIBC_FLOOR)
  set(without ${PROJECT_BINARY_DIR}/spec/without_mvec)
  file(WRITE ${without}/empty.c "extern int empty;\nint empty;\n")
  add_library(without_mvec MODULE ${without}/empty.c)
  set_target_properties(without_mvec PROPERTIES PREFIX "" OUTPUT_NAME libmvec SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY ${without})
  tide_test(specs-without-mvec 12 ENV TIDE_DEVICE=cpu LD_LIBRARY_PATH=${without}
    COMMAND ${busted} spec/tensor/ops_spec.lua spec/tensor/special_spec.lua)
endif()
# Tensors that go between tide and PyTorch in one process, where Python has one.
if(NOT TIDE_SANITIZE)
  tide_test(differential/dlpack 30 COMMAND sh -c "python3 -c 'import torch' 2>/dev/null || exit 77; \
exec python3 spec/differential/run.py --trials 200 --tide $<TARGET_FILE:tide_runner> dlpack")
  set_property(TEST differential/dlpack APPEND PROPERTY ENVIRONMENT "TIDE_LIBRARY=$<TARGET_FILE:tide>")
  find_program(TIDE_PYTHON python3)
  mark_as_advanced(TIDE_PYTHON)
  if(TIDE_PYTHON)
    tide_test(interop/dlpack 12 COMMAND ${TIDE_PYTHON} scripts/examples/interop/dlpack.py $<TARGET_FILE:tide>)
  endif()
endif()
# The specs under LuaJIT, but for what spec/luajit.lua says.
if(NOT TIDE_SANITIZE)
  tide_test(luajit/specs 250 ENV TIDE_DEVICE=cpu TIDE_PENDING=${pending}/luajit
    COMMAND ${checks}/luajit.sh ${PROJECT_BINARY_DIR}/lib/lua/5.1 $<TARGET_FILE:tide_runner> spec)
  tide_test(luajit/specs-sim 250 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual TIDE_PENDING=${pending}/luajit_sim
    COMMAND ${checks}/luajit.sh ${PROJECT_BINARY_DIR}/lib/lua/5.1 $<TARGET_FILE:tide_runner> ${specs_of_luajit})
  # Random programs, which LuaJIT compiles in many ways: as many as there is time for.
  set(programs sh -c "command -v luajit >/dev/null && [ -e '${PROJECT_BINARY_DIR}/lib/lua/5.1/tide.so' ] || exit 77
exec luajit spec/stress/luajit.lua --seconds 20 \"$@\"" luajit)
  tide_test(luajit/programs 30 ENV "LUA_CPATH=${PROJECT_BINARY_DIR}/lib/lua/5.1/?.so" COMMAND ${programs} 1 100000)
  tide_test(luajit/programs-sim 30 ENV "LUA_CPATH=${PROJECT_BINARY_DIR}/lib/lua/5.1/?.so" TIDE_SIM_DEVICES=2 TIDE_SIM_CLOCK=virtual
    COMMAND ${programs} --device cuda 100001 200000)
endif()
# A host with LuaJIT, of scripts that it does not trust.
find_library(TIDE_LUAJIT_LIBRARY luajit-5.1)
mark_as_advanced(TIDE_LUAJIT_LIBRARY)
if(TARGET tide_luajit_module AND TIDE_LUAJIT_LIBRARY AND NOT TIDE_SANITIZE)
  add_executable(luajit_host spec/stress/luajit_host.c)
  add_executable(luajit_sandbox spec/stress/sandbox_test.c)
  foreach(host IN ITEMS luajit_host luajit_sandbox)
    target_include_directories(${host} PRIVATE core/include lua_bindings)
    target_include_directories(${host} SYSTEM PRIVATE ${TIDE_LUAJIT_INCLUDE})
    target_link_libraries(${host} PRIVATE tide_flags ${TIDE_LUAJIT_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} m)
    set_target_properties(${host} PROPERTIES ENABLE_EXPORTS ON RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec)
    add_dependencies(${host} tide_luajit_module)
  endforeach()
  target_compile_options(luajit_sandbox PRIVATE "SHELL:-include ${PROJECT_SOURCE_DIR}/spec/stress/luajit_state.h")
  set(parts ${PROJECT_BINARY_DIR}/spec/luajit)
  file(MAKE_DIRECTORY ${parts}/spec/sandbox)
  tide_test(luajit/sandbox 30 COMMAND sh -c "\"$0\" spec/stress/luajit_parts.lua \"$1\" && cd \"$1\" && exec \"$2\" \"$3\""
    $<TARGET_FILE:tide_runner> ${parts} $<TARGET_FILE:luajit_sandbox> $<TARGET_FILE:tide_luajit_module>)
  tide_test(luajit/host 15 COMMAND $<TARGET_FILE:luajit_host> $<TARGET_FILE:tide_luajit_module>)
endif()
# Random calls of everything public, under both of Lua's collectors: most where memory is watched.
set(last_seed 40)
if(TIDE_SANITIZE MATCHES "address")
  set(last_seed 200)
elseif(TIDE_SANITIZE)
  set(last_seed 10)
endif()
tide_test(stress/calls 120 ENV TIDE_SIM_CLOCK=virtual COMMAND ${checks}/calls.sh $<TARGET_FILE:tide_runner> 1 ${last_seed})
set_tests_properties(${prefix}stress/calls PROPERTIES PROCESSORS 2)
# Random kernels in Lua beside plain Lua: most by the block interpreter, as a compiler takes half a second for each.
set(programs 500)
if(TIDE_SANITIZE)
  set(programs 100)
endif()
tide_test(stress/kernels 60 ENV TIDE_CXX=/nowhere TIDE_KERNEL_CACHE=0
  COMMAND $<TARGET_FILE:tide_runner> spec/stress/kernels.lua 1 ${programs})
tide_test(stress/kernels-sim 60 ENV TIDE_CXX=/nowhere TIDE_KERNEL_CACHE=0 TIDE_SIM_DEVICES=1 TIDE_SIM_CLOCK=virtual
  COMMAND $<TARGET_FILE:tide_runner> spec/stress/kernels.lua --device cuda 501 550)
# Random fused functions beside the same ones, likewise.
tide_test(stress/fuse 60 ENV TIDE_CXX=/nowhere TIDE_KERNEL_CACHE=0
  COMMAND $<TARGET_FILE:tide_runner> spec/stress/fuse.lua 1 ${programs})
tide_test(stress/fuse-sim 60 ENV TIDE_CXX=/nowhere TIDE_KERNEL_CACHE=0 TIDE_SIM_DEVICES=1 TIDE_SIM_CLOCK=virtual
  COMMAND $<TARGET_FILE:tide_runner> spec/stress/fuse.lua --device cuda 501 600)
if(TIDE_SANITIZE)
  return()
endif()
tide_test(stress/kernels-compiled 60 COMMAND $<TARGET_FILE:tide_runner> spec/stress/kernels.lua --compiled 1001 1024)
tide_test(stress/fuse-compiled 60 COMMAND $<TARGET_FILE:tide_runner> spec/stress/fuse.lua --compiled 1001 1024)
# Once more with the stream sanitizer on, which must find nothing.
set(watched ${specs_of_devices})
list(FILTER watched EXCLUDE REGEX "/jit_spec")
tide_test(specs-sanitizer 150 ENV TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_CLOCK=virtual TIDE_CUDA_SANITIZER=1
  TIDE_PENDING=${pending}/specs-sanitizer COMMAND ${busted} ${watched})
execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET RESULT_VARIABLE failed)
if(TARGET tide_cuda AND NOT failed AND gpus MATCHES "GPU 0")
  tide_specs(cuda TIDE_DEVICE=cuda)
  # A real GPU is held for a moment alone, and its memory is looked at: the suite gets the machine to itself.
  set_tests_properties(specs-cuda PROPERTIES RUN_SERIAL ON)
  tide_test(stress/context 30 COMMAND $<TARGET_FILE:tide_runner> spec/stress/calls.lua --calls 1000
    --context $<TARGET_FILE:context> 1 5)
endif()

# ---- the text: format, the rules of the house, headers alone, exported names ----
tide_test(check/format 18 COMMAND ${checks}/format.sh)
tide_test(check/rules 18 COMMAND $<TARGET_FILE:tide_runner> ${checks}/rules.lua)
tide_test(check/size 6 COMMAND $<TARGET_FILE:tide_runner> ${checks}/size.lua)
tide_test(check/chunks 6 COMMAND $<TARGET_FILE:tide_runner> ${checks}/chunks.lua)
tide_test(check/luacheck 18 COMMAND ${checks}/luacheck.sh ${PROJECT_BINARY_DIR})
tide_test(check/turns 18 COMMAND $<TARGET_FILE:tide_runner> ${checks}/turns.lua)
tide_test(check/rooms 18 COMMAND $<TARGET_FILE:tide_runner> ${checks}/rooms.lua ${PROJECT_BINARY_DIR})
tide_test(check/symbols 18 COMMAND ${checks}/symbols.sh ${PROJECT_BINARY_DIR})

# The module without plots, a room that nothing else may need. (Without LuaJIT's room it is every tree that has no LuaJIT.)
list(FILTER lua_chunks EXCLUDE REGEX "/plot/")
tide_chunks_text(${PROJECT_BINARY_DIR}/script_without_plot/tide_script.inc ${lua_chunks})
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/script_without_plot)
add_library(tide_without_plot MODULE lua_bindings/tide.c lua_bindings/call/script.c ${PROJECT_BINARY_DIR}/script_without_plot/tide_script.inc
  $<FILTER:$<TARGET_OBJECTS:tide_binding_objects>,EXCLUDE,/lua_bindings/\(plot/.*|tide|call/script\)[.]c[.]o$>)
target_compile_definitions(tide_without_plot PRIVATE TIDE_WITHOUT_PLOT)
target_include_directories(tide_without_plot PRIVATE ${PROJECT_BINARY_DIR}/script_without_plot core/include lua_bindings)
target_include_directories(tide_without_plot SYSTEM PRIVATE ${TIDE_LUA_INCLUDE})
target_link_libraries(tide_without_plot PRIVATE tide_flags tide m)
set_target_properties(tide_without_plot PROPERTIES LINKER_LANGUAGE C PREFIX "" OUTPUT_NAME tide
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/spec/without_plot)
tide_test(check/without_plot 2 COMMAND ${checks}/without_plot.sh ${PROJECT_BINARY_DIR}/spec/without_plot)
# What the last release's programs ask for is still there; and the check sees what breaks them.
tide_test(check/abi 6 COMMAND $<TARGET_FILE:tide_runner> ${checks}/abi.lua ${PROJECT_BINARY_DIR} ${TIDE_LUA_INCLUDE})
tide_test(check/abi-breaks 12 COMMAND ${checks}/abi_breaks.sh $<TARGET_FILE:tide_runner> ${PROJECT_BINARY_DIR} ${TIDE_LUA_INCLUDE})
set(header_flags -fsyntax-only -Wall -Wextra -Werror -pedantic -I${PROJECT_SOURCE_DIR}/core/include -isystem ${TIDE_LUA_INCLUDE})
find_program(TIDE_CXX NAMES c++ g++ clang++)
mark_as_advanced(TIDE_CXX)
foreach(header IN LISTS public_headers distributed_headers ITEMS ${PROJECT_SOURCE_DIR}/lua_bindings/tide_lua.h)
  if(header MATCHES "\\.h$")
    get_filename_component(name ${header} NAME)
    tide_test(header/c/${name} 6 COMMAND ${CMAKE_C_COMPILER} -std=c99 ${header_flags} -x c ${header})
    if(TIDE_CXX)
      tide_test(header/c++/${name} 6 COMMAND ${TIDE_CXX} -std=c++11 ${header_flags} -x c++ ${header})
    endif()
    list(APPEND headers ${header})
  endif()
endforeach()
tide_test(header/standards 12 COMMAND ${checks}/headers.sh ${PROJECT_SOURCE_DIR}/core/include ${TIDE_LUA_INCLUDE} ${headers})

tide_test(check/windows 120 COMMAND ${checks}/windows.sh ${PROJECT_BINARY_DIR}/windows ${TIDE_LUA_INCLUDE}
  ${PROJECT_BINARY_DIR}/script ${CMAKE_C_COMPILER_LAUNCHER})
set_tests_properties(check/windows PROPERTIES PROCESSORS 2 LABELS all)

# ---- the README and the manual: their code run, their text checked, the site built ----
set(docs_room ${PROJECT_SOURCE_DIR}/scripts/docs)
tide_test(docs/code 60 COMMAND $<TARGET_FILE:tide_runner> ${docs_room}/code.lua)
tide_test(docs/text 12 COMMAND $<TARGET_FILE:tide_runner> ${docs_room}/text.lua)
tide_test(docs/spelling 12 COMMAND ${docs_room}/spelling.sh)
tide_test(docs/site 120 COMMAND ${docs_room}/site.sh $<TARGET_FILE:tide_runner> ${PROJECT_BINARY_DIR}/docs_test)
tide_test(docs/browser 60 COMMAND ${docs_room}/browser.sh ${PROJECT_BINARY_DIR}/docs_test)
set_tests_properties(docs/site PROPERTIES FIXTURES_SETUP site)
set_tests_properties(docs/browser PROPERTIES FIXTURES_REQUIRED site)

# ---- Python, whose Lua is lupa's ----
tide_test(interop/python 18 COMMAND ${checks}/python.sh ${PROJECT_BINARY_DIR})

# ---- notebooks: the kernel for Jupyter, headless. Debian's packages are for Debian's Python, which need not be in PATH. ----
tide_test(docs/notebook 60 COMMAND sh -c "python=/usr/bin/python3
$python -c 'import ipykernel, nbclient' 2>/dev/null || python=python3
exec $python scripts/checks/notebook.py $<TARGET_FILE:tide_runner>")

# ---- the example for LÖVE, whose Lua is LuaJIT ----
if(TARGET tide_luajit_module AND NOT TIDE_SANITIZE)
  tide_test(interop/love 12 COMMAND ${checks}/love.sh $<TARGET_FILE_DIR:tide_luajit_module>)
endif()

# ---- what a call costs the host, counted ----
tide_test(bench/instructions 30 COMMAND ${PROJECT_SOURCE_DIR}/scripts/bench/instructions --check ${PROJECT_BINARY_DIR})
set_tests_properties(bench/instructions PROPERTIES PROCESSORS 2 LABELS all)

# ---- examples, with the arguments of their `-- ci:` line ----
file(GLOB examples CONFIGURE_DEPENDS scripts/examples/*.lua)
foreach(example IN LISTS examples)
  get_filename_component(name ${example} NAME_WE)
  tide_test(example/${name} 60 COMMAND ${checks}/example.sh $<TARGET_FILE:tide_runner> ${example})
  set_tests_properties(example/${name} PROPERTIES PROCESSORS 2)
endforeach()
# Those of kernels in Lua once more where there is no compiler.
file(GLOB examples CONFIGURE_DEPENDS scripts/examples/kernels/*.lua)
foreach(example IN LISTS examples)
  get_filename_component(name ${example} NAME_WE)
  tide_test(example/kernels/${name} 30 COMMAND ${checks}/example.sh $<TARGET_FILE:tide_runner> ${example})
  tide_test(example/kernels/${name}-interpreted 30 ENV TIDE_CXX=/nowhere TIDE_KERNEL_CACHE=0
    COMMAND ${checks}/example.sh $<TARGET_FILE:tide_runner> ${example})
endforeach()

# ---- the installed tree, a host built against it, the tarball ----
set(stage ${PROJECT_BINARY_DIR}/stage)
tide_test(install/stage 6 COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${stage})
set_tests_properties(install/stage PROPERTIES FIXTURES_SETUP stage)
foreach(way IN ITEMS cmake pkgconfig)
  tide_test(install/host-${way} 12 COMMAND ${checks}/host.sh ${way} ${stage} ${PROJECT_BINARY_DIR}/host-${way})
  tide_test(install/embed-${way} 30 COMMAND ${checks}/embed.sh ${way} ${stage} ${PROJECT_BINARY_DIR}/embed-${way})
  set_tests_properties(install/host-${way} install/embed-${way} PROPERTIES FIXTURES_REQUIRED stage)
endforeach()
tide_test(install/game 30 COMMAND ${checks}/game.sh $<TARGET_FILE:tide_runner> ${stage} ${PROJECT_BINARY_DIR}/game)
set_tests_properties(install/game PROPERTIES FIXTURES_REQUIRED stage)
tide_test(install/static 12 COMMAND ${checks}/static_host.sh ${stage} ${PROJECT_BINARY_DIR}/host-static)
set_tests_properties(install/static PROPERTIES FIXTURES_REQUIRED stage)
tide_test(install/interop 30 COMMAND ${checks}/interop.sh ${stage} ${PROJECT_BINARY_DIR}/interop)
set_tests_properties(install/interop PROPERTIES FIXTURES_REQUIRED stage)
tide_test(install/module 6 COMMAND ${checks}/module.sh ${stage})
set_tests_properties(install/module PROPERTIES FIXTURES_REQUIRED stage)
# The files of a release, made once and tried one by one.
set(release ${PROJECT_BINARY_DIR}/dist/test)
tide_test(install/release 30 COMMAND ${checks}/release.sh ${PROJECT_BINARY_DIR} ${release})
# It asks the build tree whether all is built, and cpack writes its list of what was installed there.
set_tests_properties(install/release PROPERTIES FIXTURES_SETUP release RESOURCE_LOCK build_tree)
tide_test(install/tarball 12 COMMAND ${checks}/tarball.sh ${PROJECT_BINARY_DIR} ${release})
tide_test(install/deb 30 COMMAND ${checks}/deb.sh ${PROJECT_BINARY_DIR} ${release})
tide_test(install/rock 12 COMMAND ${checks}/rock.sh ${release})
tide_test(install/wheel 30 COMMAND ${checks}/wheel.sh ${release})
set_tests_properties(install/tarball install/deb install/rock install/wheel PROPERTIES FIXTURES_REQUIRED release)

# ---- the sanitizers' trees, when scripts/test --all asks for them ----
file(WRITE ${PROJECT_BINARY_DIR}/more_tests.cmake [[
set(trees $ENV{TIDE_TEST_TREES})
foreach(tree IN LISTS trees)
  include(${CMAKE_CURRENT_LIST_DIR}/${tree}/CTestTestfile.cmake)
endforeach()
]])
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${PROJECT_BINARY_DIR}/more_tests.cmake)
