# Settings for tenon's own programs and tests. Nothing here reaches a project that only links tenon::tenon.

if(PROJECT_IS_TOP_LEVEL)
  get_property(_tenon_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT _tenon_multi_config AND NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()

  find_program(TENON_CCACHE ccache DOC "Compiler cache; set it to OFF to do without")
  mark_as_advanced(TENON_CCACHE)
  if(TENON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # The two sloppiness settings are what ccache asks for with precompiled headers.
    set(CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_SLOPPINESS=pch_defines,time_macros" "${TENON_CCACHE}")
    set(_tenon_ccache TRUE)
  endif()
  if(TENON_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    # By the files that were read, not by preprocessed text: that is the host's, and what only kernels see is not in it.
    set(CMAKE_CUDA_COMPILER_LAUNCHER env CCACHE_DEPEND=1 "${TENON_CCACHE}")
  endif()
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(tenon_warnings INTERFACE)
target_compile_options(
  tenon_warnings
  INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion>"
            "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TENON_WARNINGS_AS_ERRORS}>>:-Werror>"
            "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<BOOL:${_tenon_ccache}>>:-fpch-preprocess>"
            # Not -Wpedantic: what nvcc hands to the host compiler is not ISO C++. 186: loops up to a rank of 0 compare an
            # unsigned number with zero.
            "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;-diag-suppress=186>"
            "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TENON_WARNINGS_AS_ERRORS}>>:-Werror=all-warnings>")
if(TENON_ENABLE_CUDA)
  # Made before the settings above; projects that use tenon compile it with their own.
  target_link_libraries(tenon_cuda_kernels PRIVATE tenon_warnings)
  set_target_properties(tenon_cuda_kernels PROPERTIES CUDA_COMPILER_LAUNCHER "${CMAKE_CUDA_COMPILER_LAUNCHER}")
endif()

# The checkpoint that the programs use when no other is named, and the tests load.
set(TENON_EXAMPLE_MODEL_DIR "${PROJECT_SOURCE_DIR}/examples/models/tiny-qwen2")

macro(tenon_find_cli11)
  tenon_fetch_headers(
    CLI11 CLI11::CLI11 include
    URL https://github.com/CLIUtils/CLI11/archive/v2.1.2.tar.gz
    URL_HASH SHA256=26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb
    FIND_PACKAGE_ARGS 2.1)
endmacro()
