# Compiler of the tsan preset. GCC's OpenMP runtime is not instrumented, so ThreadSanitizer would report every barrier;
# clang's libomp tells it about them through the Archer tool, which libomp loads by itself. Without clang and Archer the
# build uses the default compiler, with OpenMP off.
find_program(TENON_TSAN_CLANG NAMES clang++ clang++-19 clang++-16 clang++-15 clang++-14)
if(TENON_TSAN_CLANG)
  execute_process(COMMAND "${TENON_TSAN_CLANG}" -print-resource-dir OUTPUT_VARIABLE _tenon_resources
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  cmake_path(SET _tenon_llvm_lib NORMALIZE "${_tenon_resources}/../..")
  file(GLOB _tenon_tsan_runtime "${_tenon_resources}/lib/*/libclang_rt.tsan*.a")
  find_library(TENON_ARCHER NAMES archer HINTS "${_tenon_llvm_lib}")
endif()
if(TENON_TSAN_CLANG AND TENON_ARCHER AND _tenon_tsan_runtime)
  set(CMAKE_CXX_COMPILER "${TENON_TSAN_CLANG}")
  set(CMAKE_BUILD_RPATH "${_tenon_llvm_lib}") # where libomp looks for libarcher.so
else()
  set(TENON_ENABLE_OPENMP OFF CACHE BOOL "Off: ThreadSanitizer needs clang, libomp and Archer for OpenMP")
endif()
