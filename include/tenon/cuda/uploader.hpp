// Uploader<Cuda>: from mapped files through pinned memory to the device, in pieces that several threads fill while others
// are on their way.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/copy.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/runtime/uploader.hpp>
#include <tenon/tensor/create.hpp>

TENON_NAMESPACE_BEGIN

/// Every element crosses once, converted on the way by the CPU where the dtype has to change. Errors of a copy are
/// thrown by a later call, `finish` at the latest.
template <>
class Uploader<Cuda> {
 public:
  explicit Uploader(Context<Cuda>& ctx, std::int64_t total = 0, LoadProgress progress = {})
      : ctx_(ctx),
        host_(std::min(default_thread_count(), most_threads)),
        total_(total),
        progress_(std::move(progress)) {}
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;
  /// Pinned memory must not go while copies read it.
  ~Uploader() { static_cast<void>(cudaStreamSynchronize(ctx_.stream())); }

  template <class W, std::size_t Rank>
  [[nodiscard]] Tensor<const W, Rank, Cuda> upload(const AnyTensor& source) {
    return join<W, Rank>(std::span<const AnyTensor>(&source, 1));
  }

  /// Tensors that differ in their first size at most, one below the other.
  template <class W, std::size_t Rank>
  [[nodiscard]] Tensor<const W, Rank, Cuda> join(std::span<const AnyTensor> sources) {
    Sizes<Rank> sizes{};
    bool is_first = true;
    for (const AnyTensor& source : sources) {
      if (source.rank() != Rank)
        throw ShapeError("upload: shape " + shape_string(source.sizes()) + " has another rank");
      const std::int64_t above = sizes[0];
      for (std::size_t i = 0; i < Rank; ++i) {
        if (i > 0 && !is_first && source.sizes()[i] != sizes[i]) {
          throw ShapeError("upload: shape " + shape_string(source.sizes()) + " does not join to " +
                           shape_string(sizes));
        }
        sizes[i] = source.sizes()[i];
      }
      sizes[0] += above;
      is_first = false;
    }
    auto result = empty<W>(ctx_, sizes);
    auto* to = reinterpret_cast<std::byte*>(result.data());
    for (const AnyTensor& source : sources) {
      copy_in(source.contiguous(host_), dtype_of<W>, to);
      to += static_cast<std::size_t>(source.numel()) * sizeof(W);
    }
    return result;
  }

  /// The elements of `source`, row-major, to device memory at `to`.
  void copy(std::byte* to, const AnyTensor& source) { copy_in(source.contiguous(host_), source.dtype(), to); }

  /// Waits until everything is on the device.
  void finish() {
    ctx_.synchronize();
    if (progress_ && total_ > 0) progress_(total_, total_);
  }

 private:
  static constexpr int most_threads = 8;  // a guess: with 8, 3.5 GB take 0.15 s from the page cache
  static constexpr std::size_t piece_bytes = std::size_t{8} << 20;

  /// Pinned memory, and the point at which the copy out of it is done.
  struct Piece {
    Storage<Cpu> memory;
    Event<Cuda> done;
  };

  void copy_in(const AnyTensor& source, DType dtype, std::byte* to) {
    const auto device = ctx_.activate();
    if (pieces_.empty()) {
      for (int i = 0; i < 4; ++i) pieces_.push_back({Runtime<Cuda>::allocate_pinned(piece_bytes), {}});
    }
    const std::size_t from_size = dtype_size(source.dtype());
    const std::size_t to_size = dtype_size(dtype);
    const auto per_piece = static_cast<std::int64_t>(piece_bytes / to_size);
    for (std::int64_t begin = 0; begin < source.numel(); begin += per_piece) {
      const std::int64_t count = std::min(per_piece, source.numel() - begin);
      Piece& piece = pieces_[next_++ % pieces_.size()];
      piece.done.synchronize();
      std::byte* pinned = piece.memory.data();
      const std::byte* from = source.data() + static_cast<std::size_t>(begin) * from_size;
      parallel_for(host_, count, std::int64_t{1} << 16, [&](std::int64_t first, std::int64_t last) {
        detail::convert_run(dtype, pinned + static_cast<std::size_t>(first) * to_size, source.dtype(),
                            from + static_cast<std::size_t>(first) * from_size, 1, last - first);
      });
      detail::check_cuda(
          cudaMemcpyAsync(to + static_cast<std::size_t>(begin) * to_size, pinned,
                          static_cast<std::size_t>(count) * to_size, cudaMemcpyHostToDevice, ctx_.stream()),
          "copying weights to the device");
      piece.done.record(ctx_.stream());
      done_ += count * static_cast<std::int64_t>(from_size);
      if (progress_ && total_ > 0) progress_(std::min(done_, total_), total_);
    }
  }

  Context<Cuda>& ctx_;
  Context<Cpu> host_;
  std::vector<Piece> pieces_;
  std::size_t next_ = 0;
  std::int64_t done_ = 0;
  std::int64_t total_;
  LoadProgress progress_;
};

TENON_NAMESPACE_END
