# The CUDA targets. tenon::cuda is for projects with .cu files, which then hold the kernels; tenon::cuda_kernels is a
# static library of them, built in the project's own tree, for projects whose files are all .cpp.
include_guard(GLOBAL)

# The language is the project's to enable: enabling it in a subdirectory breaks the .cu targets of the parent.
if(PROJECT_IS_TOP_LEVEL)
  enable_language(CUDA)
elseif(NOT CMAKE_CUDA_COMPILER)
  message(
    FATAL_ERROR
      "TENON_ENABLE_CUDA is ON, but this project has not enabled CUDA: write project(${CMAKE_PROJECT_NAME} LANGUAGES CXX CUDA)")
endif()
if(NOT CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" OR CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
  message(FATAL_ERROR "tenon's CUDA kernels need nvcc 12.0 or later; "
                      "this project has ${CMAKE_CUDA_COMPILER_ID} ${CMAKE_CUDA_COMPILER_VERSION}.")
endif()
find_package(CUDAToolkit 12.0 REQUIRED)

if(PROJECT_IS_TOP_LEVEL)
  file(GLOB_RECURSE _tenon_cuda_headers CONFIGURE_DEPENDS include/tenon/*.cuh)
else()
  file(GLOB_RECURSE _tenon_cuda_headers include/tenon/*.cuh)
endif()

add_library(tenon_cuda INTERFACE)
add_library(tenon::cuda ALIAS tenon_cuda)
set_target_properties(tenon_cuda PROPERTIES EXPORT_NAME cuda)
target_sources(tenon_cuda INTERFACE FILE_SET HEADERS BASE_DIRS include FILES ${_tenon_cuda_headers})
target_link_libraries(tenon_cuda INTERFACE tenon CUDA::cudart_static CUDA::cublasLt)
# cxx_std_20 does not reach nvcc, and CMake 3.25 knows no cuda_std_20.
target_compile_options(tenon_cuda INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")

# One translation unit for each family of operators, so that they build side by side.
set(_tenon_cuda_sources "")
file(GLOB _tenon_cuda_families RELATIVE "${PROJECT_SOURCE_DIR}/include/tenon/cuda/instantiate"
     "${PROJECT_SOURCE_DIR}/include/tenon/cuda/instantiate/*.cuh")
foreach(_family IN LISTS _tenon_cuda_families)
  cmake_path(REPLACE_EXTENSION _family cu OUTPUT_VARIABLE _source)
  set(_source "${CMAKE_CURRENT_BINARY_DIR}/tenon_cuda/${_source}")
  file(CONFIGURE OUTPUT "${_source}" CONTENT "#include <tenon/cuda/instantiate/${_family}>\n" @ONLY)
  list(APPEND _tenon_cuda_sources "${_source}")
endforeach()
add_library(tenon_cuda_kernels STATIC EXCLUDE_FROM_ALL ${_tenon_cuda_sources})
add_library(tenon::cuda_kernels ALIAS tenon_cuda_kernels)
target_link_libraries(tenon_cuda_kernels PUBLIC tenon_cuda)
# Position independent, so that shared libraries may hold it too.
set_target_properties(tenon_cuda_kernels PROPERTIES EXPORT_NAME cuda_kernels POSITION_INDEPENDENT_CODE ON
                                                    CUDA_RUNTIME_LIBRARY Static)
