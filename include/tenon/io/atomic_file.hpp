// Writing files so that a reader sees the old content or the new, and never a half of it.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#if __has_include(<unistd.h>)
#include <fcntl.h>
#include <unistd.h>
#endif

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/file_map.hpp>

TENON_NAMESPACE_BEGIN

/// A file being written: the bytes go to a temporary file in the same folder, and `commit` puts it in the place of
/// `path` in one step. An object that is destroyed before `commit`, or whose `write` or `commit` threw, leaves what was
/// at `path` as it was and removes the temporary. A symbolic link is followed. Where `path` is a device or a pipe
/// there is nothing to replace: the bytes are written straight to it.
/// A limit on the size of files (RLIMIT_FSIZE) is an error like any other only where the program ignores SIGXFSZ; else
/// that signal ends the process before `write` can say anything. One thread at a time may use an object.
class AtomicFile {
 public:
  /// Throws FileError if the folder is missing or may not be written, or if `path` is a folder or a file
  /// that may not be written.
  explicit AtomicFile(const std::filesystem::path& path) : target_(path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::is_directory(status)) detail::throw_file_error(path, "write", EISDIR);
    if (std::filesystem::exists(status)) {
      if (std::filesystem::is_regular_file(status)) {
        permissions_ = status.permissions();
        const auto resolved = std::filesystem::canonical(path, error);
        if (!error) target_ = resolved;
        check_writable();
      } else {
        file_.reset(open_checked(path, "wb"));
        return;
      }
    }
    std::random_device random;
    for (int attempt = 0; !file_; ++attempt) {
      // Short, whatever the file is called: a name may be as long as the file system takes, and then has no room.
      temporary_ = target_;
      temporary_.replace_filename(".tmp" + std::to_string(random()));
      errno = 0;
      file_.reset(std::fopen(temporary_.string().c_str(), "wbx"));  // x: never somebody else's file
      if (!file_ && (errno != EEXIST || attempt == 100)) {
        const int reason = errno;
        temporary_.clear();
        detail::throw_file_error(path, "write", reason);
      }
    }
    if (permissions_ != std::filesystem::perms::unknown) {
      std::filesystem::permissions(temporary_, permissions_, error);  // keep what the old file had, where possible
    }
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() { abandon(); }

  /// Appends. Throws FileError with the reason (no space left, a limit, …); the temporary file is gone then.
  void write(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    errno = 0;
    if (!file_ || std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail();
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Flushes to the device and renames into place. Throws FileError, and then nothing has changed at the path.
  void commit() {
    errno = 0;
    if (!file_ || std::fflush(file_.get()) != 0) fail();
#if __has_include(<unistd.h>)
    // Devices and pipes have nothing to synchronise.
    if (::fsync(::fileno(file_.get())) != 0 && !temporary_.empty()) fail();
#endif
    errno = 0;
    if (std::fclose(file_.release()) != 0) fail();
    if (temporary_.empty()) return;
    // Within one folder a rename replaces the name in one step.
    std::error_code error;
    std::filesystem::rename(temporary_, target_, error);
    if (error) {
      const int reason = error.value();
      abandon();
      detail::throw_file_error(target_, "write", reason);
    }
    temporary_.clear();
  }

 private:
  /// Errors of this close do not matter: commit has closed the file itself where they do.
  struct Closer {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  /// A rename asks the folder, not the file: without this check a file that its owner has protected would be replaced.
  void check_writable() const {
#if __has_include(<unistd.h>) && defined(AT_EACCESS)
    errno = 0;
    if (::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) {
      detail::throw_file_error(target_, "write", errno);
    }
#endif
  }

  /// For devices and pipes, which exist.
  static std::FILE* open_checked(const std::filesystem::path& path, const char* mode) {
    errno = 0;
    std::FILE* file = std::fopen(path.string().c_str(), mode);
    if (file == nullptr) detail::throw_file_error(path, "write", errno);
    return file;
  }

  /// Back to the state before: closed, and no temporary file.
  void abandon() noexcept {
    file_.reset();
    if (temporary_.empty()) return;
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
    temporary_.clear();
  }

  /// The sentence for the errno of the call that just failed. EIO stands in where a library gave no reason.
  [[noreturn]] void fail() {
    const int reason = errno != 0 ? errno : EIO;
    abandon();
    detail::throw_file_error(target_, "write", reason);
  }

  std::filesystem::path target_;     // what `path` leads to
  std::filesystem::path temporary_;  // empty: nothing to rename or remove
  std::filesystem::perms permissions_ = std::filesystem::perms::unknown;
  std::unique_ptr<std::FILE, Closer> file_;
};

/// Replaces the content of `path` in one step. Throws FileError with the reason (missing folder, no permission, full
/// disk, …), and then `path` is what it was before and no temporary file is left.
inline void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

/// The same for text.
inline void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

TENON_NAMESPACE_END
