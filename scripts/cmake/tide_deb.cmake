# The files that Debian wants in every package, added to the trees that cpack has installed, one for each package.

function(compress file)
  file(ARCHIVE_CREATE OUTPUT ${file}.gz PATHS ${file} FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
  file(REMOVE ${file})
endfunction()

function(write_debian_files tree package overrides)
  set(doc ${tree}/usr/share/doc/${package})
  file(MAKE_DIRECTORY ${doc})
  file(COPY_FILE ${CPACK_RESOURCE_FILE_LICENSE} ${doc}/copyright)
  file(REMOVE ${doc}/LICENSE)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${doc}/changelog "${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  compress(${doc}/changelog)
  list(TRANSFORM overrides PREPEND "${package}: ")
  list(JOIN overrides "\n" overrides)
  file(WRITE ${tree}/usr/share/lintian/overrides/${package} "${overrides}\n")
endfunction()

# One tree for hosts, their linkers and scripts; libpng and zlib inside, so that a host's own are never mixed with them.
set(tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/tide)
write_debian_files(${tree} tide
  "embedded-library;link-to-shared-library-in-wrong-package;package-name-doesnt-match-sonames;maintscript-calls-ldconfig")
if(EXISTS ${tree}/usr/share/man/man1/tide.1)
  compress(${tree}/usr/share/man/man1/tide.1)
endif()
# Debian's LuaJIT looks into this folder alone.
set(lib ${tree}/usr/lib)
if(EXISTS ${lib}/lua/5.1/tide.so AND CPACK_TIDE_MULTIARCH)
  file(MAKE_DIRECTORY ${lib}/${CPACK_TIDE_MULTIARCH}/lua/5.1)
  file(CREATE_LINK ../../../lua/5.1/tide.so ${lib}/${CPACK_TIDE_MULTIARCH}/lua/5.1/tide.so SYMBOLIC)
endif()

set(tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/cuda)
if(EXISTS ${tree})
  write_debian_files(${tree} tide-cuda "package-name-doesnt-match-sonames;maintscript-calls-ldconfig")
endif()
