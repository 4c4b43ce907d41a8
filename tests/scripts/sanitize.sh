#!/usr/bin/env bash
# Runs the tests of tests/cuda, and one chat, under every tool of compute-sanitizer, several processes side by side. Needs a
# GPU and a build with CUDA. Prints a line for each run, and exits with 1 if a tool or a test found something.
#
#   tests/scripts/sanitize.sh FOLDER [--tools "memcheck …"] [--limit SECONDS] [TAG...]
#
#   FOLDER      of the programs, for example build/release/bin
#   --tools     memcheck racecheck initcheck synccheck
#   --limit     time for one process (1200); one that runs into it counts as unfinished, not as clean
#   TAG         Catch2 tags of the tests; those of all operators
#
# initcheck does not see stores of bulk copies (TMA): it names whatever reads what a cuBLASLt kernel wrote that way. racecheck
# reports hazards between instructions of two of cuBLASLt's own kernels (nvjet_sm90_…): look at the names.
set -euo pipefail

tools="memcheck racecheck initcheck synccheck"
limit=1200
[ $# -ge 1 ] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" && exit 2; }
programs="$(cd -- "$1" && pwd)"
shift
tags=()
while [ $# -gt 0 ]; do
  case "$1" in
    --tools) tools="$2" && shift ;;
    --limit) limit="$2" && shift ;;
    *) tags+=("$1") ;;
  esac
  shift
done
if [ ${#tags[@]} -eq 0 ]; then
  tags=([argmax] [copy] [decode_attention] [decode_linear] [elementwise] [embedding] [linear] [rearrange] [rms_norm] [rope]
    [sampler] [self_attention])
fi
sanitizer="$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)"
logs="$(mktemp -d)"

check() { # check TOOL NAME COMMAND...
  local tool="$1" name="$2" status=0
  shift 2
  timeout "$limit" "$sanitizer" --tool "$tool" --error-exitcode 99 "$@" > "$logs/$tool-$name" 2>&1 || status=$?
  local verdict="clean"
  case "$status" in
    0) ;;
    99) verdict="FOUND" ;;
    124) verdict="UNFINISHED" ;;
    *) verdict="FAILED ($status)" ;;
  esac
  printf '%-10s %-18s %-12s %s\n' "$tool" "$name" "$verdict" "$(grep -h 'SUMMARY' "$logs/$tool-$name" | tail -n 1 | sed 's/^=* *//')"
}

for tool in $tools; do
  check "$tool" chat "$programs/chat" --device cuda --prompt "Tell me a story." --greedy --max-new-tokens 24 --dtype bf16 &
  for tag in "${tags[@]}"; do check "$tool" "${tag//[^a-z_]/}" "$programs/tenon_cuda_tests" "$tag" & done
done | sort | tee "$logs/summary"
wait
printf 'logs: %s\n' "$logs"
! grep -qvE ' clean ' "$logs/summary"
