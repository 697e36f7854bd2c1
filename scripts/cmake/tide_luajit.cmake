# The module for LuaJIT 2.1: the same files, behind lua_bindings/compat/luajit.h, and lua_bindings/*/*.lua translated
# to what LuaJIT reads. It lies in lib/lua/5.1, where LuaJIT looks.
set(TIDE_LUAJIT AUTO CACHE STRING "Build the module for LuaJIT: AUTO (where its headers are found, without a sanitizer), ON (or fail), OFF")
set_property(CACHE TIDE_LUAJIT PROPERTY STRINGS AUTO ON OFF)
if(NOT TIDE_LUAJIT OR (TIDE_SANITIZE AND TIDE_LUAJIT STREQUAL "AUTO"))
  return()
endif()
find_path(TIDE_LUAJIT_INCLUDE luajit.h PATH_SUFFIXES luajit-2.1)
mark_as_advanced(TIDE_LUAJIT_INCLUDE)
if(NOT TIDE_LUAJIT_INCLUDE)
  if(TIDE_LUAJIT STREQUAL "AUTO")
    return()
  endif()
  message(FATAL_ERROR "tide: TIDE_LUAJIT_INCLUDE was not found: install libluajit-5.1-dev, or set TIDE_LUAJIT=OFF")
endif()

set(compat ${PROJECT_SOURCE_DIR}/lua_bindings/compat)
set(luajit_script ${PROJECT_BINARY_DIR}/script_luajit)
file(MAKE_DIRECTORY ${luajit_script})
# tide_luajit_text(NAME FILE...): the texts as C.
function(tide_luajit_text name)
  add_custom_command(OUTPUT ${luajit_script}/${name} VERBATIM
    COMMAND tide_runner ${compat}/embed.lua ${luajit_script}/${name} ${ARGN}
    DEPENDS tide_runner ${compat}/embed.lua ${compat}/translate.lua ${ARGN})
endfunction()
tide_luajit_text(tide_script.inc ${lua_chunks})
tide_luajit_text(tide_prelude.inc ${compat}/prelude.lua ${compat}/hot.lua)
# What the public headers declare, for the FFI.
add_custom_command(OUTPUT ${luajit_script}/declarations.h VERBATIM
  COMMAND ${CMAKE_C_COMPILER} -std=c11 -E -DTIDE_STATIC -I${PROJECT_SOURCE_DIR}/core/include -x c ${PROJECT_BINARY_DIR}/script/tide_headers.inc
          -o ${luajit_script}/declarations.i
  COMMAND tide_runner ${compat}/cdef.lua ${luajit_script}/declarations.h ${luajit_script}/declarations.i ${public_headers}
  DEPENDS tide_runner tide_marks ${compat}/cdef.lua ${public_headers})
tide_luajit_text(tide_library.inc ${compat}/library.lua ${luajit_script}/declarations.h)

file(GLOB compat_sources CONFIGURE_DEPENDS lua_bindings/compat/*.c)
add_library(tide_luajit_module MODULE ${binding_sources} ${compat_sources} ${luajit_script}/tide_script.inc ${luajit_script}/tide_prelude.inc
  ${luajit_script}/tide_library.inc ${marks})
target_include_directories(tide_luajit_module PRIVATE core/include lua_bindings ${luajit_script} ${PROJECT_BINARY_DIR}/script)
target_include_directories(tide_luajit_module SYSTEM PRIVATE ${TIDE_LUAJIT_INCLUDE})
target_compile_options(tide_luajit_module PRIVATE -Wno-unused-parameter "SHELL:-include ${compat}/luajit.h")
target_link_options(tide_luajit_module PRIVATE -Wl,-z,nodelete)
target_link_libraries(tide_luajit_module PRIVATE tide_flags tide m ${CMAKE_DL_LIBS})
set_target_properties(tide_luajit_module PROPERTIES LINKER_LANGUAGE C PREFIX "" OUTPUT_NAME tide INSTALL_RPATH "$ORIGIN/../.."
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/lua/5.1)
tide_glibc_floor(tide_luajit_module)
target_link_options(tide_luajit_module PRIVATE $<$<BOOL:${TIDE_GLIBC_FLOOR}>:LINKER:--gc-sections>)
