// The strings of a vocabulary by id, and their ids by string, in three flat arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// Mixes the bits of a 64-bit value (a multiply and a fold, twice).
inline std::uint64_t mix_bits(std::uint64_t value) {
  value *= 0x9E3779B97F4A7C15ull;
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93ull;
  return value ^ value >> 29;
}

/// A hash for short strings: eight bytes a step, the tail by overlapping loads.
inline std::uint64_t hash_string(std::string_view text) {
  const char* data = text.data();
  std::size_t size = text.size();
  std::uint64_t hash = size;
  const auto load = [](const char* from, auto value) {
    std::memcpy(&value, from, sizeof value);
    return static_cast<std::uint64_t>(value);
  };
  for (; size > 8; data += 8, size -= 8) hash = mix_bits(hash ^ load(data, std::uint64_t{}));
  if (size == 8) return mix_bits(hash ^ load(data, std::uint64_t{}));
  if (size >= 4) return mix_bits(hash ^ (load(data, std::uint32_t{}) | load(data + size - 4, std::uint32_t{}) << 32));
  if (size == 0) return mix_bits(hash);
  const auto byte = [&](std::size_t i) { return static_cast<std::uint64_t>(static_cast<unsigned char>(data[i])); };
  return mix_bits(hash ^ (byte(0) << 16 | byte(size / 2) << 8 | byte(size - 1) | std::uint64_t{1} << 40));
}

/// A set of strings with ids. Built once, then constant and shared freely.
class TokenTable {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFFu;

  /// Makes room for ids below `id_count`, `entry_count` strings in the index, and `byte_count` bytes of text.
  void reserve(std::size_t id_count, std::size_t entry_count, std::size_t byte_count) {
    entries_.resize(id_count);
    arena_.reserve(byte_count);
    std::size_t capacity = 16;
    while (capacity * 2 < entry_count * 3) capacity *= 2;
    slots_.assign(capacity, Slot{0, none});
  }

  /// Gives `id` its text. Returns false if the id has one already.
  bool set(std::uint32_t id, std::string_view text) {
    Entry& entry = entries_[id];
    if (entry.used) return false;
    entry = {arena_.size(), static_cast<std::uint32_t>(text.size()), true};
    arena_.append(text);
    return true;
  }

  /// Makes `find` see the text of `id`. Returns false, changing nothing, if an equal text is there already. At most as
  /// many ids as `reserve` was told.
  bool index(std::uint32_t id) {
    const std::string_view text = (*this)[id];
    const std::uint64_t hash = hash_string(text);
    std::size_t slot = static_cast<std::size_t>(hash) & (slots_.size() - 1);
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    for (; slots_[slot].id != none; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].tag == tag && (*this)[slots_[slot].id] == text) return false;
    }
    slots_[slot] = {tag, id};
    return true;
  }

  /// The id of an indexed text, or `none`.
  std::uint32_t find(std::string_view text) const {
    const std::uint64_t hash = hash_string(text);
    std::size_t slot = static_cast<std::size_t>(hash) & (slots_.size() - 1);
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    for (; slots_[slot].id != none; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].tag == tag && (*this)[slots_[slot].id] == text) return slots_[slot].id;
    }
    return none;
  }

  /// The text of `id`; empty for an id without one, which must still be below `size()`.
  std::string_view operator[](std::size_t id) const {
    return std::string_view(arena_).substr(entries_[id].offset, entries_[id].length);
  }

  bool contains(std::size_t id) const { return id < entries_.size() && entries_[id].used; }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::size_t offset = 0;
    std::uint32_t length = 0;
    bool used = false;
  };
  struct Slot {
    std::uint32_t tag;
    std::uint32_t id;
  };
  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
};

}  // namespace detail

TENON_NAMESPACE_END
