// Operands of operator tests: tensors in every kind of layout, with elements around them that must not be touched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include <tenon/core/dtype.hpp>
#include <tenon/tensor/copy.hpp>
#include <tenon/tensor/view.hpp>

namespace support {

enum class Form {
  contiguous,  ///< row-major
  padded,      ///< rows contiguous, with a gap between them, and starting off any alignment
  transposed,  ///< column-major: the first dimension is the contiguous one
  stepped,     ///< every second element of each row
  reversed,    ///< negative strides
  broadcast    ///< stride 0 in the first dimension; for inputs only
};
inline constexpr std::array<Form, 5> writable_forms{Form::contiguous, Form::padded, Form::transposed, Form::stepped,
                                                    Form::reversed};
inline constexpr std::array<Form, 6> all_forms{Form::contiguous, Form::padded,   Form::transposed,
                                               Form::stepped,    Form::reversed, Form::broadcast};

constexpr std::string_view form_name(Form form) {
  constexpr std::array<std::string_view, 6> names{"contiguous", "padded",   "transposed",
                                                  "stepped",    "reversed", "broadcast"};
  return names[static_cast<std::size_t>(form)];
}

/// Owns the memory of one view. Elements between and around those of the view hold a pattern that `intact` looks for.
template <class T, std::size_t Rank>
class Operand {
 public:
  explicit Operand(const tenon::Sizes<Rank>& sizes, Form form = Form::contiguous) {
    tenon::Sizes<Rank> strides{};
    std::int64_t step = form == Form::stepped ? 2 : 1;
    for (std::size_t i = 0; i < Rank; ++i) {
      const std::size_t dim = form == Form::transposed ? i : Rank - 1 - i;
      strides[dim] = step;
      step *= sizes[dim] > 0 ? sizes[dim] : 1;
      if (i == 0 && (form == Form::padded || form == Form::reversed)) step += 3;
    }
    if (form == Form::broadcast && Rank > 0) strides[0] = 0;
    std::int64_t start = margin;
    if (form == Form::reversed) {
      for (std::size_t i = 0; i < Rank; ++i) {
        strides[i] = -strides[i];
        start -= sizes[i] > 0 ? (sizes[i] - 1) * strides[i] : 0;
      }
    }
    size_ = static_cast<std::size_t>(step + 2 * margin);
    memory_ = std::make_unique_for_overwrite<T[]>(size_);
    std::memset(static_cast<void*>(memory_.get()), pattern, size_ * sizeof(T));
    view_ = {memory_.get() + start, tenon::Layout<Rank>(sizes, strides)};
  }
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  Operand(Operand&&) = default;

  [[nodiscard]] const tenon::View<T, Rank>& view() const { return view_; }
  operator tenon::View<T, Rank>() const { return view_; }
  operator tenon::View<const T, Rank>() const { return view_; }

  /// Sets every element to what `value()` returns, in row-major order.
  template <class Value>
  Operand& fill(Value&& value) {
    each([&](T& x) { x = tenon::detail::convert<T>(value()); });
    return *this;
  }

  /// Uniform values between low and high that T holds exactly.
  Operand& fill(std::mt19937& random, double low = -2.0, double high = 2.0) {
    std::uniform_real_distribution<double> distribution(low, high);
    return fill([&] { return distribution(random); });
  }

  /// All of the memory, the view's elements and what lies around them.
  [[nodiscard]] std::byte* memory() noexcept { return reinterpret_cast<std::byte*>(memory_.get()); }
  [[nodiscard]] const std::byte* memory() const noexcept { return reinterpret_cast<const std::byte*>(memory_.get()); }
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return size_ * sizeof(T); }

  /// Whether everything outside the view still holds its pattern.
  [[nodiscard]] bool intact() const {
    std::vector<bool> inside(size_, false);
    const_cast<Operand*>(this)->each([&](T& x) { inside[static_cast<std::size_t>(&x - memory_.get())] = true; });
    const auto* bytes = reinterpret_cast<const unsigned char*>(memory_.get());
    for (std::size_t i = 0; i < size_ * sizeof(T); ++i) {
      if (!inside[i / sizeof(T)] && bytes[i] != pattern) return false;
    }
    return true;
  }

 private:
  static constexpr std::int64_t margin = 5;  // odd, so that views start off any alignment
  static constexpr unsigned char pattern = 0x5b;

  template <class Body>
  void each(Body&& body) {
    if (view_.empty()) return;
    tenon::Sizes<Rank> index{};
    while (true) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < Rank; ++i) offset += index[i] * view_.stride(i);
      body(view_.data()[offset]);
      std::size_t dim = Rank;
      while (dim > 0 && ++index[dim - 1] == view_.size(dim - 1)) index[--dim] = 0;
      if (dim == 0) return;
    }
  }

  std::unique_ptr<T[]> memory_;
  std::size_t size_ = 0;
  tenon::View<T, Rank> view_;
};

}  // namespace support
