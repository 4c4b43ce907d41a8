# Finds cuDNN 9 and defines tenon::libcudnn. Looks beside the CUDA toolkit, in CUDNN_ROOT and CUDNN_PATH (variables of
# CMake or the environment), and where the system has its libraries. The name is prefixed so that it never hides, and is
# never hidden by, a project's own module.
set(_tenon_cudnn_hints ${CUDNN_ROOT} ${CUDNN_PATH} $ENV{CUDNN_ROOT} $ENV{CUDNN_PATH} ${CUDAToolkit_LIBRARY_ROOT})
foreach(_tenon_cudnn_folder IN LISTS CUDAToolkit_INCLUDE_DIRS CUDAToolkit_BIN_DIR)
  list(APPEND _tenon_cudnn_hints "${_tenon_cudnn_folder}/..")
endforeach()
find_path(TenonCudnn_INCLUDE_DIR cudnn.h HINTS ${_tenon_cudnn_hints} PATH_SUFFIXES include)
find_library(TenonCudnn_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${_tenon_cudnn_hints}
             PATH_SUFFIXES lib64 lib lib/x64 targets/x86_64-linux/lib)
mark_as_advanced(TenonCudnn_INCLUDE_DIR TenonCudnn_LIBRARY)

if(EXISTS "${TenonCudnn_INCLUDE_DIR}/cudnn_version.h")
  file(STRINGS "${TenonCudnn_INCLUDE_DIR}/cudnn_version.h" _tenon_cudnn_lines
       REGEX "#define CUDNN_(MAJOR|MINOR|PATCHLEVEL)[ \t]+[0-9]+")
  if("${_tenon_cudnn_lines}" MATCHES "MAJOR[ \t]+([0-9]+).*MINOR[ \t]+([0-9]+).*PATCHLEVEL[ \t]+([0-9]+)")
    set(TenonCudnn_VERSION "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  TenonCudnn
  REQUIRED_VARS TenonCudnn_LIBRARY TenonCudnn_INCLUDE_DIR
  VERSION_VAR TenonCudnn_VERSION)

if(TenonCudnn_FOUND AND NOT TARGET tenon::libcudnn)
  add_library(tenon::libcudnn UNKNOWN IMPORTED)
  set_target_properties(
    tenon::libcudnn PROPERTIES IMPORTED_LOCATION "${TenonCudnn_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                                                         "${TenonCudnn_INCLUDE_DIR}")
endif()
