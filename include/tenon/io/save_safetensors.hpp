// Writing safetensors files.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/math.hpp>
#include <tenon/io/atomic_file.hpp>
#include <tenon/io/safetensors_header.hpp>
#include <tenon/tensor/any_tensor.hpp>

TENON_NAMESPACE_BEGIN

/// Elements to write, row-major and little-endian; `bytes` is borrowed for the call.
struct SafetensorsEntry {
  std::string name;
  FileDType dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

namespace detail {

/// A JSON string with its quotes. Throws ValueError for text that is not UTF-8.
inline std::string json_string(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError("save_safetensors: a name or a metadata text is not valid UTF-8");
  }
}

/// The JSON text, offsets in the order of `entries`, padded with spaces to a multiple of 8 bytes.
inline std::string safetensors_header_text(const std::vector<SafetensorsEntry>& entries,
                                           const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (text.back() != '{') text += ',';
      text += json_string(key) + ":" + json_string(value);
    }
    text += "}";
  }
  std::uint64_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (text.size() > 1) text += ',';
    text += json_string(entry.name) + ":{\"dtype\":\"" + std::string(entry.dtype.name) + "\",\"shape\":[";
    for (std::size_t i = 0; i < entry.shape.size(); ++i) {
      if (i > 0) text += ',';
      text += std::to_string(entry.shape[i]);
    }
    text += "],\"data_offsets\":[" + std::to_string(offset) + ",";
    offset += entry.bytes.size();
    text += std::to_string(offset) + "]}";
  }
  text += "}";
  text.resize(align_up(text.size(), std::size_t{8}), ' ');  // so that the data starts aligned
  return text;
}

}  // namespace detail

/// Writes a file in one step: it is complete, or `path` is as before. Wide elements come first, then by name, so that
/// every tensor is aligned in the file. Throws ValueError for an unusable name or bytes that do not fit the shape, and
/// FileError if the file cannot be written.
inline void save_safetensors(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries,
                             const std::map<std::string, std::string>& metadata = {}) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.dtype.bits != b.dtype.bits ? a.dtype.bits > b.dtype.bits : a.name < b.name;
  });
  // Everything is checked before the file is created.
  std::map<std::string_view, int> seen;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.name == "__metadata__" || ++seen[entry.name] > 1) {
      throw ValueError("save_safetensors: '" + entry.name + "' cannot be the name of a tensor here");
    }
    std::optional<std::uint64_t> bits = entry.dtype.bits;
    for (const std::int64_t size : entry.shape) {
      if (size < 0) bits.reset();
      if (bits) bits = checked_mul(*bits, static_cast<std::uint64_t>(size));
    }
    if (!bits || *bits % 8 != 0 || *bits / 8 != entry.bytes.size()) {
      throw ValueError("save_safetensors: tensor '" + entry.name + "' has " + std::to_string(entry.bytes.size()) +
                       " bytes, which do not fit its shape and dtype");
    }
  }
  const std::string header = detail::safetensors_header_text(entries, metadata);
  if (header.size() > safetensors_max_header)
    throw ValueError("save_safetensors: the header is longer than readers take");
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::byte>((header.size() >> (8 * i)) & 0xffu);

  // Straight from the tensors to the file: no second copy in memory.
  AtomicFile file(path);
  file.write(length);
  file.write(header);
  for (const SafetensorsEntry& entry : entries) file.write(entry.bytes);
  file.commit();
}

/// The same for tensors in CPU memory. They must be contiguous (throws ValueError): pass `x.contiguous(ctx)`.
inline void save_safetensors(const std::filesystem::path& path, const std::map<std::string, AnyTensor>& tensors,
                             const std::map<std::string, std::string>& metadata = {}) {
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.is_contiguous()) {
      throw ValueError("save_safetensors: tensor '" + detail::shortened(name) +
                       "' is not contiguous: pass x.contiguous(ctx)");
    }
    if (tensor.device() != DeviceKind::cpu)
      throw DeviceError("save_safetensors: tensor '" + name + "' is not on the CPU");
    entries.push_back({name, *find_file_dtype(file_dtype_name(tensor.dtype())), tensor.sizes(),
                       std::span<const std::byte>(tensor.data(), tensor.nbytes())});
  }
  save_safetensors(path, std::move(entries), metadata);
}

TENON_NAMESPACE_END
