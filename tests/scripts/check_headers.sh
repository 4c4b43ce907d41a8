#!/usr/bin/env bash
# Compiles each header alone, for syntax only, so that it has to include what it uses. Prints the compiler's messages for
# those that fail.
#
#   tests/scripts/check_headers.sh CXX [compiler flag...]
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../include"

check() { # check HEADER CXX [compiler flag...]: including it twice also tries its guard
  local header="$1"
  shift
  if ! printf '#include <%s>\n#include <%s>\n' "$header" "$header" | "$@" -I . -fsyntax-only -x c++ -; then
    printf 'error: %s does not compile alone\n' "$header"
    return 1
  fi
}
export -f check

mapfile -d '' -t headers < <(find tenon -name '*.hpp' -print0 | sort -z)
if [ ${#headers[@]} -eq 0 ]; then
  printf 'error: there are no headers in %s\n' "$PWD"
  exit 1
fi
printf '%s\0' "${headers[@]}" | xargs -0 -P "$(nproc 2> /dev/null || echo 2)" -I {} bash -c 'check "$@"' check {} \
  "$@" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Werror
printf '%d headers compile alone\n' "${#headers[@]}"
