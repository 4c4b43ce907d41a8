# Install and export: find_package(tenon), with COMPONENTS text, cuda, cudnn. The CUDA targets need nothing from this build:
# they are made in the project that asks for them, from the installed headers.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Headers only, so the files are the same on every architecture.
set(_tenon_config_dir "${CMAKE_INSTALL_DATADIR}/cmake/tenon")
set(_tenon_include_dir "${CMAKE_INSTALL_INCLUDEDIR}")

install(TARGETS tenon EXPORT tenonTargets FILE_SET HEADERS COMPONENT tenon)
install(EXPORT tenonTargets NAMESPACE tenon:: DESTINATION "${_tenon_config_dir}" COMPONENT tenon)
if(TENON_HAS_TEXT)
  install(TARGETS tenon_text EXPORT tenonTextTargets COMPONENT tenon)
  install(EXPORT tenonTextTargets NAMESPACE tenon:: DESTINATION "${_tenon_config_dir}" COMPONENT tenon)
endif()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/tenonConfig.cmake.in" tenonConfig.cmake
                              INSTALL_DESTINATION "${_tenon_config_dir}" PATH_VARS _tenon_include_dir)
write_basic_package_version_file(tenonConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(
  FILES "${CMAKE_CURRENT_BINARY_DIR}/tenonConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/tenonConfigVersion.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/FindTenonPCRE2.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindTenonUtf8proc.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/FindTenonCudnn.cmake" "${CMAKE_CURRENT_LIST_DIR}/TenonCuda.cmake"
  DESTINATION "${_tenon_config_dir}"
  COMPONENT tenon)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/tenon" COMPONENT tenon)
