# What LuaRocks installs (tide-scm-1.rockspec): one file that is tide and its Lua module, since a rock's shared libraries
# lie where the loader does not look, and the runner, which starts processes. libtide_cuda.so and
# libtide_distributed.so lie beside the module.
# Its only name is luaopen_tide: a host may have a libtide of its own.
add_library(tide_rock MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:tide_binding_objects> scripts/cmake/png_stderr.c)
target_link_libraries(tide_rock PRIVATE tide_flags tide_objects)
file(WRITE ${PROJECT_BINARY_DIR}/package/rock.map "{ global: luaopen_tide; local: *; };\n")
target_link_options(tide_rock PRIVATE -Wl,-z,nodelete -Wl,--wrap=stderr
  -Wl,--version-script=${PROJECT_BINARY_DIR}/package/rock.map)
set_target_properties(tide_rock PROPERTIES LINKER_LANGUAGE C PREFIX "" OUTPUT_NAME tide
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/rock)
add_dependencies(tide_rock tide_runner)
install(TARGETS tide_rock LIBRARY DESTINATION lib COMPONENT rock EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:tide_runner> DESTINATION bin COMPONENT rock EXCLUDE_FROM_ALL)
add_dependencies(tide_rock tide_distributed)
install(FILES $<TARGET_FILE:tide_distributed> DESTINATION lib COMPONENT rock EXCLUDE_FROM_ALL)
if(TARGET tide_cuda)
  add_dependencies(tide_rock tide_cuda)
  install(FILES $<TARGET_FILE:tide_cuda> DESTINATION lib COMPONENT rock EXCLUDE_FROM_ALL)
endif()
