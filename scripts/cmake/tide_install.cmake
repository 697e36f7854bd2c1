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
  install(TARGETS tide_cuda LIBRARY DESTINATION lib COMPONENT cuda)
  set(CPACK_TIDE_HAS_CUDA ON)
endif()
install(TARGETS tide_distributed LIBRARY DESTINATION lib)
install(FILES ${public_headers} ${distributed_headers} lua_bindings/tide_lua.h DESTINATION include/tide)
install(DIRECTORY scripts/examples/ DESTINATION share/tide/examples USE_SOURCE_PERMISSIONS)
install(PROGRAMS scripts/notebook/tide_kernel.py DESTINATION share/tide/notebook)
install(FILES LICENSE README.md DESTINATION share/doc/tide)

# The pages that help shows at the prompt; a build tree has them by a link.
install(DIRECTORY scripts/docs/manual/ DESTINATION share/tide/manual FILES_MATCHING PATTERN "*.md")
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/tide)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/scripts/docs/manual ${PROJECT_BINARY_DIR}/share/tide/manual SYMBOLIC)

# The manual: cmake --build build --target docs. It is installed where it was made.
set(docs ${PROJECT_BINARY_DIR}/docs)
add_custom_target(docs VERBATIM COMMAND ${PROJECT_SOURCE_DIR}/scripts/docs/site.sh $<TARGET_FILE:tide_runner> ${docs})
add_dependencies(docs tide_runner)
install(FILES ${docs}/tide.1 DESTINATION share/man/man1 OPTIONAL)
install(DIRECTORY ${docs}/stubs/ DESTINATION share/tide/stubs OPTIONAL)
install(DIRECTORY ${docs}/html/ DESTINATION share/doc/tide/html OPTIONAL)

set(package_dir lib/cmake/tide)
install(EXPORT tide_targets NAMESPACE tide:: FILE tide_targets.cmake DESTINATION ${package_dir})
configure_package_config_file(scripts/cmake/tide-config.cmake.in ${PROJECT_BINARY_DIR}/package/tide-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/tide-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/tide-config.cmake ${PROJECT_BINARY_DIR}/package/tide-config-version.cmake
  DESTINATION ${package_dir})
if(NOT DEFINED tide_shared_libs)
  set(tide_shared_libs -ltide)
endif()
set(modules tide tide-shared)
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

# cpack -G DEB (tide_pack.cmake): the same tree in /usr, where ld.so and Debian's Lua look. The CUDA libraries, BLAS and LAPACK are opened
# where there are any. dpkg-shlibdeps takes functions that moved between the libraries of glibc for new ones: with
# TIDE_GLIBC_FLOOR what is needed is known.
set(CPACK_PACKAGE_CONTACT "tide contributors <tide@tide.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Embeddable Lua runtime for GPU work")
set(CPACK_PACKAGE_DESCRIPTION [[Tensors on the CPU, on NVIDIA GPUs and on simulated ones, for Lua
scripts: a runner, a module for Lua 5.4, a C library for programs that
embed Lua, and its headers.]])
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libopenblas0-pthread | liblapack3")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "lua5.4, liblua5.4-dev")
if(TIDE_GLIBC_FLOOR)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.28)")
else()
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
endif()
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
file(WRITE ${PROJECT_BINARY_DIR}/package/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/triggers)
set(CPACK_TIDE_MULTIARCH ${CMAKE_C_LIBRARY_ARCHITECTURE}) # as x86_64-linux-gnu
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/scripts/cmake/tide_pack.cmake)
include(CPack)
