// Workspace: scratch memory of a context. A bump allocator: allocating is an addition, freeing is forgetting.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/math.hpp>
#include <tenon/tensor/storage.hpp>

TENON_NAMESPACE_BEGIN

/// Scratch memory that operators take in nested scopes. It grows to what the deepest call needs and then allocates
/// nothing more. One thread at a time, like the context it belongs to. On a device whose work is asynchronous, memory is
/// taken and given back in the order of the context's stream.
template <DeviceTag Device>
class BasicWorkspace {
  struct Mark {
    std::size_t block = 0;
    std::size_t used = 0;
  };

 public:
  /// What is allocated through a Scope is valid until the Scope ends. Scopes end in reverse order of their start.
  class Scope {
   public:
    explicit Scope(BasicWorkspace& workspace) noexcept : workspace_(workspace), mark_(workspace.top_) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { workspace_.release(mark_); }

    /// `count` uninitialised elements, aligned to 64 bytes, on a GPU to 256.
    template <class T>
    [[nodiscard]] T* allocate(std::size_t count) {
      const auto bytes = checked_mul(count, sizeof(T));
      if (!bytes || *bytes > std::numeric_limits<std::size_t>::max() / 2)
        throw Error("workspace: more bytes asked for than there are addresses");
      return reinterpret_cast<T*>(workspace_.take(*bytes));
    }
    /// The same for a count that is a size of a tensor.
    template <class T>
    [[nodiscard]] T* allocate(std::int64_t count) {
      return allocate<T>(static_cast<std::size_t>(count));
    }

   private:
    BasicWorkspace& workspace_;
    Mark mark_;
  };

  /// Gives a block of at least so many bytes, or throws Error.
  using Allocate = std::function<Storage<Device>(std::size_t)>;

  explicit BasicWorkspace(Allocate allocate) : allocate_(std::move(allocate)) {}
  BasicWorkspace() requires(std::same_as<Device, Cpu>) : BasicWorkspace(detail::allocate_host_block) {}
  BasicWorkspace(const BasicWorkspace&) = delete;
  BasicWorkspace& operator=(const BasicWorkspace&) = delete;
  ~BasicWorkspace() = default;

  [[nodiscard]] Scope scope() noexcept { return Scope(*this); }

  /// Bytes that the workspace holds, used or not.
  [[nodiscard]] std::size_t capacity() const noexcept {
    std::size_t sum = 0;
    for (const Storage<Device>& block : blocks_) sum += block.bytes();
    return sum;
  }

 private:
  static constexpr std::size_t alignment = std::same_as<Device, Cpu> ? storage_alignment : 256;
  static constexpr std::size_t smallest_block = std::size_t{256} << 10;

  std::byte* take(std::size_t bytes) {
    bytes = align_up(bytes, alignment);
    if (top_.block < blocks_.size() && blocks_[top_.block].bytes() - top_.used < bytes) {
      ++top_.block;  // what is left of this block stays unused until the scope ends
      top_.used = 0;
    }
    if (top_.block == blocks_.size() || blocks_[top_.block].bytes() < bytes) {
      // Blocks from here on are unused: replace them by one that is large enough.
      blocks_.resize(top_.block);
      blocks_.push_back(grown(bytes));
      top_ = {blocks_.size() - 1, 0};
    }
    std::byte* result = blocks_[top_.block].data() + top_.used;
    top_.used += bytes;
    return result;
  }

  /// More than asked for, so that there are few blocks, unless memory is short.
  Storage<Device> grown(std::size_t bytes) {
    const std::size_t wanted = std::max({bytes, smallest_block, 2 * capacity()});
    if (wanted == bytes) return allocate_(bytes);
    try {
      return allocate_(wanted);
    } catch (const Error&) {
      return allocate_(bytes);
    }
  }

  void release(Mark mark) noexcept {
    top_ = mark;
    if (mark.block == 0 && mark.used == 0 && blocks_.size() > 1) merge();
  }

  /// Outside every scope: one block instead of several, so that the next round needs a single one.
  void merge() noexcept {
    const std::size_t size = capacity();
    blocks_.clear();
    try {
      blocks_.push_back(allocate_(size));
    } catch (...) {
      blocks_.clear();  // memory is short: the next call asks for what it needs
    }
  }

  Allocate allocate_;
  std::vector<Storage<Device>> blocks_;
  Mark top_;
};

/// The workspace of Context<Cpu>.
using Workspace = BasicWorkspace<Cpu>;

TENON_NAMESPACE_END
