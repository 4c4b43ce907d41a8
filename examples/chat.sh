#!/usr/bin/env bash
# Chats with a Qwen2 model. Installs what is missing, builds the chat program in build/chat, and runs it with
# the arguments given; without --model it uses the small checkpoint in examples/models. The set-up talks on standard
# error only, so that standard output has the program's answer and nothing else. A second call only checks that the
# build is current. Where the checkout cannot be written to, the build is in ~/.cache/tenon (XDG_CACHE_HOME). With
# --device cuda, and where there is nvcc, the program is built with CUDA, in build/chat-cuda.
#
#   examples/chat.sh
#   examples/chat.sh --prompt "Tell me a story." --greedy
#   examples/chat.sh --model path/to/Qwen2.5-0.5B-Instruct --dtype bf16
#   examples/chat.sh --model path/to/Qwen2.5-7B-Instruct --device cuda
set -euo pipefail

root="$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd -P)"
# The device that the program will be asked for.
device=cpu
previous=""
for argument in "$@"; do
  if [ "$previous" = --device ]; then device="$argument"; fi
  case "$argument" in --device=*) device="${argument#--device=}" ;; esac
  previous="$argument"
done
nvcc="${CUDACXX:-$(command -v nvcc || true)}"
if [ -z "$nvcc" ] && [ -x /usr/local/cuda/bin/nvcc ]; then nvcc=/usr/local/cuda/bin/nvcc; fi
name=chat
if [ -n "$nvcc" ]; then
  case "$device" in cuda | cuda:*) name=chat-cuda ;; esac
fi

build="$root/build/$name"
if ! mkdir -p "$build" 2> /dev/null || [ ! -w "$build" ]; then
  build="${XDG_CACHE_HOME:-${HOME:?is not set, and $root cannot be written to}/.cache}/tenon/$name-$(cksum <<< "$root" | tr -c '0-9\n' '-')"
  if ! mkdir -p "$build" 2> /dev/null || [ ! -w "$build" ]; then
    printf "tenon: neither '%s' nor '%s' can be written to, and the chat program has to be built\n" "$root/build/$name" "$build" >&2
    exit 1
  fi
fi
log="$build/setup.log"

# Everything but the program itself: no standard input, and nothing on standard output.
set_up() {
  "$root/cmake/install_dependencies.sh" chat
  # Two calls at once: the second waits for the first to finish building.
  if command -v flock > /dev/null; then
    exec 9> "$build/setup.lock"
    flock 9
  fi
  step() { # step COMMAND...: shows the end of the log where the command fails
    if ! "$@" > "$log" 2>&1; then
      tail -n 40 "$log" >&2
      printf 'tenon: setting up the chat program failed; the whole log is %s\n' "$log" >&2
      exit 1
    fi
  }
  if [ ! -f "$build/CMakeCache.txt" ] || [ ! -x "$build/bin/chat" ]; then
    local takes="a minute or two" options=()
    if [ $name = chat-cuda ]; then
      takes="several minutes"
      options=(-DTENON_ENABLE_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc")
      # For the GPU that is here, if there is one; else for those that the project names.
      if nvidia-smi -L > /dev/null 2>&1; then options+=(-DCMAKE_CUDA_ARCHITECTURES=native); fi
    fi
    printf 'tenon: building the chat program, once; this takes %s\n' "$takes" >&2
    local generator=()
    if [ ! -f "$build/CMakeCache.txt" ] && [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja > /dev/null; then
      generator=(-G Ninja)
    fi
    step cmake -S "$root" -B "$build" ${generator[@]+"${generator[@]}"} -DCMAKE_BUILD_TYPE=Release \
      -DTENON_BUILD_TESTS=OFF -DTENON_BUILD_BENCHMARKS=OFF -DTENON_BUILD_EXAMPLES=ON -DTENON_WARNINGS_AS_ERRORS=OFF \
      ${options[@]+"${options[@]}"}
  fi
  step cmake --build "$build" --target chat --parallel "$(nproc 2> /dev/null || echo 2)"
}
(set_up) < /dev/null > /dev/null

exec "$build/bin/chat" "$@"
