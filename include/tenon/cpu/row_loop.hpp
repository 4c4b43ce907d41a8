// RowLoop: walks several tensors of one shape together, as few long rows as their strides allow.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <tenon/core/config.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/tensor/layout.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// The shape of an element-wise operation on N operands, with dimensions of size 1 dropped, the others ordered by the
/// strides of operand 0 (the output), and neighbours merged where all operands allow it. A row is the last dimension.
template <std::size_t N, std::size_t Rank>
class RowLoop {
 public:
  using Offsets = std::array<std::int64_t, N>;

  struct Dim {
    std::int64_t size = 1;
    Offsets strides{};
  };

  RowLoop(const Sizes<Rank>& sizes, const std::array<Sizes<Rank>, N>& strides) {
    std::array<std::size_t, Rank + 1> order{};
    std::size_t rank = 0;
    for (std::size_t i = 0; i < Rank; ++i) {
      count_ *= sizes[i];
      if (sizes[i] == 1) continue;
      // Insertion keeps equal strides in order, and needs no memory.
      std::size_t at = rank++;
      for (; at > 0 && std::abs(strides[0][order[at - 1]]) < std::abs(strides[0][i]); --at) order[at] = order[at - 1];
      order[at] = i;
    }
    if (count_ == 0) rank = 0;  // nothing to walk, and strides of empty tensors may be anything
    for (std::size_t i = 0; i < rank; ++i) {
      Dim dim;
      dim.size = sizes[order[i]];
      for (std::size_t k = 0; k < N; ++k) dim.strides[k] = strides[k][order[i]];
      bool merges = rank_ > 0;
      for (std::size_t k = 0; merges && k < N; ++k) merges = dims_[rank_ - 1].strides[k] == dim.size * dim.strides[k];
      if (merges) {
        dim.size *= dims_[rank_ - 1].size;
        dims_[rank_ - 1] = dim;
      } else {
        dims_[rank_++] = dim;
      }
    }
    if (rank_ == 0) {
      rank_ = 1;
      dims_[0].size = 1;
      dims_[0].strides.fill(1);
    }
  }

  /// Elements in all.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// Dimensions left after merging, at least 1, and each of them.
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] const Dim& dim(std::size_t i) const noexcept { return dims_[i]; }
  /// Distance of neighbours in a row, for each operand.
  [[nodiscard]] const Offsets& strides() const noexcept { return dims_[rank_ - 1].strides; }
  [[nodiscard]] bool rows_are_contiguous() const noexcept {
    return std::all_of(strides().begin(), strides().end(), [](std::int64_t s) { return s == 1; });
  }

  /// Calls `body(offsets, n)` for stretches of rows that cover all elements: operand k's stretch begins offsets[k]
  /// after its first element. Threads get pieces of at least `grain` elements.
  template <class Body>
  void run(Context<Cpu>& ctx, std::int64_t grain, Body&& body) const {
    parallel_for(ctx, count_, grain, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t row = dims_[rank_ - 1].size;
      std::array<std::int64_t, Rank + 1> index{};
      std::int64_t rest = begin;
      for (std::size_t i = rank_; i-- > 0;) {
        index[i] = rest % dims_[i].size;
        rest /= dims_[i].size;
      }
      while (begin < end) {
        Offsets offsets{};
        for (std::size_t i = 0; i < rank_; ++i) {
          for (std::size_t k = 0; k < N; ++k) offsets[k] += index[i] * dims_[i].strides[k];
        }
        const std::int64_t n = std::min(row - index[rank_ - 1], end - begin);
        body(offsets, n);
        begin += n;
        index[rank_ - 1] = 0;
        for (std::size_t i = rank_ - 1; i-- > 0;) {
          if (++index[i] < dims_[i].size) break;
          index[i] = 0;
        }
      }
    });
  }

 private:
  std::array<Dim, Rank + 1> dims_{};
  std::size_t rank_ = 0;
  std::int64_t count_ = 1;
};

template <std::size_t N, std::size_t Rank>
RowLoop(const Sizes<Rank>&, const std::array<Sizes<Rank>, N>&) -> RowLoop<N, Rank>;

}  // namespace detail
TENON_NAMESPACE_END
