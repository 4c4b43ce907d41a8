#!/usr/bin/env bash
# Installs what tenon needs and is not there yet, on Debian and its derivatives through apt; on other systems it names
# what to install and stops. With everything in place it only looks, in a few hundredths of a second.
#
#   cmake/install_dependencies.sh SET...     SET: chat, tests, lint
#
# Nothing is printed on standard output. The machine's apt sources are left as they are.
set -euo pipefail

say() { printf 'tenon: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

compiler=(g++ cmake)
chat=(libeigen3-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev libcli11-dev libedit-dev)
packages=()
catch2=no
for set in "$@"; do
  case "$set" in
    chat) packages+=("${compiler[@]}" "${chat[@]}") ;;
    tests) packages+=("${compiler[@]}" "${chat[@]}" libbenchmark-dev) && catch2=yes ;;
    lint) packages+=(clang-format clang-tidy) ;;
    *) die "cmake/install_dependencies.sh does not know the set '$set'" ;;
  esac
done

version_reached() { # version_reached VERSION LEAST
  [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

# What CMake will take, $CXX or c++, has to know C++20 as g++ 12 and clang 14 do.
cxx="${CXX:-c++}"
compiler_fits() { # compiler_fits: quietly, so that "$cxx" may also be "ccache g++"
  local macros clang gcc
  macros="$($cxx -std=c++20 -dM -E -x c++ /dev/null 2> /dev/null)" || return 1
  clang="$(sed -n 's/^#define __clang_major__ //p' <<< "$macros")"
  gcc="$(sed -n 's/^#define __GNUC__ //p' <<< "$macros")"
  if [ -n "$clang" ]; then version_reached "$clang" 14; else version_reached "${gcc:-0}" 12; fi
}
compiler_wanted="a C++20 compiler: g++ 12 or clang 14, or later, as c++ or named by CXX"

# The build tool: either will do, ninja is quicker to see that nothing changed.
if ! command -v ninja > /dev/null && ! command -v make > /dev/null; then packages+=(ninja-build); fi

# --- Elsewhere than Debian: look for the commands and headers themselves ---
if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  missing=()
  compiler_fits || missing+=("$compiler_wanted")
  command -v cmake > /dev/null || missing+=("CMake 3.25 or later")
  if [ ${#missing[@]} -eq 0 ]; then
    has() { # has HEADER...: whether the compiler finds one of them
      local header
      for header in "$@"; do
        printf '#include <%s>\n' "$header" | $cxx -std=c++20 -fsyntax-only -x c++ ${CPPFLAGS:-} - 2> /dev/null && return
      done
      return 1
    }
    has Eigen/Core eigen3/Eigen/Core || missing+=("Eigen 3.4")
    has nlohmann/json.hpp || missing+=("nlohmann_json 3.10 or later")
    printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <pcre2.h>\n' | $cxx -fsyntax-only -x c++ - 2> /dev/null ||
      missing+=("PCRE2 10.30 or later")
    has utf8proc.h || missing+=("utf8proc 2")
    has CLI/CLI.hpp || missing+=("CLI11 2.1 or later")
  fi
  [ ${#missing[@]} -eq 0 ] && exit 0
  say "this system has no apt; please install:"
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
fi

installed() { # installed PACKAGE: also true for what provides it under another name, such as g++-12 for g++
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]
}

missing=()
for package in "${packages[@]}"; do
  case "$package" in
    g++) compiler_fits && continue ;;
    cmake | clang-format | clang-tidy) command -v "$package" > /dev/null && continue ;;
    clang) command -v clang++ > /dev/null && continue ;;
  esac
  if ! installed "$package" && [[ " ${missing[*]-} " != *" $package "* ]]; then missing+=("$package"); fi
done

# Catch2 3 has compiled parts; Catch2 2 has not, and is no use here.
if [ "$catch2" = yes ]; then
  for config in /usr/lib/cmake/Catch2 /usr/lib/*/cmake/Catch2 /usr/share/cmake/Catch2 /usr/local/lib/cmake/Catch2 \
    /usr/local/share/cmake/Catch2; do
    if [ -d "$config" ] && grep -qs 'PACKAGE_VERSION "3\.' "$config/Catch2ConfigVersion.cmake"; then catch2=no; fi
  done
fi

check_tools() { # what is there, or was just installed, may still be too old
  local version
  case " ${packages[*]-} " in *" g++ "*) ;; *) return 0 ;; esac
  version="$(cmake --version | sed -n '1s/.* //p')"
  version_reached "$version" 3.25 || die "CMake $version is too old: 3.25 or later is needed"
  compiler_fits ||
    die "the compiler $cxx is not there or too old; please install $compiler_wanted"
}

if [ ${#missing[@]} -eq 0 ] && [ "$catch2" = no ]; then
  check_tools
  exit 0
fi

# --- Install ---
root=()
if [ "$(id -u)" -ne 0 ]; then
  # Callers redirect standard input; sudo asks for a password on /dev/tty, where there is one and somebody reads.
  can_ask() { [ -t 2 ] && { : < /dev/tty; } 2> /dev/null; }
  if command -v sudo > /dev/null && { sudo -n true 2> /dev/null || can_ask; }; then
    root=(sudo)
  else
    wanted=("${missing[@]}")
    [ "$catch2" = yes ] && wanted+=("catch2 (version 3, in Debian 12 from backports)")
    die "no permission to install packages; as root, please install: ${wanted[*]}"
  fi
fi
log="$(mktemp)"
scratch="$(mktemp -d)"
chmod 755 "$scratch"
trap 'rm -rf "$log" "$scratch" 2> /dev/null || true' EXIT
apt() { # apt ARGUMENT...: quiet, never asks, waits for another apt to end
  ${root[@]+"${root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=600 \
    -o APT::Get::Assume-Yes=true "$@" > "$log" 2>&1 < /dev/null
}
fail() {
  tail -n 20 "$log" >&2
  die "$*"
}

if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${missing[*]}"
  # The package lists may be old or absent: only then are they fetched, because that takes longer than installing.
  if ! apt install --no-install-recommends "${missing[@]}"; then
    apt update || fail "apt-get update failed"
    apt install --no-install-recommends "${missing[@]}" || fail "apt-get could not install ${missing[*]}"
  fi
fi
check_tools

install_catch2() {
  # Where a release has Catch2 3 in its main archive, that is it.
  if apt-cache show libcatch2-dev 2> /dev/null | grep -q '^Version: 3'; then
    apt install --no-install-recommends libcatch2-dev && return
  fi
  # Backports, from the mirror that this machine already uses for its release, through a sources list and package lists
  # of our own, so that afterwards apt knows nothing of them. The key is the one that the machine's own sources name.
  local codename uri key
  codename="$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")"
  [ -n "$codename" ] || return 1
  mirror() {
    # Debian's own archive: others use its code names too.
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(CODENAME)|$(REPO_URI)' 'Created-By: Packages' |
      awk -F '|' -v codename="$codename" '$1 == "Debian" && $2 == "Debian" && $3 == codename { print $4; exit }'
  }
  uri="$(mirror)"
  if [ -z "$uri" ]; then # apt lists only what it has downloaded
    apt update
    uri="$(mirror)"
  fi
  [ -n "$uri" ] || return 1
  key=/usr/share/keyrings/debian-archive-keyring.gpg
  local options=""
  [ -f "$key" ] && options="[signed-by=$key] "
  mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
  printf 'deb %s%s %s-backports main\n' "$options" "$uri" "$codename" > "$scratch/sources.list"
  local own=(-o "Dir::Etc::SourceList=$scratch/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$scratch/lists" -o "Dir::Cache=$scratch/cache" -o APT::Sandbox::User=root)
  apt "${own[@]}" update && apt "${own[@]}" install --no-install-recommends libcatch2-dev
}

if [ "$catch2" = yes ]; then
  say "installing Catch2 3"
  if ! install_catch2; then
    tail -n 5 "$log" >&2
    say "Catch2 3 could not be installed from Debian; CMake will fetch it"
  fi
fi
