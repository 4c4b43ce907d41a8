#!/usr/bin/env bash
# Formatting (clang-format 14) and static analysis (clang-tidy) of the tracked sources. A tool that is not installed is
# skipped with a message.
#
#   tests/scripts/lint.sh [--fix] [--no-tidy]     --fix formats the files in place
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

fix=no
tidy=yes
for argument in "$@"; do
  case "$argument" in
    --fix) fix=yes ;;
    --no-tidy) tidy=no ;;
    *) printf 'lint.sh: unknown argument %s\n' "$argument" >&2 && exit 2 ;;
  esac
done

mapfile -d '' -t sources < <(git ls-files -z -- '*.hpp' '*.cpp' '*.cuh' '*.cu')
if [ ${#sources[@]} -eq 0 ]; then
  echo "lint: git names no sources in $PWD, so there is nothing to check" >&2
  exit 1
fi
status=0

format="$(command -v clang-format-14 || command -v clang-format || true)"
if [ -z "$format" ]; then
  echo "lint: clang-format is not installed, formatting is not checked"
elif ! "$format" --version | grep -q 'version 14\.'; then
  echo "lint: formatting is checked with clang-format 14 only; found $("$format" --version)"
elif [ $fix = yes ]; then
  "$format" -i "${sources[@]}"
elif "$format" --dry-run -Werror "${sources[@]}"; then
  echo "lint: ${#sources[@]} files are formatted"
else
  echo "lint: run tests/scripts/lint.sh --fix"
  status=1
fi

# The programs without CUDA, which may not be installed, and one translation unit that includes every header of ring 1 and
# instantiates the models. The benchmarks of single
# operators are left out: they would double the time, for the same kernels.
if [ $tidy = no ]; then exit $status; fi
analyser="$(command -v clang-tidy-14 || command -v clang-tidy || true)"
if [ -z "$analyser" ]; then
  echo "lint: clang-tidy is not installed, static analysis is skipped"
  exit $status
fi
# The flags are those of a build; a configured one of its own has none that only g++ knows.
build=build/lint
if ! configured="$(cmake -S . -B "$build" -DTENON_BUILD_TESTS=OFF -DTENON_BUILD_EXAMPLES=ON -DTENON_BUILD_BENCHMARKS=ON \
  -DTENON_CCACHE=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON 2>&1)"; then
  printf '%s\n' "$configured"
  echo "lint: configuring for clang-tidy failed"
  exit 1
fi
mapfile -d '' -t units < <(git ls-files -z -- tests/scripts/everything.cpp 'examples/*.cpp' benchmarks/llm.cpp \
  ':!examples/fetch_content*' ':!examples/*cuda*')
if [ ${#units[@]} -lt 3 ]; then
  echo "lint: sources for clang-tidy are missing"
  exit 1
fi
check() { # check UNIT: the messages without the counts of those that are suppressed
  "$ANALYSER" --quiet --warnings-as-errors='*' -p "$BUILD" "$1" 2> /dev/null
}
export -f check
if printf '%s\0' "${units[@]}" | ANALYSER="$analyser" BUILD="$build" xargs -0 -n 1 -P "$(nproc 2> /dev/null || echo 2)" \
  bash -c 'check "$1"' check; then
  echo "lint: clang-tidy has nothing to say about ${#units[@]} translation units and the headers that they include"
else
  status=1
fi
exit $status
