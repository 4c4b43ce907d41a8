#!/usr/bin/env bash
# Compiles each header alone, for syntax only, so that it has to include what it uses. Prints the compiler's messages for
# those that fail.
#
#   tests/scripts/check_headers.sh CXX JOBS [compiler flag...]
set -euo pipefail
cxx="$1" jobs="$2"
shift 2
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../include"

check() { # check HEADER: including it twice also tries its guard
  local header="$1"
  if ! printf '#include <%s>\n#include <%s>\n' "$header" "$header" |
    "$CHECK_CXX" $CHECK_FLAGS -I . -fsyntax-only -x c++ -; then
    printf 'error: %s does not compile alone\n' "$header"
    return 1
  fi
}
export -f check
export CHECK_CXX="$cxx" CHECK_FLAGS="-std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Werror $*"
find tenon -name '*.hpp' -print0 | sort -z | xargs -0 -n 1 -P "$jobs" bash -c 'check "$1"' check
printf '%d headers compile alone\n' "$(find tenon -name '*.hpp' | wc -l)"
