// The header of a safetensors file: parsed and proven consistent before a byte of tensor data is touched.
//
// Format: 8 bytes little-endian header length n, n bytes of JSON {name: {dtype, shape, data_offsets}}, then the data.
// The verdicts are those of the reference reader; in addition a name that appears twice is an error, as the format's
// description demands.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/math.hpp>
#include <tenon/io/json.hpp>

TENON_NAMESPACE_BEGIN

/// An element type of the file format. Some have no counterpart in tenon: their tensors are listed, not loaded.
struct FileDType {
  std::string_view name;       ///< as in the file: "BF16"
  std::uint32_t bits = 0;      ///< of one element
  std::optional<DType> dtype;  ///< what tenon computes with, if it has it

  bool operator==(const FileDType& other) const noexcept { return name == other.name; }
};

namespace detail {
// All element types of the reference reader, those of tenon first.
inline constexpr std::array<FileDType, 22> file_dtypes{{
    {"F32", 32, DType::float32},      {"F16", 16, DType::float16},        {"BF16", 16, DType::bfloat16},
    {"F64", 64, DType::float64},      {"F8_E4M3", 8, DType::float8_e4m3}, {"I8", 8, DType::int8},
    {"I16", 16, DType::int16},        {"I32", 32, DType::int32},          {"I64", 64, DType::int64},
    {"U8", 8, DType::uint8},          {"BOOL", 8, DType::boolean},        {"U16", 16, std::nullopt},
    {"U32", 32, std::nullopt},        {"U64", 64, std::nullopt},          {"C64", 64, std::nullopt},
    {"F8_E5M2", 8, std::nullopt},     {"F8_E8M0", 8, std::nullopt},       {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},       {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
}};
}  // namespace detail

/// The element type with this name in the file format, or nothing.
constexpr std::optional<FileDType> find_file_dtype(std::string_view name) noexcept {
  for (const FileDType& dtype : detail::file_dtypes) {
    if (dtype.name == name) return dtype;
  }
  return std::nullopt;
}

/// The name that the file format has for a tenon dtype.
constexpr std::string_view file_dtype_name(DType dtype) noexcept {
  for (const FileDType& candidate : detail::file_dtypes) {
    if (candidate.dtype == dtype) return candidate.name;
  }
  return {};
}

/// One tensor of a file.
struct TensorInfo {
  std::string name;
  FileDType dtype;
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::uint64_t offset = 0;         ///< of the first byte, from the start of the file
  std::uint64_t bytes = 0;
};

/// A header that has passed every check.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              ///< in the order of their data
  std::map<std::string, std::string> metadata;  ///< the `__metadata__` entry
};

/// Longest header that is read, in bytes: the limit of the reference reader.
inline constexpr std::uint64_t safetensors_max_header = 100'000'000;

namespace detail {

/// `what` completes "'file' is not a valid safetensors file:".
[[noreturn]] inline void throw_safetensors(std::string_view file, const std::string& what) {
  throw FormatError("'" + std::string(file) + "' is not a valid safetensors file: " + what);
}

[[noreturn]] inline void throw_safetensors(std::string_view file, std::string_view tensor, const std::string& what) {
  throw_safetensors(file, "tensor '" + shortened(tensor) + "' " + what);
}

/// Turns the parser's events into TensorInfo without a document in between (a large header has thousands of entries).
/// Offsets are still relative to the data here.
class SafetensorsEvents {
 public:
  /// `length` is that of the header: growing as names come would move all of them again and again.
  SafetensorsEvents(std::string_view file, std::size_t length, SafetensorsHeader& header)
      : file_(file), header_(header) {
    constexpr std::size_t shortest = 48;  // bytes of `"a":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}`, about
    names_.reserve(length / shortest);
    header.tensors.reserve(length / shortest / 4);
  }

  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  // Levels: 1 is inside the header, 2 inside a tensor or __metadata__, 3 inside a list of a tensor. Below a field that
  // the format does not define anything goes.

  bool key(std::string& name) {
    if (level_ == 1) {
      if (!names_.insert(name).second) throw_safetensors(file_, name, "appears twice in the header");
      top_ = name;
      if (top_ == "__metadata__") return true;
      header_.tensors.emplace_back();
      header_.tensors.back().name = name;
      seen_ = 0;
    } else if (level_ == 2) {
      field_ = in_metadata()            ? Field::metadata
               : name == "dtype"        ? Field::dtype
               : name == "shape"        ? Field::shape
               : name == "data_offsets" ? Field::offsets
                                        : Field::other;
      if (field_ == Field::metadata) {
        metadata_key_ = name;
        if (header_.metadata.count(name) != 0) {
          throw_safetensors(file_, "the __metadata__ key '" + shortened(name) + "' appears twice");
        }
      } else if (field_ != Field::other) {
        if ((seen_ & bit(field_)) != 0) throw_safetensors(file_, top_, "has the field '" + name + "' twice");
        seen_ |= bit(field_);
      }
    }
    return true;
  }

  bool string(std::string& text) {
    if (level_ == 2 && field_ == Field::metadata) {
      header_.metadata.emplace(metadata_key_, text);
      return true;
    }
    if (level_ == 2 && field_ == Field::dtype) {
      const std::optional<FileDType> dtype = find_file_dtype(text);
      if (!dtype) throw_safetensors(file_, top_, "has the unknown dtype '" + shortened(text) + "'");
      header_.tensors.back().dtype = *dtype;
      return true;
    }
    return scalar();
  }

  bool number_unsigned(std::uint64_t value) {
    if (level_ == 3 && field_ == Field::shape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw_safetensors(file_, top_, "has the size " + std::to_string(value) + " in its shape, which is too large");
      }
      header_.tensors.back().shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (level_ == 3 && field_ == Field::offsets) {
      if (offsets_.size() == 2) throw_safetensors(file_, top_, "has more than two data_offsets");
      offsets_.push_back(value);
      return true;
    }
    return scalar();
  }

  bool number_integer(std::int64_t) { return scalar(); }
  bool number_float(double, const std::string&) { return scalar(); }
  bool boolean(bool) { return scalar(); }
  bool null() {
    if (level_ == 1 && in_metadata()) return true;  // the reference reader takes null for "no metadata"
    return scalar();
  }
  bool binary(std::vector<std::uint8_t>&) { return scalar(); }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    throw_safetensors(file_, "its header is not valid JSON: " + json_reason(error));
  }

 private:
  enum class Field : std::uint8_t { dtype, shape, offsets, metadata, other };
  static constexpr unsigned bit(Field field) { return 1u << static_cast<unsigned>(field); }
  /// The limit of the reference reader's parser.
  static constexpr int max_depth = 128;

  [[nodiscard]] bool in_metadata() const { return top_ == "__metadata__"; }

  /// An object or list begins: only where the format has one.
  bool open(bool object) {
    const bool fits = level_ == 0   ? object
                      : level_ == 1 ? object
                      : level_ == 2
                          ? field_ == Field::other || (!object && (field_ == Field::shape || field_ == Field::offsets))
                          : field_ == Field::other;
    if (!fits) wrong_kind();
    if (++level_ > max_depth) throw_safetensors(file_, "its header is nested too deep");
    if (level_ == 2) field_ = Field::other;
    return true;
  }

  /// An object or list ends: a tensor must be complete then.
  bool close() {
    if (level_ == 3 && field_ == Field::offsets) finish_offsets();
    --level_;
    if (level_ == 1 && !in_metadata()) {
      for (const auto& [field, name] : {std::pair{Field::dtype, "dtype"}, std::pair{Field::shape, "shape"},
                                        std::pair{Field::offsets, "data_offsets"}}) {
        if ((seen_ & bit(field)) == 0) throw_safetensors(file_, top_, std::string("lacks the field '") + name + "'");
      }
    }
    return true;
  }

  /// Everything that can be said about offsets without the other tensors.
  void finish_offsets() {
    if (offsets_.size() != 2) throw_safetensors(file_, top_, "has fewer than two data_offsets");
    if (offsets_[0] > offsets_[1]) {
      throw_safetensors(
          file_, top_,
          "ends at offset " + std::to_string(offsets_[1]) + " before it begins at " + std::to_string(offsets_[0]));
    }
    header_.tensors.back().offset = offsets_[0];
    header_.tensors.back().bytes = offsets_[1] - offsets_[0];
    offsets_.clear();
  }

  /// Any value where only a known kind is allowed; fields that the format does not define are ignored.
  bool scalar() {
    if (level_ >= 2 && field_ == Field::other) return true;
    wrong_kind();
  }

  /// The sentence for a value of the wrong kind at the current place.
  [[noreturn]] void wrong_kind() {
    if (level_ == 0) throw_safetensors(file_, "its header is not a JSON object");
    if (in_metadata()) throw_safetensors(file_, "__metadata__ must map strings to strings");
    if (level_ == 1) throw_safetensors(file_, top_, "is not described by an object");
    switch (field_) {
      case Field::dtype: throw_safetensors(file_, top_, "has a dtype that is not a string");
      case Field::shape: throw_safetensors(file_, top_, "has a shape that is not a list of non-negative integers");
      default: throw_safetensors(file_, top_, "has data_offsets that are not two non-negative integers");
    }
  }

  std::string_view file_;
  SafetensorsHeader& header_;
  std::unordered_set<std::string> names_;  // all keys of level 1
  std::string top_;                        // the last of them
  std::string metadata_key_;
  std::vector<std::uint64_t> offsets_;
  unsigned seen_ = 0;  // fields of the current tensor, one bit each
  Field field_ = Field::other;
  int level_ = 0;
};

/// Bytes of a tensor, from its shape alone. Elements may be smaller than a byte, so bits are counted.
/// Sizes are multiplied in order, with every step checked: a zero behind an overflow does not repair it.
inline std::uint64_t checked_tensor_bytes(std::string_view file, const TensorInfo& info) {
  std::optional<std::uint64_t> bits = 1;
  for (const std::int64_t size : info.shape) {
    if (bits) bits = checked_mul(*bits, static_cast<std::uint64_t>(size));
  }
  if (bits) bits = checked_mul(*bits, std::uint64_t{info.dtype.bits});
  if (!bits) throw_safetensors(file, info.name, "has more elements than 64 bits can count");
  if (*bits % 8 != 0) throw_safetensors(file, info.name, "does not fill a whole number of bytes");
  return *bits / 8;
}

/// Offsets must cover the data exactly: no overlap, no hole, nothing before, nothing behind.
inline void check_safetensors_layout(std::string_view file, SafetensorsHeader& header, std::uint64_t data_bytes) {
  const auto earlier = [](const TensorInfo& a, const TensorInfo& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  };
  // Most files list their tensors in the order of their data.
  if (!std::is_sorted(header.tensors.begin(), header.tensors.end(), earlier)) {
    std::stable_sort(header.tensors.begin(), header.tensors.end(), earlier);
  }
  std::uint64_t end = 0;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& info : header.tensors) {
    if (info.offset != end) {
      const std::string before =
          previous == nullptr ? "the start of the data" : "tensor '" + shortened(previous->name) + "'";
      throw_safetensors(file, info.name, (info.offset < end ? "overlaps with " : "leaves a hole after ") + before);
    }
    const std::uint64_t expected = checked_tensor_bytes(file, info);
    if (info.bytes != expected) {
      throw_safetensors(
          file, info.name,
          "has " + std::to_string(info.bytes) + " bytes, but its shape and dtype need " + std::to_string(expected));
    }
    end = info.offset + info.bytes;
    previous = &info;
  }
  if (end != data_bytes) {
    throw_safetensors(file, "its header describes " + std::to_string(end) + " bytes of data, but it holds " +
                                std::to_string(data_bytes) +
                                (end > data_bytes ? " (an incomplete copy or download?)" : ""));
  }
}

}  // namespace detail

/// Parses and checks the header of a file whose content is `bytes`; `file` stands for it in messages. Tensors come out
/// in the order of their data, offsets counted from the start of the file. Throws FormatError.
inline SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, std::string_view file) {
  if (bytes.size() < 8) {
    detail::throw_safetensors(file, "it has " + std::to_string(bytes.size()) + " bytes, too few for a header");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = (length << 8) | std::to_integer<std::uint64_t>(bytes[i]);
  // Both comparisons come before any sum with the length, which is anything up to 2^64 - 1.
  if (length > safetensors_max_header) {
    detail::throw_safetensors(file, "its header claims " + std::to_string(length) + " bytes, and at most " +
                                        std::to_string(safetensors_max_header) + " are read");
  }
  if (length > bytes.size() - 8) {
    detail::throw_safetensors(file, "its header claims " + std::to_string(length) + " bytes, but only " +
                                        std::to_string(bytes.size() - 8) + " follow (an incomplete copy or download?)");
  }
  // The parser takes a zero byte for the end of the text, and skips a byte order mark; both would hide bytes.
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<std::size_t>(length));
  if (text.find('\0') != std::string_view::npos) detail::throw_safetensors(file, "its header has a zero byte");
  if (text.substr(0, 3) == "\xEF\xBB\xBF") detail::throw_safetensors(file, "its header starts with a byte order mark");

  SafetensorsHeader header;
  detail::SafetensorsEvents events(file, text.size(), header);
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);

  detail::check_safetensors_layout(file, header, bytes.size() - 8 - length);
  for (TensorInfo& info : header.tensors) info.offset += 8 + length;
  return header;
}

TENON_NAMESPACE_END
