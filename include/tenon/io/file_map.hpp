// Read-only access to whole files: mapped where the system can, read into memory elsewhere.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#if __has_include(<sys/mman.h>)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// Paths stand in single quotes in every message.
inline std::string quoted(const std::filesystem::path& path) {
  std::string text = "'";
  return text.append(path.string()).append("'");
}

/// One sentence for an errno value; `action` continues "cannot", for example "read" or "write".
[[noreturn]] inline void throw_file_error(const std::filesystem::path& path, const char* action, int error) {
  std::string reason;
  switch (error) {
    case ENOENT: reason = "there is no such file or folder"; break;
    case ENOTDIR: reason = "a part of the path is not a folder"; break;
    case EISDIR: reason = "it is a folder"; break;
    case EACCES:
    case EPERM: reason = "permission denied"; break;
    case ENOSPC: reason = "no space is left on the device"; break;
    case EFBIG: reason = "the file is larger than the system allows"; break;
    default: reason = std::generic_category().message(error); break;
  }
  throw FileError(std::string("cannot ") + action + " " + quoted(path) + ": " + reason);
}

/// Devices, pipes and sockets have no size that could be trusted.
[[noreturn]] inline void throw_not_regular(const std::filesystem::path& path) {
  throw FileError("cannot read " + quoted(path) + ": it is not a regular file");
}

/// Sizes in bytes.
[[noreturn]] inline void throw_size_changed(const std::filesystem::path& path, std::uintmax_t before,
                                            std::uintmax_t now) {
  throw FileError("the file " + quoted(path) + " changed its size from " + std::to_string(before) + " to " +
                  std::to_string(now) + " bytes while it was in use");
}

}  // namespace detail

/// The bytes of one file, read-only, for as long as the object lives. Moving keeps the address of the bytes.
/// Threads may read the bytes at the same time. As with every mapping, cutting the file short while it is in use makes
/// the pages behind the new end unreadable: replace model files by renaming, as `AtomicFile` does.
class FileMap {
 public:
  /// Maps `path`. An empty file gives no bytes. Throws FileError if the path is not there, is a folder or anything else
  /// that is not a regular file, or may not be read.
  static FileMap open(const std::filesystem::path& path);

  /// Reads `path` into memory instead (at most `max_bytes`): what `open` does where there is no mmap, and the choice
  /// for small files that somebody may edit at any time.
  static FileMap read(const std::filesystem::path& path,
                      std::uintmax_t max_bytes = std::numeric_limits<std::uintmax_t>::max());

  /// No file, no bytes.
  FileMap() = default;
  FileMap(FileMap&& other) noexcept { swap(other); }
  FileMap& operator=(FileMap&& other) noexcept {
    FileMap moved(std::move(other));
    swap(moved);
    return *this;
  }
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;
  ~FileMap() { release(); }

  /// The content. Mapped bytes start at a page, read ones at a multiple of 16: enough for every element type.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// False for empty files and for those that were read.
  [[nodiscard]] bool is_mapped() const noexcept { return mapped_; }

  /// Throws FileError if the file behind the path is gone or has another size now.
  void check_unchanged() const {
    std::error_code error;
    const std::uintmax_t now = std::filesystem::file_size(path_, error);
    if (error) detail::throw_file_error(path_, "read", error.value());
    if (now != size_) detail::throw_size_changed(path_, size_, now);
  }

 private:
  void swap(FileMap& other) noexcept {
    path_.swap(other.path_);
    buffer_.swap(other.buffer_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
  }
  /// Unmaps; memory that was read frees itself.
  void release() noexcept;

  std::filesystem::path path_;
  std::unique_ptr<std::byte[]> buffer_;  // only if the file was read
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
};

#if __has_include(<sys/mman.h>)
namespace detail {
/// Closes a descriptor at the end of a scope.
struct DescriptorGuard {
  explicit DescriptorGuard(int descriptor) noexcept : value(descriptor) {}
  DescriptorGuard(const DescriptorGuard&) = delete;
  DescriptorGuard& operator=(const DescriptorGuard&) = delete;
  ~DescriptorGuard() {
    if (value >= 0) ::close(value);
  }
  int value;
};
}  // namespace detail

inline FileMap FileMap::open(const std::filesystem::path& path) {
  // The descriptor is closed at the end: a mapping needs none.
  // O_NONBLOCK: opening a named pipe must give the error below, not wait for a writer.
  const detail::DescriptorGuard file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.value < 0) detail::throw_file_error(path, "read", errno);
  struct stat status {};
  if (::fstat(file.value, &status) != 0) detail::throw_file_error(path, "read", errno);
  if (S_ISDIR(status.st_mode)) detail::throw_file_error(path, "read", EISDIR);
  if (!S_ISREG(status.st_mode)) detail::throw_not_regular(path);

  FileMap result;
  result.path_ = path;
  if (status.st_size == 0) return result;  // mmap refuses an empty range
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value, 0);
  if (address == MAP_FAILED) {
    if (errno == ENODEV) return read(path);  // some file systems cannot map
    detail::throw_file_error(path, "map", errno);
  }
  result.data_ = static_cast<const std::byte*>(address);
  result.size_ = size;
  result.mapped_ = true;
  return result;
}

inline void FileMap::release() noexcept {
  if (mapped_) ::munmap(const_cast<std::byte*>(data_), size_);
}
#else
inline FileMap FileMap::open(const std::filesystem::path& path) { return read(path); }
inline void FileMap::release() noexcept {}
#endif

inline FileMap FileMap::read(const std::filesystem::path& path, std::uintmax_t max_bytes) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) detail::throw_file_error(path, "read", error ? error.value() : ENOENT);
  if (std::filesystem::is_directory(status)) detail::throw_file_error(path, "read", EISDIR);
  if (!std::filesystem::is_regular_file(status)) detail::throw_not_regular(path);
  // The size is asked first, so that a file that is too large costs nothing.
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) detail::throw_file_error(path, "read", error.value());
  if (size > max_bytes) {
    throw FileError("the file " + detail::quoted(path) + " has " + std::to_string(size) + " bytes, and at most " +
                    std::to_string(max_bytes) + " are allowed here");
  }
  if (size > std::numeric_limits<std::size_t>::max()) detail::throw_file_error(path, "read", EFBIG);

  struct Closer {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  errno = 0;
  const std::unique_ptr<std::FILE, Closer> file(std::fopen(path.string().c_str(), "rb"));
  if (!file) detail::throw_file_error(path, "read", errno);

  FileMap result;
  result.path_ = path;
  result.size_ = static_cast<std::size_t>(size);
  result.buffer_ = std::make_unique<std::byte[]>(result.size_ + 1);
  result.data_ = result.size_ == 0 ? nullptr : result.buffer_.get();
  // One byte more than expected: a file that grew is noticed as well as one that shrank.
  errno = 0;
  const std::size_t got = std::fread(result.buffer_.get(), 1, result.size_ + 1, file.get());
  if (std::ferror(file.get()) != 0) detail::throw_file_error(path, "read", errno);
  if (got != result.size_) detail::throw_size_changed(path, size, got);
  return result;
}

/// True unless nothing is at `path`; a dangling link counts as something, so that opening it reports the link.
inline bool path_is_taken(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  return status.type() != std::filesystem::file_type::not_found;
}

/// The whole file as text, as it is: no decoding, no change of line ends. Throws FileError where `FileMap::read` does.
inline std::string read_text_file(const std::filesystem::path& path, std::uintmax_t max_bytes) {
  const FileMap file = FileMap::read(path, max_bytes);
  return file.size() == 0 ? std::string()
                          : std::string(reinterpret_cast<const char*>(file.bytes().data()), file.size());
}

TENON_NAMESPACE_END
