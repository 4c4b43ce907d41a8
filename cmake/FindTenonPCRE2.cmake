# Finds the 8-bit PCRE2 library and defines tenon::pcre2. The name is prefixed so that it never hides, and is never
# hidden by, a project's own FindPCRE2 module.
find_path(TenonPCRE2_INCLUDE_DIR pcre2.h)
find_library(TenonPCRE2_LIBRARY NAMES pcre2-8 pcre2-8-static)
mark_as_advanced(TenonPCRE2_INCLUDE_DIR TenonPCRE2_LIBRARY)

if(TenonPCRE2_INCLUDE_DIR)
  file(STRINGS "${TenonPCRE2_INCLUDE_DIR}/pcre2.h" _tenon_pcre2_lines REGEX "#define PCRE2_(MAJOR|MINOR)[ \t]+[0-9]+")
  if("${_tenon_pcre2_lines}" MATCHES "MAJOR[ \t]+([0-9]+).*MINOR[ \t]+([0-9]+)")
    set(TenonPCRE2_VERSION "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  TenonPCRE2
  REQUIRED_VARS TenonPCRE2_LIBRARY TenonPCRE2_INCLUDE_DIR
  VERSION_VAR TenonPCRE2_VERSION)

if(TenonPCRE2_FOUND AND NOT TARGET tenon::pcre2)
  add_library(tenon::pcre2 UNKNOWN IMPORTED)
  set_target_properties(
    tenon::pcre2 PROPERTIES IMPORTED_LOCATION "${TenonPCRE2_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                                                      "${TenonPCRE2_INCLUDE_DIR}")
endif()
