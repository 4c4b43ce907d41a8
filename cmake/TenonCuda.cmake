# The CUDA targets: tenon::cuda is for projects with .cu files, which then hold the kernels they use; tenon::cuda_kernels is
# a static library of all of them, built in the project's own tree, for projects whose files are all .cpp. Both serve the
# source tree and an installed tenon alike; the functions are called by CMakeLists.txt and tenonConfig.cmake.
include_guard(GLOBAL)

# tenon_check_cuda(<variable>): sets it to what stands in the way, as the end of a sentence, or to nothing.
function(tenon_check_cuda variable)
  set(problem "")
  if(NOT CMAKE_CUDA_COMPILER_LOADED)
    string(CONCAT problem "this project has not enabled the language CUDA. Write:\n"
                  "  project(${CMAKE_PROJECT_NAME} LANGUAGES CXX CUDA)\n")
  elseif(NOT CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" OR CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
    string(CONCAT problem "tenon's kernels need nvcc 12.0 or later, and this project's compiler is "
                  "${CMAKE_CUDA_COMPILER_ID} ${CMAKE_CUDA_COMPILER_VERSION}.")
  endif()
  foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
    if(architecture MATCHES "^([0-9]+)" AND CMAKE_MATCH_1 LESS 80)
      string(CONCAT problem "tenon's kernels need compute capability 8.0 or later, and CMAKE_CUDA_ARCHITECTURES is "
                    "${CMAKE_CUDA_ARCHITECTURES}. Write, for example:\n  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)\n")
    endif()
  endforeach()
  set(${variable} "${problem}" PARENT_SCOPE)
endfunction()

# tenon_add_cuda_targets(<target of tenon's headers> <include folder>), after find_package(CUDAToolkit)
#
# TENON_CUDA_FAMILIES may name the families of include/tenon/cuda/instantiate that tenon::cuda_kernels holds, for projects
# that build only what they call; empty means all.
function(tenon_add_cuda_targets tenon include_dir)
  if(TARGET tenon::cuda_kernels)
    return()
  endif()
  add_library(tenon_cuda INTERFACE)
  add_library(tenon::cuda ALIAS tenon_cuda)
  # The runtime that CMake links to CUDA targets itself, so that a program has one: the static one unless told otherwise.
  set(shared "$<STREQUAL:$<TARGET_PROPERTY:CUDA_RUNTIME_LIBRARY>,Shared>")
  target_link_libraries(tenon_cuda INTERFACE ${tenon} "$<IF:${shared},CUDA::cudart,CUDA::cudart_static>" CUDA::cublasLt)
  # cxx_std_20 does not reach nvcc, and CMake 3.25 knows no cuda_std_20. tenon's own kernels need no more;
  # the second flag is for a project's that index sizes() or strides(), which are std::array: without it nvcc leaves the
  # call out, with no more than a warning.
  target_compile_options(tenon_cuda INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>")
  # Two shared libraries of a process may hold kernels for different architectures. The launchers are hidden; this keeps
  # each library to its own copies of the inline functions that call them, too.
  set(type "$<TARGET_PROPERTY:TYPE>")
  set(library "$<OR:$<STREQUAL:${type},SHARED_LIBRARY>,$<STREQUAL:${type},MODULE_LIBRARY>>")
  target_link_options(tenon_cuda INTERFACE "$<$<AND:$<PLATFORM_ID:Linux>,${library}>:LINKER:-Bsymbolic-functions>")

  # One translation unit for each family of operators, so that they build side by side.
  file(GLOB families ${_tenon_watch} RELATIVE "${include_dir}/tenon/cuda/instantiate"
       "${include_dir}/tenon/cuda/instantiate/*.cuh")
  list(TRANSFORM families REPLACE "\\.cuh$" "")
  foreach(family IN LISTS TENON_CUDA_FAMILIES)
    if(NOT family IN_LIST families)
      list(JOIN families " " known)
      message(FATAL_ERROR "TENON_CUDA_FAMILIES names '${family}', which is none of ${known}.")
    endif()
  endforeach()
  if(TENON_CUDA_FAMILIES)
    set(families ${TENON_CUDA_FAMILIES} copy) # which others use
    list(REMOVE_DUPLICATES families)
  endif()
  set(sources "")
  foreach(family IN LISTS families)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/tenon_cuda/${family}.cu")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include <tenon/cuda/instantiate/${family}.cuh>\n" @ONLY)
    list(APPEND sources "${source}")
  endforeach()
  add_library(tenon_cuda_kernels STATIC EXCLUDE_FROM_ALL ${sources})
  add_library(tenon::cuda_kernels ALIAS tenon_cuda_kernels)
  target_link_libraries(tenon_cuda_kernels PUBLIC tenon_cuda)
  # Position independent, so that shared libraries may hold it too.
  set_target_properties(tenon_cuda_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# tenon_add_cudnn_target(<variable>): after tenon_add_cuda_targets, defines tenon::cudnn and sets the variable to nothing, or
# else to what stands in the way, as the end of a sentence. FindTenonCudnn.cmake is in CMAKE_MODULE_PATH.
macro(tenon_add_cudnn_target variable)
  set(${variable} "")
  if(NOT TARGET tenon::cudnn)
    find_package(TenonCudnn 9.0 QUIET GLOBAL)
    if(TARGET tenon::libcudnn)
      add_library(tenon_cudnn INTERFACE)
      add_library(tenon::cudnn ALIAS tenon_cudnn)
      target_link_libraries(tenon_cudnn INTERFACE tenon_cuda tenon::libcudnn)
    else()
      string(CONCAT ${variable} "cuDNN 9.0 or later was not found: install it, or say where it is with "
                    "-DCUDNN_ROOT=<folder with include/cudnn.h>.")
    endif()
  endif()
endmacro()
