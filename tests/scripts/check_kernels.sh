#!/usr/bin/env bash
# What the text of include/tenon/cuda/*.cuh shows of rules that no compiler checks and few runs break:
#   - G6: nothing invites loads through the read-only cache (__restrict__, __ldg, ld.global.nc), which may be moved above
#     the wait of a dependent launch; load_words_once, for weights, is the one streaming load;
#   - G8: every kernel that is launched with dependent = true calls wait_for_previous(), and neither loads nor stores
#     packs, nor uses atomics or barriers, before it. Weights may be loaded with load_words_once;
#   - no kernel lets the next one start by itself: a kernel's results are there when it ends and not before;
#   - kernels are templates, so that two translation units may hold the same one, and none is declared extern;
#   - sums have a fixed order: no atomic operation on floating-point numbers.
#
#   tests/scripts/check_kernels.sh [include folder]
set -euo pipefail
cd -- "${1:-$(dirname -- "${BASH_SOURCE[0]}")/../../include}/tenon"

mapfile -t files < <(find . -name '*.cuh' | sed 's|^\./||' | sort)
if [ ${#files[@]} -eq 0 ]; then
  printf 'error: there are no .cuh files in %s\n' "$PWD"
  exit 1
fi

awk '
  function fail(what) { printf "error: %s\n", what; failures++ }
  function count(text, regex) { return gsub(regex, "&", text) }

  # End of the group that opens at text[at]: the position of what closes it, 0 if nothing does.
  function closing(text, at, open, close_,   depth, i, c) {
    for (i = at; i <= length(text); i++) {
      c = substr(text, i, 1)
      if (c == open) depth++
      if (c == close_ && --depth == 0) return i
    }
    return 0
  }

  function check_kernels(file, text,   at, rest, brace, head, body, end, name, before, start) {
    while ((at = index(text, "__global__")) > 0) {
      before = substr(text, 1, at - 1)
      rest = substr(text, at + length("__global__"))
      brace = index(rest, "{")
      if (brace == 0) { fail(file ": a kernel without a body"); return }
      head = substr(rest, 1, brace - 1)
      end = closing(rest, brace, "{", "}")
      body = substr(rest, brace, end - brace + 1)
      text = substr(rest, end + 1)
      sub(/__launch_bounds__/, "", head)
      name = "?"
      if (match(head, /[A-Za-z_][A-Za-z_0-9]*_kernel[ \n]*\(/)) name = substr(head, RSTART, RLENGTH - 1)
      if (name == "?") fail(file ": a kernel whose name does not end with _kernel: " substr(head, 1, 80))
      if (head ~ /;/) { fail(file ": " name " is declared without a body"); continue }
      kernels++
      # What follows the last end of a definition before the kernel: its template header.
      start = before
      while (match(start, /[;}]/)) start = substr(start, RSTART + 1)
      if (start !~ /template[ \n]*</) fail(file ": " name " is no template")
      if (!match(body, /wait_for_previous\(\)/)) { waitless[name] = file; continue }
      before = substr(body, 1, RSTART - 1)
      if (before ~ /(load_pack<|store_pack|atomic|__sync)/) fail(file ": " name " uses memory before wait_for_previous()")
    }
  }

  function check_file(file, text,   rest, line) {
    if (count(text, "__restrict") > 0) fail(file ": __restrict__")
    if (count(text, "__ldg") > 0 || count(text, "global\\.nc") > 0) fail(file ": loads through the read-only cache")
    if (count(text, "__ld(cs|lu)") > 0) fail(file ": a streaming load outside load_words_once")
    if (file != "cuda/gemv_operands.cuh" && count(text, "ld\\.global\\.[a-zA-Z0-9_:.]*(no_allocate|evict|cs|lu)") > 0)
      fail(file ": a streaming load outside load_words_once")
    if (file == "cuda/primitives.cuh") {
      if (count(text, "griddepcontrol") != 1) fail(file ": wait_for_previous has the one griddepcontrol")
    } else {
      if (count(text, "griddepcontrol") > 0) fail(file ": griddepcontrol outside wait_for_previous")
    }
    if (count(text, "launch_dependents|cudaTriggerProgrammatic|cudaGridDependency") > 0)
      fail(file ": a dependent launch is triggered or waited for by other means than wait_for_previous")
    if (count(text, "extern[ \n]+template[^;]*_kernel") > 0) fail(file ": a kernel is declared extern template")
    if (count(text, "atomicAdd\\([^;]*(float|double|half|bfloat)") > 0 || count(text, "red\\.[a-z.]*add\\.[a-z.]*f(16|32|64)") > 0)
      fail(file ": an atomic sum of floating-point numbers")
    check_kernels(file, text)
  }

  # Kernels without the wait, by name and file: the function that launches them has a LaunchShape that is not dependent.
  function check_waitless(   name, i, n, parts, launched, at) {
    for (name in waitless) {
      launched = 0
      n = split(whole, parts, "LaunchShape ")
      for (i = 2; i <= n; i++) {
        at = index(parts[i], "\n}")
        if (at > 0) parts[i] = substr(parts[i], 1, at)
        at = index(parts[i], name)
        if (at == 0) continue
        launched = 1
        if (index(substr(parts[i], 1, at), "dependent") > 0)
          fail(waitless[name] ": " name " is launched with dependent = true and does not call wait_for_previous()")
      }
      if (!launched) fail(waitless[name] ": " name " does not call wait_for_previous(), and its launch was not found")
    }
  }

  FNR == 1 { if (NR > 1) check_file(name_, text_); name_ = FILENAME; text_ = "" }
  { sub(/\/\/.*/, ""); text_ = text_ $0 "\n"; whole = whole $0 "\n" }
  END {
    check_file(name_, text_)
    check_waitless()
    printf "%d kernels in %d files\n", kernels, ARGC - 1
    if (kernels == 0) fail("there are no kernels")
    if (failures > 0) { printf "%d problems\n", failures; exit 1 }
  }' "${files[@]}"
