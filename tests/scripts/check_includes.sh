#!/usr/bin/env bash
# Checks the include tree of include/tenon:
#   - folders include only themselves and what is left of them in
#       core → tensor → runtime → ops → cpu | cuda → graph → models → io → text → generate,
#     cpu and cuda never include each other, and ops/x.hpp reaches cpu/ only after the last line of its own code;
#   - every include of tenon is written <tenon/...> and names a header that exists, and every header has #pragma once;
#   - ring 1 (what <tenon/tenon.hpp> reaches) needs no library but Eigen, never reaches cuda/, and reaches every public
#     header of its folders; <tenon/text.hpp> reaches every public header; <tenon/cpu.hpp> reaches the CPU definitions;
#   - ring 2 (cuda/*.hpp and what belongs to it elsewhere, *_cuda.hpp) needs no nvcc; <tenon/cuda.hpp> reaches all of it.
#     Ring 3 (cuda/*.cuh) says so where nvcc is missing; <tenon/cuda.cuh> reaches all of it;
#   - the CUDA toolkit is included by cuda/toolkit.hpp and cuda/primitives.cuh alone, cuDNN by cuda/cudnn.hpp, which no
#     umbrella reaches;
#   - no header has more than 500 lines. The sizes are printed.
# Public headers are those directly in a folder, but x_inl.hpp; deeper folders are details. cpu/reference*.hpp are the
# tests' oracle and are included by those who want them.
#
#   tests/scripts/check_includes.sh [include folder]
set -euo pipefail

include="${1:-$(dirname -- "${BASH_SOURCE[0]}")/../../include}"
cd -- "$include/tenon"
failures=0
fail() {
  printf 'error: %s\n' "$*"
  failures=$((failures + 1))
}

mapfile -t headers < <(find . -name '*.hpp' -o -name '*.cuh' | sed 's|^\./||' | sort)
if [ ${#headers[@]} -eq 0 ]; then
  fail "there are no headers in $include/tenon"
  exit 1
fi

# edges: "FROM LINE TO" for every #include, TO without the brackets.
edges="$(awk 'match($0, /^[ \t]*#[ \t]*include[ \t]*[<"][^>"]+[>"]/) {
  target = $0
  sub(/^[ \t]*#[ \t]*include[ \t]*/, "", target)
  quote = substr(target, 1, 1)
  sub(/^[<"]/, "", target); sub(/[>"].*/, "", target)
  print FILENAME, FNR, (quote == "\"" ? "\"" : "") target
}' "${headers[@]}")"

declare -A rank=([core]=1 [tensor]=2 [runtime]=3 [ops]=4 [cpu]=5 [cuda]=5 [graph]=6 [models]=7 [io]=8 [text]=9
  [generate]=10)
# Ring-1 headers in a folder whose others need more.
ring1_exceptions=" generate/sampler.hpp generate/stop.hpp "

for folder in "${!rank[@]}"; do
  # The include tree keeps a place for graph, which this release does not have.
  if [ ! -d "$folder" ] && [ "$folder" != graph ]; then fail "the folder $folder does not exist"; fi
done
for header in "${headers[@]}"; do
  # x_inl.hpp is compiled once for each instruction set, foreach_level.hpp does that: both are meant to be included again.
  if ! grep -q '^#pragma once' "$header" && [[ "$header" != *_inl.hpp && "$header" != */foreach_level.hpp ]]; then
    fail "$header has no #pragma once"
  fi
  lines="$(wc -l < "$header")"
  if [ "$lines" -gt 500 ]; then fail "$header has $lines lines: split it (400 is the aim, 500 the limit)"; fi
done

while read -r from line to; do
  case "$to" in
    \"*) fail "$from:$line includes $to\": write <tenon/...>" && continue ;;
    tenon/*) to="${to#tenon/}" ;;
    *) continue ;;
  esac
  [ -f "$to" ] || fail "$from:$line includes tenon/$to, which does not exist"
  if [[ "$from" == *.hpp && "$to" == *.cuh ]]; then fail "$from:$line includes tenon/$to, which needs nvcc"; fi
  [[ "$from" == */* ]] || continue # an umbrella may include anything
  if [[ "$to" != */* ]]; then
    fail "$from:$line includes the umbrella tenon/$to"
    continue
  fi
  from_folder="${from%%/*}" to_folder="${to%%/*}"
  if [ -z "${rank[$from_folder]:-}" ]; then
    fail "$from is in a folder that the include tree does not know"
    continue
  fi
  if [ "$from_folder" = "$to_folder" ]; then continue; fi
  if [ "$from_folder" = ops ] && [ "$to_folder" = cpu ]; then
    # The declarations come first; the CPU definitions are made visible at the very end.
    if tail -n +"$line" "$from" | grep -vqE '^[[:space:]]*($|//|#)'; then
      fail "$from:$line includes tenon/$to before its end"
    fi
  elif [ "${rank[$from_folder]}" -le "${rank[$to_folder]:-99}" ]; then
    fail "$from:$line includes tenon/$to: $to_folder is not left of $from_folder"
  fi
done <<< "$edges"

# reach HEADER: all headers of tenon that it includes, directly or not, and itself.
reach() {
  awk -v start="$1" '
    { to = $3; if (to ~ /^tenon\//) { sub(/^tenon\//, "", to); next_of[$1] = next_of[$1] " " to } }
    END {
      queue[last = 1] = start; seen[start] = 1
      for (i = 1; i <= last; i++) {
        print queue[i]
        n = split(next_of[queue[i]], targets, " ")
        for (j = 1; j <= n; j++) if (!(targets[j] in seen)) { seen[targets[j]] = 1; queue[++last] = targets[j] }
      }
    }' <<< "$edges" | sort
}

public() { # public FOLDER...: the public headers of these folders
  local folder header
  for folder in "$@"; do
    for header in "${headers[@]}"; do
      if [[ "$header" =~ ^$folder/[^/]+\.hpp$ && "$header" != *_inl.hpp && "$header" != *_cuda.hpp &&
        "$header" != */cudnn.hpp &&
        "$header" != cpu/reference*.hpp ]]; then
        printf '%s\n' "$header"
      fi
    done
  done
}

complete() { # complete UMBRELLA HEADER...: fails for each HEADER that the umbrella does not reach
  local umbrella="$1" missing
  shift
  if [ ! -f "$umbrella" ]; then
    fail "$umbrella does not exist"
    return
  fi
  for missing in $(comm -13 <(reach "$umbrella") <(printf '%s\n' "$@" | sort -u)); do
    fail "$umbrella does not include tenon/$missing"
  done
}

ring1=($(public core tensor runtime ops cpu graph models))
ring1+=($ring1_exceptions)
for header in $ring1_exceptions cpu/reference.hpp cpu/reference_graph.hpp; do
  [ -f "$header" ] || fail "$header does not exist"
done
complete tenon.hpp "${ring1[@]}"
complete cpu.hpp $(public cpu)
complete text.hpp tenon.hpp "${ring1[@]}" $(public io text generate)

is_cudnn() { [[ "$1" == */cudnn.hpp || "$1" == */cudnn/*.hpp ]]; }
is_ring2() { [[ "$1" == cuda.hpp || "$1" == cuda/*.hpp || "$1" == */*_cuda.hpp ]] || is_cudnn "$1"; }
ring2=() ring3=()
for header in "${headers[@]}"; do
  if is_ring2 "$header" && ! is_cudnn "$header"; then ring2+=("$header"); fi
  if [[ "$header" =~ ^cuda/[^/]+\.cuh$ ]]; then ring3+=("$header"); fi
done
complete cuda.hpp tenon.hpp "${ring2[@]}"
complete cuda.cuh "${ring3[@]}"
for header in $({ reach cuda.hpp; reach cuda.cuh; } | sort -u); do
  if is_cudnn "$header"; then fail "cuda.hpp or cuda.cuh reaches $header, which needs cuDNN"; fi
done

# What ring 1, and text, must not need, in whatever folder the header is.
for header in $({ reach tenon.hpp; reach text.hpp; printf '%s\n' "${ring1[@]}"; } | sort -u); do
  if is_ring2 "$header" || [[ "$header" == *.cuh ]]; then fail "ring 1 reaches $header"; fi
done
mapfile -t ring1_all < <({ reach tenon.hpp; printf '%s\n' "${ring1[@]}"; } | sort -u)
while read -r line; do
  fail "ring 1 header $line"
done < <(grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*<(nlohmann/|pcre2|utf8proc)' "${ring1_all[@]}" || true)
toolkit='cuda|cub/|cublas|cudnn|curand|cusparse|cusolver|cooperative_groups|driver_types|mma\.h|nccl|nvtx|nv/|thrust/|vector_types'
while read -r line; do
  case "$line" in cuda/toolkit.hpp:* | cuda/primitives.cuh:* | cuda/cudnn.hpp:*"<cudnn.h>"*) continue ;; esac
  fail "$line: the CUDA toolkit is included by cuda/toolkit.hpp and cuda/primitives.cuh alone"
done < <(grep -HnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($toolkit)" "${headers[@]}" || true)

# Kernels are seen in one shared library only, and a .cuh says what to do where nvcc is missing.
for header in "${ring3[@]}"; do
  if ! grep -q '^TENON_HIDDEN_BEGIN' "$header" || ! grep -q '^TENON_HIDDEN_END' "$header"; then
    fail "$header does not hide its functions (TENON_HIDDEN_BEGIN, TENON_HIDDEN_END)"
  fi
done
refusing=" $(grep -l '"tenon/cuda/\*.cuh needs nvcc' "${ring3[@]}" | tr '\n' ' ')"
for header in cuda.cuh "${ring3[@]}"; do
  refuses=no
  for reached in $(reach "$header"); do
    if [[ "$refusing" == *" $reached "* ]]; then refuses=yes; fi
  done
  if [ $refuses = no ]; then fail "$header has no #error for compilers other than nvcc, nor includes one that has"; fi
done

wc -l "${headers[@]}" | grep -v ' total$' | sort -n | awk '
  { lines[NR] = $1; name[NR] = $2; sum += $1 }
  END {
    printf "%d headers, %d lines, median %d; over 400:", NR, sum, lines[int((NR + 1) / 2)]
    for (i = 1; i <= NR; i++) if (lines[i] > 400) printf " %s (%d)", name[i], lines[i]
    printf "\n"
  }'
if [ "$failures" -gt 0 ]; then
  printf '%d problems\n' "$failures"
  exit 1
fi
