// Storage<Device>: the block of bytes behind tensors. Allocated here, or borrowed from an owner such as a file map.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/math.hpp>

TENON_NAMESPACE_BEGIN

/// Every block starts at a multiple of this many bytes, whatever instruction sets a translation unit was compiled for.
inline constexpr std::size_t storage_alignment = 64;

/// A block of memory with shared ownership: copies refer to the same bytes, which are freed with the last of them.
/// The reference count is thread-safe; the bytes follow the usual rule of C++.
template <DeviceTag Device>
class Storage {
 public:
  Storage() = default;

  /// Memory that `owner` keeps alive, for example a mapped file. `read_only` memory is never handed out as mutable.
  Storage(std::byte* data, std::size_t bytes, std::shared_ptr<const void> owner, bool read_only) noexcept
      : data_(data), bytes_(bytes), owner_(std::move(owner)), read_only_(read_only) {}

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::shared_ptr<const void> owner_;
  bool read_only_ = false;
};

namespace detail {

/// Blocks of this size and more are aligned to a huge page and offered to the kernel as such: reading weights through
/// 4 KiB pages costs bandwidth.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

struct AlignedDelete {
  std::size_t alignment;
  void operator()(std::byte* block) const noexcept { ::operator delete (block, std::align_val_t{alignment}); }
};

/// Uninitialised memory of the CPU. Pages are not touched, so memory that is never written costs nothing.
/// Throws Error where the memory cannot be had.
inline Storage<Cpu> allocate_host_block(std::size_t bytes) {
  const std::size_t alignment = bytes >= huge_page_bytes ? huge_page_bytes : storage_alignment;
  // A little longer than asked, so that a vector load may start inside and end outside. No object is larger than half of
  // the address space; the aligned operator new of some libraries would round such a size up to zero.
  void* block = bytes > std::numeric_limits<std::size_t>::max() / 2
                    ? nullptr
                    : ::operator new (align_up(bytes + storage_alignment, storage_alignment),
                                      std::align_val_t{alignment}, std::nothrow);
  if (block == nullptr) throw Error("cannot allocate " + std::to_string(bytes) + " bytes of CPU memory");
  auto* data = static_cast<std::byte*>(block);
#ifdef __linux__
  if (alignment == huge_page_bytes) ::madvise(data, bytes, MADV_HUGEPAGE);
#endif
  std::shared_ptr<std::byte> owner(data, AlignedDelete{alignment});
  return Storage<Cpu>(data, bytes, std::move(owner), false);
}

}  // namespace detail

/// Memory for a tensor on the device of the context. Throws Error where it cannot be had.
inline Storage<Cpu> allocate_storage(Context<Cpu>&, std::size_t bytes) { return detail::allocate_host_block(bytes); }

TENON_NAMESPACE_END
