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

mapfile -d '' -t sources < <(git ls-files -z -- '*.hpp' '*.cpp')
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

# One translation unit that includes every header, and the programs, which instantiate most of them.
if [ $tidy = no ]; then exit $status; fi
analyser="$(command -v clang-tidy-14 || command -v clang-tidy || true)"
if [ -z "$analyser" ]; then
  echo "lint: clang-tidy is not installed, static analysis is skipped"
else
  units=()
  for unit in tests/link/first.cpp examples/chat.cpp examples/verify.cpp; do
    [ -f "$unit" ] && units+=("$unit")
  done
  eigen=/usr/include/eigen3
  if printf '%s\0' "${units[@]}" | xargs -0 -n 1 -P "$(nproc)" sh -c '
      "$0" --quiet --warnings-as-errors="*" "$2" -- -std=c++20 -Iinclude -Iexamples -Itests -isystem "$1" \
        -DTENON_EXAMPLE_MODEL=\"model\" 2> /dev/null' "$analyser" "$eigen"; then
    echo "lint: clang-tidy has nothing to say about ${units[*]}"
  else
    status=1
  fi
fi
exit $status
