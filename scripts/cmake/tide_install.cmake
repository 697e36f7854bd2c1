# cmake --install, find_package(tide), pkg-config and the tarball. Everything installed is found relative to itself:
# the tree may be moved, and the tarball (cpack) is that tree, stripped.
include(CMakePackageConfigHelpers)

install(TARGETS tide EXPORT tide_targets LIBRARY DESTINATION lib)
install(TARGETS tide_runner RUNTIME DESTINATION bin)
install(TARGETS tide_module LIBRARY DESTINATION lib/lua/5.4)
if(TARGET tide_luajit_module)
  install(TARGETS tide_luajit_module LIBRARY DESTINATION lib/lua/5.1)
endif()
if(TARGET tide_cuda)
  install(TARGETS tide_cuda LIBRARY DESTINATION lib)
endif()
install(FILES ${public_headers} lua_bindings/tide_lua.h DESTINATION include/tide)
install(DIRECTORY scripts/examples/ DESTINATION share/tide/examples USE_SOURCE_PERMISSIONS)
install(FILES LICENSE README.md DESTINATION share/doc/tide)

# The reference, out of the table of functions: cmake --build build --target docs. It is installed where it was made.
set(docs ${PROJECT_BINARY_DIR}/docs)
add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E make_directory ${docs}
  COMMAND tide_runner ${PROJECT_SOURCE_DIR}/scripts/docs/reference.lua ${docs})
install(FILES ${docs}/tide.1 DESTINATION share/man/man1 OPTIONAL)
install(DIRECTORY ${docs}/ DESTINATION share/doc/tide/reference OPTIONAL PATTERN tide.1 EXCLUDE)

set(package_dir lib/cmake/tide)
install(EXPORT tide_targets NAMESPACE tide:: FILE tide_targets.cmake DESTINATION ${package_dir})
configure_package_config_file(scripts/cmake/tide-config.cmake.in ${PROJECT_BINARY_DIR}/package/tide-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/tide-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/tide-config.cmake ${PROJECT_BINARY_DIR}/package/tide-config-version.cmake
  DESTINATION ${package_dir})
set(modules tide)
if(TARGET tide_lua_static)
  list(APPEND modules tide-lua)
endif()
foreach(module IN LISTS modules)
  configure_file(scripts/cmake/${module}.pc.in ${PROJECT_BINARY_DIR}/package/${module}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/${module}.pc DESTINATION lib/pkgconfig)
endforeach()

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_VENDOR "tide contributors")
set(CPACK_PACKAGE_FILE_NAME tide-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
include(CPack)
