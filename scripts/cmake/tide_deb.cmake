# The files that Debian wants in every package, added to the tree that cpack has installed.
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)

function(compress file)
  file(ARCHIVE_CREATE OUTPUT ${file}.gz PATHS ${file} FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
  file(REMOVE ${file})
endfunction()

file(RENAME ${share}/doc/tide/LICENSE ${share}/doc/tide/copyright)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${share}/doc/tide/changelog "tide (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
compress(${share}/doc/tide/changelog)
if(EXISTS ${share}/man/man1/tide.1)
  compress(${share}/man/man1/tide.1)
endif()
# Debian's LuaJIT looks into this folder alone.
set(lib ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/lib)
if(EXISTS ${lib}/lua/5.1/tide.so AND CPACK_TIDE_MULTIARCH)
  file(MAKE_DIRECTORY ${lib}/${CPACK_TIDE_MULTIARCH}/lua/5.1)
  file(CREATE_LINK ../../../lua/5.1/tide.so ${lib}/${CPACK_TIDE_MULTIARCH}/lua/5.1/tide.so SYMBOLIC)
endif()
# One tree for hosts, their linkers and scripts; libpng and zlib inside, so that a host's own are never mixed with them.
file(WRITE ${share}/lintian/overrides/tide "tide: embedded-library
tide: link-to-shared-library-in-wrong-package
tide: package-name-doesnt-match-sonames
tide: maintscript-calls-ldconfig
")
