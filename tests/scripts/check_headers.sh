#!/usr/bin/env bash
# Compiles each header alone, for syntax only, so that it has to include what it uses. Prints the compiler's messages for
# those that fail. Given nvcc, the headers are the .cuh files, but for the lists of instantiations, which the build compiles;
# otherwise the .hpp files, those of ring 2 only where the
# compiler finds the CUDA toolkit, and cuDNN.
#
#   tests/scripts/check_headers.sh CXX [compiler flag...]
#   tests/scripts/check_headers.sh --nvcc NVCC [compiler flag...]
set -euo pipefail

check() { # check HEADER COMPILER [compiler flag...]: including it twice also tries its guard
  local header="$1"
  shift
  if ! printf '#include <%s>\n#include <%s>\n' "$header" "$header" | "$@" -; then
    printf 'error: %s does not compile alone\n' "$header"
    return 1
  fi
}
export -f check

pattern='*.hpp'
if [ "$1" = --nvcc ]; then
  pattern='*.cuh'
  shift
fi
compiler=("$@")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../include"
if [ "$pattern" = '*.cuh' ]; then
  # As far as PTX of what is not a template, for one architecture: nvcc's front end has seen all of the header then.
  compiler+=(-std=c++20 -arch=sm_80 -Werror=all-warnings -diag-suppress=186 -I . -ptx -o /dev/null -x cu)
else
  compiler+=(-std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Werror -I . -fsyntax-only -x c++)
fi

mapfile -d '' -t headers < <(find tenon -name "$pattern" ! -path '*/instantiate/*' -print0 | sort -z)
skipped=0
if [ "$pattern" = '*.hpp' ] &&
  ! printf '#include <cuda_runtime_api.h>\n#include <cublasLt.h>\n' | "${compiler[@]}" - 2> /dev/null; then
  kept=()
  for header in "${headers[@]}"; do
    case "$header" in
      tenon/cuda.hpp | tenon/cuda/*.hpp | *_cuda.hpp) skipped=$((skipped + 1)) ;;
      *) kept+=("$header") ;;
    esac
  done
  headers=("${kept[@]}")
fi
if [ "$pattern" = '*.hpp' ] && ! printf '#include <cudnn.h>\n' | "${compiler[@]}" - 2> /dev/null; then
  kept=()
  for header in "${headers[@]}"; do
    case "$header" in
      */cudnn.hpp | */cudnn/*.hpp) skipped=$((skipped + 1)) ;;
      *) kept+=("$header") ;;
    esac
  done
  headers=("${kept[@]}")
fi
if [ ${#headers[@]} -eq 0 ]; then
  printf 'error: there are no headers in %s\n' "$PWD"
  exit 1
fi
printf '%s\0' "${headers[@]}" | xargs -0 -P "$(nproc 2> /dev/null || echo 2)" -I {} bash -c 'check "$@"' check {} \
  "${compiler[@]}"
printf '%d headers compile alone\n' "${#headers[@]}"
if [ $skipped -gt 0 ]; then printf '%d headers need the CUDA toolkit or cuDNN, which is not here\n' "$skipped"; fi
