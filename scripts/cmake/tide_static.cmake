# libtide.a and libtide_lua.a: tide::static and tide::lua_static. Each archive holds one object, linked from all of the
# library's, so that a host's linker takes all or nothing: constructors, by which backends and rooms register, are not
# left out. Its only names are those that the shared library exports: libpng and zlib inside meet no others of a host.
function(tide_static_library name objects keep)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "OUTPUT_NAME" "LINK")
  set(object ${PROJECT_BINARY_DIR}/static/${name}${CMAKE_C_OUTPUT_EXTENSION})
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/static
    COMMAND ${CMAKE_C_COMPILER} -nostdlib -r -o ${object} ${objects} ${arg_LINK}
    COMMAND ${CMAKE_OBJCOPY} --wildcard ${keep} ${object}
    DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM)
  add_library(${name} STATIC ${object})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  string(REGEX REPLACE "^tide_" "" export ${name})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME ${arg_OUTPUT_NAME} EXPORT_NAME ${export}
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  install(TARGETS ${name} EXPORT tide_targets ARCHIVE DESTINATION lib)
endfunction()

# Public names begin with tide_, those that rooms share with tide__.
add_library(tide_png_stderr OBJECT scripts/cmake/png_stderr.c)
tide_static_library(tide_static "$<TARGET_OBJECTS:tide_objects>;$<TARGET_OBJECTS:tide_png_stderr>"
  "--keep-global-symbol=tide_[!_]*" OUTPUT_NAME tide LINK -Wl,--wrap=stderr ${TIDE_PNG_ARCHIVE} ${TIDE_Z_ARCHIVE})
target_include_directories(tide_static INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/include> $<INSTALL_INTERFACE:include>)
set(tide_static_needs m pthread ${CMAKE_DL_LIBS})
if(TIDE_MVEC_LIBRARY)
  list(PREPEND tide_static_needs mvec)
endif()
target_link_libraries(tide_static INTERFACE ${tide_static_needs})

# Lua is the host's.
tide_static_library(tide_lua_static "$<TARGET_OBJECTS:tide_binding_objects>" "--keep-global-symbol=luaopen_tide"
  OUTPUT_NAME tide_lua)
target_link_libraries(tide_lua_static INTERFACE tide_static)

list(TRANSFORM tide_static_needs PREPEND -l)
list(JOIN tide_static_needs " " tide_static_needs)
# For pkg-config --static. The archive comes first, so that the shared library, which the linker would prefer, is not
# needed any more.
set(tide_static_libs "-L\${libdir} -l:libtide.a ${tide_static_needs}")
set(tide_shared_libs "-Wl,--push-state,--as-needed -ltide -Wl,--pop-state")
