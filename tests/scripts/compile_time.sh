#!/usr/bin/env bash
# Seconds to compile a file that only includes a header, at -O0: the median of five runs, each printed before it.
#
#   tests/scripts/compile_time.sh [header...]        (tenon/tenon.hpp tenon/text.hpp; CXX chooses the compiler)
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../include"
[ $# -gt 0 ] || set -- tenon/tenon.hpp tenon/text.hpp

TIMEFORMAT=%R
for header in "$@"; do
  times=()
  for _ in 1 2 3 4 5; do
    # CCACHE_DISABLE: the compiler may be a link to ccache.
    times+=("$({ time printf '#include <%s>\n' "$header" |
      CCACHE_DISABLE=1 "${CXX:-g++}" -std=c++20 -O0 -I . -isystem /usr/include/eigen3 -c -x c++ -o /dev/null -; } 2>&1)")
  done
  median="$(printf '%s\n' "${times[@]}" | sort -n | sed -n 3p)"
  printf '%s: %s s (median of %s)\n' "$header" "$median" "${times[*]}"
done
