#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/io/atomic_file.hpp>

#include <support/temporary_folder.hpp>

#if __has_include(<sys/resource.h>)
#include <sys/resource.h>
#endif
#if __has_include(<unistd.h>)
#include <support/other_user.hpp>
#endif

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::FileError;
using tenon::write_file_atomically;
using tenon_test::slurp;
using tenon_test::TemporaryFolder;

#if __has_include(<sys/resource.h>)
/// Files of this process cannot grow beyond `bytes` while it lives: a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};
#endif

}  // namespace

TEST_CASE("write_file_atomically creates and replaces", "[atomic_file]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "chat.json";
  write_file_atomically(path, "first");
  CHECK(slurp(path) == "first");
  const std::string large(1 << 20, 'x');
  write_file_atomically(path, large);
  CHECK(slurp(path) == large);
  write_file_atomically(path, "");
  CHECK(slurp(path).empty());
  CHECK(folder.entries() == 1);
}

TEST_CASE("AtomicFile changes nothing before commit", "[atomic_file]") {
  const TemporaryFolder folder;
  const auto path = folder.write("data", "old");
  {
    tenon::AtomicFile file(path);
    file.write("new and unfinished");
    CHECK(slurp(path) == "old");
  }
  CHECK(slurp(path) == "old");
  CHECK(folder.entries() == 1);
  {
    tenon::AtomicFile file(path);
    file.write("ne");
    file.write("w");
    file.commit();
  }
  CHECK(slurp(path) == "new");
  CHECK(folder.entries() == 1);
}

TEST_CASE("A file may have the longest name that there is", "[atomic_file]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / std::string(255, 'n');
  write_file_atomically(path, "first");
  write_file_atomically(path, "second");
  CHECK(slurp(path) == "second");
  CHECK(folder.entries() == 1);
}

TEST_CASE("write_file_atomically keeps permissions and follows links", "[atomic_file]") {
  using std::filesystem::perms;
  const TemporaryFolder folder;
  const auto path = folder.write("data", "old");
  std::filesystem::permissions(path, perms::owner_read | perms::owner_write);
  const auto link = folder.path() / "link";
  std::filesystem::create_symlink("data", link);
  write_file_atomically(link, "new");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(slurp(path) == "new");
  CHECK(std::filesystem::status(path).permissions() == (perms::owner_read | perms::owner_write));
}

TEST_CASE("write_file_atomically says why it cannot write", "[atomic_file]") {
  const TemporaryFolder folder;
  const auto absent = folder.path() / "absent" / "file";
  CHECK_THROWS_AS(write_file_atomically(absent, "x"), FileError);
  CHECK_THROWS_WITH(write_file_atomically(absent, "x"),
                    ContainsSubstring("'" + absent.string() + "'") && ContainsSubstring("no such file or folder"));
  CHECK_THROWS_WITH(write_file_atomically(folder.path(), "x"), ContainsSubstring("it is a folder"));
  CHECK(folder.entries() == 0);
}

#if __has_include(<unistd.h>)
TEST_CASE("write_file_atomically says that it may not write", "[atomic_file]") {
  using std::filesystem::perms;
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), perms::owner_read | perms::owner_exec | perms::others_exec);
  {
    const tenon_test::OtherUser user;
    if (!user.obeys()) SKIP("this system does not let root obey permissions");
    CHECK_THROWS_WITH(write_file_atomically(folder.path() / "file", "x"), ContainsSubstring("permission denied"));
  }
  std::filesystem::permissions(folder.path(), perms::owner_all);
  CHECK(folder.entries() == 0);
}

TEST_CASE("write_file_atomically leaves a protected file in an open folder alone", "[atomic_file]") {
  using std::filesystem::perms;
  const TemporaryFolder folder;
  const auto path = folder.write("data", "old");
  std::filesystem::permissions(path, perms::owner_read | perms::group_read | perms::others_read);
  std::filesystem::permissions(folder.path(), perms::all);
  {
    const tenon_test::OtherUser user;
    if (!user.obeys()) SKIP("this system does not let root obey permissions");
    CHECK_THROWS_AS(write_file_atomically(path, "new"), FileError);
    CHECK_THROWS_WITH(write_file_atomically(path, "new"),
                      ContainsSubstring("'" + path.string() + "'") && ContainsSubstring("permission denied"));
    write_file_atomically(folder.path() / "other", "new");  // the folder itself is open
  }
  CHECK(slurp(path) == "old");
  CHECK(folder.entries() == 2);
}
#endif

#if __has_include(<sys/resource.h>)
TEST_CASE("a full disk leaves the old file and no other", "[atomic_file]") {
  const TemporaryFolder folder;
  const auto path = folder.write("data", "old");
  const std::string large(1 << 20, 'x');
  const std::string small(9000, 'y');  // more than the limit, less than the buffer may hold
  {
    const FileSizeLimit limit(4096);
    CHECK_THROWS_AS(write_file_atomically(path, large), FileError);
    CHECK_THROWS_WITH(write_file_atomically(path, small), ContainsSubstring("'" + path.string() + "'"));
    CHECK_THROWS_AS(write_file_atomically(folder.path() / "other", large), FileError);
  }
  CHECK(slurp(path) == "old");
  CHECK(folder.entries() == 1);
  write_file_atomically(path, large);
  CHECK(slurp(path) == large);
}
#endif

TEST_CASE("a device is written to and not replaced", "[atomic_file]") {
  const std::filesystem::path full = "/dev/full";
  if (!std::filesystem::is_character_file(full)) SKIP("this system has no /dev/full");
  CHECK_THROWS_AS(write_file_atomically(full, "x"), FileError);
  CHECK_THROWS_WITH(write_file_atomically(full, "x"),
                    ContainsSubstring("'/dev/full'") && ContainsSubstring("no space is left"));
  CHECK(std::filesystem::is_character_file(full));
  CHECK_NOTHROW(write_file_atomically("/dev/null", "x"));
  CHECK(std::filesystem::is_character_file("/dev/null"));
}
