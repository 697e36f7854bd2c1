# What cpack reads once it knows which kind of package it makes.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/tide_deb.cmake)
  # Two packages: tide, and tide-cuda, which adds one library to it.
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_ALL tide)
  set(CPACK_DEBIAN_TIDE_PACKAGE_NAME tide)
  set(CPACK_DEBIAN_TIDE_PACKAGE_CONTROL_EXTRA ${CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA})
  if(CPACK_TIDE_HAS_CUDA)
    list(APPEND CPACK_COMPONENTS_ALL cuda)
    set(CPACK_DEBIAN_CUDA_PACKAGE_NAME tide-cuda)
    set(CPACK_DEBIAN_CUDA_PACKAGE_CONTROL_EXTRA ${CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA})
    set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "tide (= ${CPACK_PACKAGE_VERSION})")
    if(CPACK_DEBIAN_PACKAGE_DEPENDS)
      string(APPEND CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS ", ${CPACK_DEBIAN_PACKAGE_DEPENDS}")
    endif()
    # NVIDIA's names for 12 and 13 differ in their numbers, and Debian's are others: the driver alone is named.
    set(CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS libcuda1)
    set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS nvidia-cuda-toolkit)
    set(CPACK_DEBIAN_CUDA_DESCRIPTION [[Kernels for NVIDIA GPUs, which tide opens at the first use of one.
The driver is needed. NVRTC, cuBLAS, cuFFT and cuSOLVER of the CUDA
Toolkit serve kernels in Lua, matrix products, transforms and linear
algebra where they are installed.]])
  endif()
endif()
