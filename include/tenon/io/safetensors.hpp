// One safetensors file, mapped: names to tensors that borrow the mapping.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/file_map.hpp>
#include <tenon/io/safetensors_header.hpp>
#include <tenon/tensor/any_tensor.hpp>

TENON_NAMESPACE_BEGIN

/// A checked and mapped safetensors file. Copies share the mapping, and so do the tensors taken from it, which may
/// outlive the object. It never changes after construction: any number of threads may use it.
class SafetensorsFile {
 public:
  /// Maps the file and checks its whole header. Throws FileError if it cannot be read and FormatError if it is malformed.
  explicit SafetensorsFile(const std::filesystem::path& path) : SafetensorsFile(FileMap::open(path)) {}

  /// The same for bytes that are there already, for example from `FileMap::read`.
  explicit SafetensorsFile(FileMap map) {
    auto state = std::make_shared<State>();
    state->map = std::move(map);
    state->header = parse_safetensors_header(state->map.bytes(), state->map.path().string());
    state->by_name.reserve(state->header.tensors.size());
    for (std::size_t i = 0; i < state->header.tensors.size(); ++i) {
      state->by_name.emplace(state->header.tensors[i].name, i);
    }
    state_ = std::move(state);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return state_->map.path(); }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept { return state_->header.metadata; }

  /// All tensors, in the order of their data.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept { return state_->header.tensors; }

  /// The entry of one tensor, or nullptr.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const noexcept {
    const auto found = state_->by_name.find(name);
    return found == state_->by_name.end() ? nullptr : &state_->header.tensors[found->second];
  }

  /// The entry of one tensor. Throws FormatError naming the file and the tensor if it is not there.
  [[nodiscard]] const TensorInfo& info(std::string_view name) const {
    const TensorInfo* found = find(name);
    if (found == nullptr) {
      throw FormatError(detail::quoted(path()) + " holds no tensor '" + detail::shortened(name) + "'");
    }
    return *found;
  }

  /// The raw little-endian bytes of a tensor, whatever its dtype; valid while some copy of this object lives.
  [[nodiscard]] std::span<const std::byte> bytes(std::string_view name) const {
    const TensorInfo& found = info(name);
    return state_->map.bytes().subspan(static_cast<std::size_t>(found.offset), static_cast<std::size_t>(found.bytes));
  }

  /// The tensor, read-only, without a copy: it keeps the mapping alive. Only data that is not aligned for its type in the
  /// file (the format allows that) is copied. Throws FormatError if there is no such tensor or a BOOL is neither 0 nor
  /// 1, and DTypeError if tenon has no such element type.
  [[nodiscard]] AnyTensor tensor(std::string_view name) const {
    const TensorInfo& found = info(name);
    if (!found.dtype.dtype) {
      throw DTypeError("tensor '" + detail::shortened(found.name) + "' of " + detail::quoted(path()) + " has dtype " +
                       std::string(found.dtype.name) + ", which tenon does not compute with");
    }
    const DType dtype = *found.dtype.dtype;
    const std::span<const std::byte> data = bytes(name);
    if (dtype == DType::boolean) check_booleans(found, data);
    if (reinterpret_cast<std::uintptr_t>(data.data()) % dtype_size(dtype) == 0) {
      return AnyTensor::from_external(dtype, found.shape, data.data(), state_);
    }
    // operator new aligns for every element type.
    std::shared_ptr<std::byte[]> copy(new std::byte[data.size() + 1]);
    std::memcpy(copy.get(), data.data(), data.size());
    const std::byte* start = copy.get();
    return AnyTensor::from_external(dtype, found.shape, start, std::move(copy));
  }

 private:
  /// What copies and tensors share; built once, const from then on.
  struct State {
    FileMap map;
    SafetensorsHeader header;
    std::unordered_map<std::string_view, std::size_t> by_name;  // views into header
  };

  /// A `bool` with any other pattern would be undefined behaviour to read.
  void check_booleans(const TensorInfo& info, std::span<const std::byte> data) const {
    if (std::all_of(data.begin(), data.end(), [](std::byte b) { return std::to_integer<unsigned>(b) <= 1; })) return;
    throw FormatError("tensor '" + detail::shortened(info.name) + "' of " + detail::quoted(path()) +
                      " has a BOOL that is neither 0 nor 1");
  }

  std::shared_ptr<const State> state_;
};

TENON_NAMESPACE_END
