#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/io/file_map.hpp>

#include <support/temporary_folder.hpp>

#if __has_include(<sys/stat.h>)
#include <sys/stat.h>
#endif
#if __has_include(<unistd.h>)
#include <support/other_user.hpp>
#endif

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::FileError;
using tenon::FileMap;
using tenon_test::TemporaryFolder;

std::string text_of(const FileMap& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

TEST_CASE("FileMap shows the bytes of a file, mapped and read", "[file_map]") {
  const TemporaryFolder folder;
  const std::string content("one\0two\r\n\xff", 10);
  const auto path = folder.write("data.bin", content);
  const FileMap mapped = FileMap::open(path);
  CHECK(text_of(mapped) == content);
  CHECK(mapped.path() == path);
  CHECK(mapped.is_mapped());
  const FileMap read = FileMap::read(path);
  CHECK(text_of(read) == content);
  CHECK_FALSE(read.is_mapped());
  CHECK(tenon::read_text_file(path, 10) == content);
}

TEST_CASE("FileMap can be moved, and keeps its address", "[file_map]") {
  const TemporaryFolder folder;
  for (const bool map : {true, false}) {
    const auto path = folder.write("data.bin", "hello");
    FileMap first = map ? FileMap::open(path) : FileMap::read(path);
    const std::byte* address = first.bytes().data();
    FileMap second(std::move(first));
    CHECK(second.bytes().data() == address);
    CHECK(text_of(second) == "hello");
    FileMap third = FileMap::open(folder.write("other.bin", "x"));
    third = std::move(second);
    CHECK(third.bytes().data() == address);
    CHECK(text_of(third) == "hello");
  }
}

TEST_CASE("FileMap takes an empty file", "[file_map]") {
  const TemporaryFolder folder;
  const auto path = folder.write("empty", "");
  CHECK(FileMap::open(path).bytes().empty());
  CHECK(FileMap::read(path).bytes().empty());
  CHECK(tenon::read_text_file(path, 0).empty());
}

TEST_CASE("FileMap names what is wrong with a path", "[file_map]") {
  const TemporaryFolder folder;
  const auto check = [](const std::filesystem::path& path, const std::string& reason) {
    CHECK_THROWS_AS(FileMap::open(path), FileError);
    CHECK_THROWS_WITH(FileMap::open(path), ContainsSubstring("'" + path.string() + "'") && ContainsSubstring(reason));
    CHECK_THROWS_WITH(FileMap::read(path), ContainsSubstring("'" + path.string() + "'") && ContainsSubstring(reason));
  };
  check(folder.path() / "absent.bin", "there is no such file");
  check(folder.path(), "it is a folder");
  check(folder.write("plain", "x") / "below", "not a folder");
#if __has_include(<sys/stat.h>)
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check(pipe, "not a regular file");
#endif
}

#if __has_include(<unistd.h>)
TEST_CASE("FileMap says that a file may not be read", "[file_map]") {
  const TemporaryFolder folder;
  const auto secret = folder.write("secret", "x");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::others_exec, std::filesystem::perm_options::add);
  const tenon_test::OtherUser user;
  if (!user.obeys()) SKIP("this system does not let root obey permissions");
  CHECK_THROWS_AS(FileMap::open(secret), FileError);
  CHECK_THROWS_WITH(FileMap::open(secret), ContainsSubstring("'" + secret.string() + "': permission denied"));
  CHECK_THROWS_WITH(FileMap::read(secret), ContainsSubstring("'" + secret.string() + "': permission denied"));
}
#endif

TEST_CASE("FileMap notices a file that changed its size", "[file_map]") {
  const TemporaryFolder folder;
  const auto path = folder.write("data.bin", "12345678");
  const FileMap file = FileMap::open(path);
  CHECK_NOTHROW(file.check_unchanged());
  std::filesystem::resize_file(path, 9);
  CHECK_THROWS_WITH(file.check_unchanged(), ContainsSubstring("data.bin") && ContainsSubstring("from 8 to 9 bytes"));
  std::filesystem::remove(path);
  CHECK_THROWS_AS(file.check_unchanged(), FileError);
  CHECK(text_of(file) == "12345678");
}

TEST_CASE("read_text_file keeps to its limit", "[file_map]") {
  const TemporaryFolder folder;
  const auto path = folder.write("text", "12345");
  CHECK(tenon::read_text_file(path, 5) == "12345");
  CHECK_THROWS_AS(tenon::read_text_file(path, 4), FileError);
  CHECK_THROWS_WITH(tenon::read_text_file(path, 4), ContainsSubstring("5 bytes") && ContainsSubstring("at most 4"));
}
