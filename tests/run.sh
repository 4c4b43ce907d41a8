#!/usr/bin/env bash
# Installs what is missing, configures, builds, and runs all tests. It may be called from any folder and needs no
# standard input; a second call only does what changed. The last line is "N passed, N failed", with ", N skipped" where
# tests were skipped.
#
#   tests/run.sh [--preset NAME | --asan | --tsan] [--jobs N] [ctest arguments]
#
#   --preset NAME   a preset of CMakePresets.json (release)
#   --asan, --tsan  short for --preset asan, --preset tsan
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
jobs="$(nproc 2> /dev/null || getconf _NPROCESSORS_ONLN)"
ctest_arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    --preset | --jobs) [ $# -ge 2 ] || wrong_use "$1 needs a value" ;;&
    --preset) preset="$2" && shift ;;
    --jobs) jobs="$2" && shift ;;
    --asan) preset=asan ;;
    --tsan) preset=tsan ;;
    --help | -h) usage && exit 0 ;;
    *) ctest_arguments+=("$1") ;;
  esac
  shift
done
[[ "$jobs" =~ ^[1-9][0-9]*$ ]] || wrong_use "--jobs '$jobs' is not a positive number"

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

stage="configuring"
if [ ! -f "build/$preset/CMakeCache.txt" ]; then
  generator=()
  if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja > /dev/null; then generator=(-G Ninja); fi
  cmake --preset "$preset" ${generator[@]+"${generator[@]}"}
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
