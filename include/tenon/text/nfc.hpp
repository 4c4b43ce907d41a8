// Unicode normalisation form C, on utf8proc's tables.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <utf8proc.h>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/text/utf8.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// A closed range of code points.
struct CodePointRange {
  std::uint32_t first;
  std::uint32_t last;
};

/// Blocks in which every code point is its own NFC form, has combining class 0, and never composes with what stands
/// before it. Text made of these alone is normalised, and normalisation never reaches across the start of one. They
/// cover Latin, Greek, Cyrillic, punctuation, symbols, kana, CJK ideographs, Hangul syllables and emoji; a test checks
/// each code point against utf8proc. The rest is merely slower, but for U+11A7: utf8proc 2.8 takes that vowel for an
/// empty final consonant and drops it after a syllable, so that it must stay out of segments.
inline constexpr std::array<CodePointRange, 14> nfc_inert_ranges{{{0x0000, 0x02FF},
                                                                  {0x0388, 0x0482},
                                                                  {0x11A7, 0x11A7},
                                                                  {0x1E00, 0x1EFF},
                                                                  {0x2002, 0x20CF},
                                                                  {0x212C, 0x2328},
                                                                  {0x232B, 0x27FF},
                                                                  {0x3000, 0x3029},
                                                                  {0x3030, 0x3098},
                                                                  {0x309B, 0x30FF},
                                                                  {0x3400, 0x9FFF},
                                                                  {0xAC00, 0xD7A3},
                                                                  {0xFE00, 0xFE0F},
                                                                  {0x1F300, 0x1FAFF}}};

inline constexpr bool is_nfc_inert(std::uint32_t code_point) {
  for (const CodePointRange& range : nfc_inert_ranges) {
    if (code_point <= range.last) return code_point >= range.first;
  }
  return false;
}

/// Appends the NFC form of valid UTF-8 `segment` to `out`. Combining marks are put in order by a stable sort, so that
/// a megabyte of them costs n log n.
inline void append_nfc_segment(std::string& out, std::string_view segment) {
  constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  std::vector<utf8proc_int32_t> points;
  points.reserve(segment.size());
  for (std::size_t i = 0; i < segment.size();) {
    const Utf8Step step = decode_utf8(segment, i);
    std::array<utf8proc_int32_t, 32> parts;
    int boundary_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary_class);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size())) {
      throw ValueError("utf8proc cannot decompose a code point of the text");
    }
    points.insert(points.end(), parts.begin(), parts.begin() + count);
    i += step.length;
  }
  const auto combining_class = [](utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; };
  for (auto first = points.begin(); first != points.end();) {
    if (combining_class(*first) == 0) {
      ++first;
      continue;
    }
    auto last = first;
    while (last != points.end() && combining_class(*last) != 0) ++last;
    if (last - first > 1) {
      std::stable_sort(first, last, [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
    }
    first = last;
  }
  const utf8proc_ssize_t length =
      utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), options);
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    append_utf8(out, static_cast<std::uint32_t>(points[static_cast<std::size_t>(i)]));
  }
}

/// The NFC form of valid UTF-8 `text`: `text` itself where that is clear at a glance, else a view of `storage`.
inline std::string_view to_nfc(std::string_view text, std::string& storage) {
  bool changed = false;
  std::size_t copied = 0;    // everything before it is in `storage`, once `changed`
  std::size_t previous = 0;  // start of the last inert character seen
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t run = ascii_run(text, i);
    if (run != 0) {
      i += run;
      previous = i - 1;
      continue;
    }
    const Utf8Step step = decode_utf8(text, i);
    if (is_nfc_inert(step.code_point)) {
      previous = i;
      i += step.length;
      continue;
    }
    std::size_t end = i + step.length;
    while (end < text.size()) {
      const Utf8Step next = decode_utf8(text, end);
      if (is_nfc_inert(next.code_point)) break;
      end += next.length;
    }
    if (!changed) {
      storage.clear();
      storage.reserve(text.size() + text.size() / 8);
      changed = true;
    }
    const std::size_t start = std::max(previous, copied);
    storage.append(text.substr(copied, start - copied));
    append_nfc_segment(storage, text.substr(start, end - start));
    copied = previous = i = end;
  }
  if (!changed) return text;
  storage.append(text.substr(copied));
  return storage;
}

}  // namespace detail

TENON_NAMESPACE_END
