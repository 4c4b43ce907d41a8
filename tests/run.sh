#!/usr/bin/env bash
# Installs what is missing, configures, builds, and runs all tests. It may be called from any folder and needs no
# standard input; a second call only does what changed. The last line is "N passed, N failed", with ", N skipped" where
# tests were skipped. Where nvcc is (on PATH, in CUDACXX, or in /usr/local/cuda/bin), the Release build has the CUDA targets
# and their tests, which skip themselves where there is no GPU.
#
#   tests/run.sh [--preset NAME | --asan | --tsan] [--cuda | --no-cuda] [--jobs N] [ctest arguments]
#
#   --preset NAME   a preset of CMakePresets.json (release)
#   --asan, --tsan  short for --preset asan, --preset tsan
#   --cuda          fail where nvcc or a CUDA device is missing
#   --no-cuda       build and test without CUDA
#   --jobs N        processes for building and testing (all processors)
#
# For example: tests/run.sh -R tokenizer
set -euo pipefail

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
wrong_use() {
  printf 'tests/run.sh: %s\n' "$*" >&2
  exit 2
}

preset=release
cuda=auto
jobs="$(nproc 2> /dev/null || getconf _NPROCESSORS_ONLN)"
ctest_arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    --preset | --jobs) [ $# -ge 2 ] || wrong_use "$1 needs a value" ;;&
    --preset) preset="$2" && shift ;;
    --jobs) jobs="$2" && shift ;;
    --asan) preset=asan ;;
    --tsan) preset=tsan ;;
    --cuda) cuda=required ;;
    --no-cuda) cuda=no ;;
    --help | -h) usage && exit 0 ;;
    *) ctest_arguments+=("$1") ;;
  esac
  shift
done
[[ "$jobs" =~ ^[1-9][0-9]*$ ]] || wrong_use "--jobs '$jobs' is not a positive number"
case "$preset" in
  asan | tsan) [ "$cuda" != required ] || wrong_use "--cuda does not go with --$preset" ;;
esac

exec < /dev/null
root="$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd -P)"
cd "$root"

# Whatever ends this script before the tests have run is a failure too, and the last line says so.
stage="writing to '$root/build', where the tests are built,"
finish() {
  local status=$?
  if [ -n "$stage" ] && [ "$status" -ne 0 ]; then
    printf 'tests/run.sh: %s failed\n0 passed, 1 failed\n' "$stage"
  fi
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir -p build 2> /dev/null && [ -w build ] || exit 1
if [ -d "build/$preset" ] && [ ! -w "build/$preset" ]; then exit 1; fi

stage="installing what is missing"
sets=(tests)
cmake/install_dependencies.sh "${sets[@]}"

cache="build/$preset/CMakeCache.txt"
cached() { grep -qs "^$1" "$cache"; }

# --- CUDA: sets `options`, what CMake is to be told ---
options=()
note() { printf 'tests/run.sh: %s\n' "$*"; }

nvcc=""
find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" nvcc /usr/local/cuda/bin/nvcc; do
    if [ -n "$candidate" ] && nvcc="$(command -v "$candidate")"; then return 0; fi
  done
  return 1
}

# Whether nvcc, the host compiler and the toolkit's libraries work together; the program says whether there is a device.
build_probe() {
  cat > build/cuda_probe.cu << 'end'
#include <cstdio>
#include <cublasLt.h>
static_assert(CUDART_VERSION >= 12000 && __cplusplus >= 202002L);
int main() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return 0;
  std::printf("there is no CUDA device: %s\n", cudaGetErrorString(status));
  return 1;
}
end
  "$nvcc" -std=c++20 -o build/cuda_probe build/cuda_probe.cu -Xlinker --as-needed -lcublasLt > build/cuda_probe.log 2>&1
}

if [ "$preset" = cuda ] && [ "$cuda" = auto ]; then cuda=build; fi
case "$cuda:$preset" in
  no:*) if cached TENON_ENABLE_CUDA:BOOL=ON; then options=(-DTENON_ENABLE_CUDA=OFF); fi ;;
  required:* | build:* | auto:release)
    stage="looking for nvcc and what it needs"
    problem=""
    if [ "$cuda" = required ] || ! cached TENON_ENABLE_CUDA:BOOL=ON; then
      if ! find_nvcc; then
        problem="nvcc is neither on PATH nor in CUDACXX nor in /usr/local/cuda/bin"
      elif ! build_probe; then
        problem="$nvcc cannot build a C++20 program with CUDA 12 or later and cuBLASLt (see build/cuda_probe.log)"
      elif [ "$cuda" = required ]; then
        stage="looking for a CUDA device"
        build/cuda_probe || exit 1
      fi
      if [ -z "$problem" ]; then
        cached TENON_ENABLE_CUDA:BOOL=ON || options=(-DTENON_ENABLE_CUDA=ON)
        cached CMAKE_CUDA_COMPILER: || options+=("-DCMAKE_CUDA_COMPILER=$nvcc")
      elif [ "$cuda" = auto ]; then
        note "the CUDA tests are not built: $problem"
      else
        note "$problem"
        exit 1
      fi
    fi
    ;;
esac

stage="configuring"
if [ ! -f "$cache" ]; then
  if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja > /dev/null; then options+=(-G Ninja); fi
  cmake --preset "$preset" ${options[@]+"${options[@]}"}
elif [ ${#options[@]} -gt 0 ]; then
  cmake --preset "$preset" "${options[@]}"
fi
stage="building"
cmake --build --preset "$preset" --parallel "$jobs"

stage="starting the tests"
log="build/$preset/ctest.log"
status=0
ctest --preset "$preset" --parallel "$jobs" ${ctest_arguments[@]+"${ctest_arguments[@]}"} 2>&1 | tee "$log" || status=$?

# "N% tests passed, F tests failed out of T" counts a skipped test as passed. Without that line no test ran.
grep -q ' tests\{0,1\} failed out of [0-9]' "$log" || exit "$((status ? status : 1))"
stage=""
awk '
  / tests? failed out of / { for (i = 1; i < NF; i++) if ($i ~ /^tests?$/ && $(i + 1) == "failed") failed = $(i - 1); total = $NF }
  /^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: .*\*\*\*Skipped/ { skipped++ }
  END {
    printf "%d passed, %d failed", total - failed - skipped, failed
    if (skipped) printf ", %d skipped", skipped
    printf "\n"
  }' "$log"
exit "$status"
