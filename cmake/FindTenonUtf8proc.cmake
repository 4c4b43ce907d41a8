# Finds utf8proc and defines tenon::utf8proc. The name is prefixed so that it never hides, and is never hidden by, a
# project's own module.
find_path(TenonUtf8proc_INCLUDE_DIR utf8proc.h)
find_library(TenonUtf8proc_LIBRARY NAMES utf8proc utf8proc_static)
mark_as_advanced(TenonUtf8proc_INCLUDE_DIR TenonUtf8proc_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TenonUtf8proc REQUIRED_VARS TenonUtf8proc_LIBRARY TenonUtf8proc_INCLUDE_DIR)

if(TenonUtf8proc_FOUND AND NOT TARGET tenon::utf8proc)
  add_library(tenon::utf8proc UNKNOWN IMPORTED)
  set_target_properties(
    tenon::utf8proc PROPERTIES IMPORTED_LOCATION "${TenonUtf8proc_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                                                            "${TenonUtf8proc_INCLUDE_DIR}")
endif()
