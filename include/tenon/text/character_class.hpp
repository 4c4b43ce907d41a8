// White space and word characters, as Unicode defines them.
#pragma once

#include <cstdint>

#include <utf8proc.h>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// The property White_Space.
inline bool is_white_space(std::uint32_t point) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(point));
  return (point >= 0x09 && point <= 0x0D) || point == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/// A letter, mark, decimal digit or connector.
inline bool is_word_character(std::uint32_t point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
  }
}

}  // namespace detail

TENON_NAMESPACE_END
