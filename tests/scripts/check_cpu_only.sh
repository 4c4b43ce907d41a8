#!/usr/bin/env bash
# A project without CUDA needs no CUDA header: what <tenon/tenon.hpp> and <tenon/text.hpp> read is listed by the compiler,
# with folders of the toolkit taken out of its search, and none of it is the toolkit's or needs it. Where the toolkit is in
# no folder that is always searched, <tenon/cuda.hpp> must fail in the same setting, which shows that the toolkit was hidden.
# Kernels in a .cpp file end in a sentence that says what to do.
#
#   tests/scripts/check_cpu_only.sh CXX [compiler flag...]
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../include"
unset CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH CUDA_HOME CUDA_PATH
compile=("$@" -std=c++20 -I . -x c++)
failures=0

for header in tenon/tenon.hpp tenon/text.hpp; do
  # The second line: names that the toolkit defines, should it come in by another way.
  source="$(printf '#include <%s>\n%s\n' "$header" '#if defined(CUDART_VERSION) || defined(CUDA_VERSION) || defined(__CUDACC__)
#error "the CUDA toolkit came in"
#endif')"
  if ! "${compile[@]}" -fsyntax-only - <<< "$source"; then
    printf 'error: <%s> does not compile without the CUDA toolkit\n' "$header"
    failures=1
    continue
  fi
  read_headers="$("${compile[@]}" -M - <<< "$source" | tr -d '\\' | tr -s ' ' '\n' | grep '/')"
  if grep -E '(^|/)(cuda_runtime[^/]*|cuda[A-Z_a-z0-9]*\.h|cublas[^/]*|cudnn[^/]*|nccl[^/]*)$|/tenon/cuda[/.]|_cuda\.hpp$|\.cuh$' \
    <<< "$read_headers"; then
    printf 'error: <%s> reads the headers above\n' "$header"
    failures=1
  fi
  printf '<%s> reads %d headers, none of CUDA\n' "$header" "$(wc -l <<< "$read_headers")"
done

if ! printf '#include <cuda_runtime_api.h>\n' | "${compile[@]}" -fsyntax-only - 2> /dev/null; then
  if printf '#include <tenon/cuda.hpp>\n' | "${compile[@]}" -fsyntax-only - 2> /dev/null; then
    printf 'error: <tenon/cuda.hpp> compiles without the CUDA toolkit\n'
    failures=1
  fi
fi
if messages="$(printf '#include <tenon/cuda.cuh>\n' | "${compile[@]}" -fsyntax-only - 2>&1)" ||
  ! grep -q 'needs nvcc: include it from a .cu file, or include <tenon/cuda.hpp> and link' <<< "$messages"; then
  printf '%s\nerror: <tenon/cuda.cuh> in a .cpp file does not say that it needs nvcc\n' "$messages"
  failures=1
fi
exit $failures
