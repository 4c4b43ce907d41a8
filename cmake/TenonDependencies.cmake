# What tenon needs from others: found first, fetched otherwise, each in the function of the part that uses it.
#
# Header-only packages are fetched without running their build files, so that nothing of theirs is built or installed.
# Targets that have no name of their own everywhere (PCRE2, utf8proc) are called tenon::…, and the
# installed package configuration creates them again under the same names.
include_guard(GLOBAL)
include(FetchContent)

# Changes in tenon's own directory scope only. GLOBAL in each search below lets a parent project that links
# tenon::tenon see the imported targets found here.
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")

# tenon_fetch_headers(<name> <target> <include folder in the archive> <FetchContent_Declare arguments>…)
macro(tenon_fetch_headers name target include_dir)
  if(NOT TARGET ${target})
    FetchContent_Declare(${name} SYSTEM SOURCE_SUBDIR no-build-files ${ARGN})
    FetchContent_MakeAvailable(${name})
    if(NOT TARGET ${target})
      string(TOLOWER ${name} _tenon_lower)
      add_library(${target} INTERFACE IMPORTED GLOBAL)
      target_include_directories(${target} SYSTEM INTERFACE "${${_tenon_lower}_SOURCE_DIR}/${include_dir}")
    endif()
  endif()
endmacro()

macro(tenon_find_core_dependencies)
  tenon_fetch_headers(
    Eigen3 Eigen3::Eigen "."
    URL https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.bz2
    URL_HASH SHA256=b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626
    FIND_PACKAGE_ARGS 3.4 GLOBAL)
  set(THREADS_PREFER_PTHREAD_FLAG ON)
  find_package(Threads REQUIRED GLOBAL)
endmacro()

# mode: ON finds or fetches, AUTO only finds, OFF does neither. Sets TENON_HAS_TEXT.
macro(tenon_find_text_dependencies mode)
  set(TENON_HAS_TEXT FALSE)
  if("${mode}" STREQUAL "AUTO")
    find_package(nlohmann_json 3.10 QUIET GLOBAL)
    find_package(TenonPCRE2 QUIET GLOBAL)
    find_package(TenonUtf8proc QUIET GLOBAL)
    if(TARGET nlohmann_json::nlohmann_json AND TARGET tenon::pcre2 AND TARGET tenon::utf8proc)
      set(TENON_HAS_TEXT TRUE)
    else()
      message(STATUS "tenon: no tenon::text, because nlohmann_json, PCRE2 or utf8proc is not installed; "
                     "set TENON_ENABLE_TEXT to ON to fetch them")
    endif()
  elseif(${mode})
    tenon_fetch_text_dependencies()
    set(TENON_HAS_TEXT TRUE)
  endif()
endmacro()

macro(tenon_fetch_text_dependencies)
  tenon_fetch_headers(
    nlohmann_json nlohmann_json::nlohmann_json include
    URL https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
    URL_HASH SHA256=8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f
    FIND_PACKAGE_ARGS 3.10 GLOBAL)
  tenon_fetch_library(
    TenonPCRE2 tenon::pcre2 pcre2-8-static
    URL https://github.com/PCRE2Project/pcre2/releases/download/pcre2-10.42/pcre2-10.42.tar.bz2
    URL_HASH SHA256=8d36cd8cb6ea2a4c2bb358ff6411b0c788633a2a45dabbf1aeb4b701d1b5e840)
  tenon_fetch_library(
    TenonUtf8proc tenon::utf8proc utf8proc
    URL https://github.com/JuliaStrings/utf8proc/archive/refs/tags/v2.8.0.tar.gz
    URL_HASH SHA256=a0a60a79fe6f6d54e7d411facbfcc867a6e198608f2cd992490e46f04b1bcecc)
endmacro()

# tenon_fetch_library(<name> <target> <target that the fetched build files define> <FetchContent_Declare arguments>…)
# A function, so that the settings for the fetched build end with it. The fetched targets are built where they are
# linked, and only there.
function(tenon_fetch_library name target built_target)
  if(TARGET ${target})
    return()
  endif()
  FetchContent_Declare(${name} SYSTEM SOURCE_SUBDIR no-build-files ${ARGN} FIND_PACKAGE_ARGS GLOBAL)
  FetchContent_MakeAvailable(${name})
  if(TARGET ${target})
    return()
  endif()

  set(BUILD_SHARED_LIBS OFF)
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5) # both archives ask for less than CMake 4 accepts
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW) # these two let what follows override their options
  set(CMAKE_POLICY_DEFAULT_CMP0126 NEW)
  set(PCRE2_BUILD_PCRE2GREP OFF)
  set(PCRE2_BUILD_TESTS OFF)
  set(PCRE2_SHOW_REPORT OFF)
  set(PCRE2_SUPPORT_JIT ON)
  set(PCRE2_SUPPORT_UNICODE ON)
  set(UTF8PROC_INSTALL OFF)
  string(TOLOWER ${name} lower)
  add_subdirectory("${${lower}_SOURCE_DIR}" "${${lower}_BINARY_DIR}" EXCLUDE_FROM_ALL SYSTEM)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(${target} INTERFACE ${built_target})
  # Where the public header is: PCRE2 generates its own in the build folder, utf8proc keeps it in the source.
  target_include_directories(${target} SYSTEM INTERFACE "${${lower}_BINARY_DIR}" "${${lower}_SOURCE_DIR}")
endfunction()
