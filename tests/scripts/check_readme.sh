#!/usr/bin/env bash
# Keeps the code in the documentation true: the first ```cpp block of README.md is examples/tensor_basics.cpp, which the
# build compiles and the tests run; every other ```cpp block with an #include compiles, and every ```cuda block where
# TENON_NVCC names nvcc, with options after bars. A ```cpp block for CUDA is left out where the compiler does not
# find the toolkit.
#
#   tests/scripts/check_readme.sh CXX [compiler flag...]
set -euo pipefail
cxx="$1"
shift
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
failures=0

for page in README.md CONTRIBUTING.md; do
  awk -v stem="$scratch/${page%.md}" '
    /^```(cpp|cuda)$/ {
      file = sprintf("%s_%02d.%s", stem, ++blocks, $0 == "```cpp" ? "cpp" : "cu"); inside = 1; next
    }
    /^```/ { inside = 0 }
    inside { print > file }' "$page"
done

first="$scratch/README_01.cpp"
if [ ! -f "$first" ]; then
  echo 'error: README.md has no ```cpp block'
  failures=1
elif ! diff -u examples/tensor_basics.cpp "$first"; then
  echo 'error: the first ```cpp block of README.md is not examples/tensor_basics.cpp'
  failures=1
fi

checked=1
toolkit=no
if printf '#include <cuda_runtime_api.h>\n' | "$cxx" "$@" -fsyntax-only -x c++ - 2> /dev/null; then toolkit=yes; fi
IFS='|' read -r -a nvcc <<< "${TENON_NVCC:-}"
for block in "$scratch"/*.cpp "$scratch"/*.cu; do
  if [ ! -f "$block" ] || [ "$block" = "$first" ] || ! grep -q '^#include' "$block"; then continue; fi
  if [[ "$block" == *.cu ]]; then
    if [ ${#nvcc[@]} -eq 0 ]; then continue; fi
    checked=$((checked + 1))
    if ! "${nvcc[@]}" -std=c++20 --expt-relaxed-constexpr -arch=sm_80 -I include -ptx -o /dev/null "$block"; then
      printf 'error: block %s does not compile\n' "$(basename "$block" .cu)"
      failures=1
    fi
    continue
  fi
  if [ $toolkit = no ] && grep -q '<tenon/cuda' "$block"; then continue; fi
  checked=$((checked + 1))
  if ! "$cxx" -std=c++20 "$@" -I include -fsyntax-only "$block"; then
    printf 'error: block %s does not compile\n' "$(basename "$block" .cpp)"
    failures=1
  fi
done
printf '%d blocks of code checked\n' "$checked"
exit "$failures"
