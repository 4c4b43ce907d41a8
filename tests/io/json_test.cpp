#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/io/json.hpp>

#include <support/temporary_folder.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::FileError;
using tenon::FormatError;
using tenon::JsonFields;
using tenon::parse_json;

void check_refused(const std::string& text, const std::string& reason) {
  CAPTURE(text.substr(0, 100), reason);
  CHECK_THROWS_AS(parse_json(text, "some.json"), FormatError);
  CHECK_THROWS_WITH(parse_json(text, "some.json"), ContainsSubstring("'some.json'") && ContainsSubstring(reason));
}

}  // namespace

TEST_CASE("parse_json takes valid texts, with a byte order mark too", "[json]") {
  CHECK(parse_json("{\"a\": [1, 2.5, \"x\", null, true]}", "t").at("a").size() == 5);
  CHECK(parse_json("\xEF\xBB\xBF{\"a\": 1}\r\n", "t").at("a") == 1);
  CHECK(parse_json("{\"a\": {\"x\": 1}, \"b\": {\"x\": 2}}", "t").at("b").at("x") == 2);
}

TEST_CASE("parse_json explains what is wrong in one line", "[json]") {
  check_refused("", "it is empty");
  check_refused(" \n", "it is empty");
  check_refused("{\"a\": }", "line 1, column 7");
  check_refused("{\n\"a\": 1,\n}", "line 3");
  check_refused("{} x", "not valid JSON");
  check_refused("{\"a\": NaN}", "not valid JSON");
  check_refused("{\"a\": 1e999}", "not valid JSON");
  check_refused("{\"a\": \"\xff\"}", "not valid JSON");
  check_refused("{\"a\": 1, \"b\": {}, \"a\": 2}", "the key 'a' appears twice");
  check_refused(std::string("{}\0{}", 5), "zero byte at offset 2");
  check_refused(std::string("\0", 1), "zero byte at offset 0");
  try {
    parse_json("{\"a\n\x1b[31m" + std::string(10'000, 'b'), "some.json");
    FAIL("accepted");
  } catch (const FormatError& error) {
    const std::string text = error.what();
    CHECK(text.size() < 400);
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("parse_json survives depth bombs", "[json]") {
  check_refused(std::string(100'000, '['), "nested more than 128 levels deep");
  check_refused(std::string(100'000, '[') + std::string(100'000, ']'), "nested more than 128 levels deep");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  check_refused(objects, "nested more than 128 levels deep");
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK_NOTHROW(parse_json(nested(128), "t"));
  check_refused(nested(129), "nested more than 128 levels deep");
}

TEST_CASE("parse_json keeps to its limits", "[json]") {
  tenon::JsonLimits limits;
  limits.max_bytes = 10;
  CHECK_NOTHROW(parse_json("[1,2,3,45]", "t", limits));
  CHECK_THROWS_AS(parse_json("[1,2,3,456]", "t", limits), FormatError);
  limits.reject_duplicate_keys = false;
  limits.max_bytes = 100;
  CHECK(parse_json("{\"a\":1,\"a\":2}", "t", limits).size() == 1);
  const tenon_test::TemporaryFolder folder;
  const auto path = folder.write("large.json", std::string(101, ' '));
  CHECK_THROWS_AS(tenon::read_json_file(path, limits), FileError);
  CHECK_THROWS_AS(tenon::read_json_file(folder.path() / "absent.json"), FileError);
}

TEST_CASE("JsonFields names the file and the field", "[json]") {
  const nlohmann::json document = parse_json(
      R"({"int":7,"float":7.0,"text":"x","none":null,"yes":true,"list":[1,2],"mixed":[1,"a"],"words":["a","b"],
          "big":18446744073709551615,"negative":-3,"inner":{"n":"s"}})",
      "t");
  const JsonFields fields(document, "dir/t.json");
  CHECK(fields.integer("int") == 7);
  CHECK(fields.integer("negative") == -3);
  CHECK(fields.number("int") == 7.0);
  CHECK(fields.number("float") == 7.0);
  CHECK(fields.string("text") == "x");
  CHECK(fields.optional_boolean("yes") == true);
  CHECK(fields.integer_list("list") == std::vector<std::int64_t>{1, 2});
  CHECK(fields.integer_list("int") == std::vector<std::int64_t>{7});
  CHECK(fields.string_list("words") == std::vector<std::string>{"a", "b"});
  CHECK(fields.contains("none"));
  for (const char* key : {"none", "absent"}) {
    CHECK(fields.find(key) == nullptr);
    CHECK_FALSE(fields.optional_integer(key));
    CHECK_FALSE(fields.optional_number(key));
    CHECK_FALSE(fields.optional_boolean(key));
    CHECK_FALSE(fields.optional_string(key));
    CHECK_FALSE(fields.optional_object(key));
    CHECK(fields.integer_list(key).empty());
    CHECK(fields.string_list(key).empty());
    CHECK_THROWS_WITH(fields.integer(key),
                      ContainsSubstring("'dir/t.json': field '" + std::string(key) + "' is missing"));
    CHECK_THROWS_WITH(fields.string(key), ContainsSubstring("is missing"));
    CHECK_THROWS_WITH(fields.number(key), ContainsSubstring("is missing"));
  }
  CHECK_THROWS_WITH(fields.integer("float"), ContainsSubstring("field 'float' must be an integer, but is 7.0"));
  CHECK_THROWS_WITH(fields.integer("text"), ContainsSubstring("but is \"x\""));
  CHECK_THROWS_WITH(fields.integer("yes"), ContainsSubstring("but is true"));
  CHECK_THROWS_WITH(fields.integer("big"), ContainsSubstring("64 bits"));
  CHECK_THROWS_WITH(fields.number("text"), ContainsSubstring("must be a number"));
  CHECK_THROWS_WITH(fields.optional_boolean("int"), ContainsSubstring("must be true or false, but is 7"));
  CHECK_THROWS_WITH(fields.string("list"), ContainsSubstring("but is a list of 2"));
  CHECK_THROWS_WITH(fields.integer_list("mixed"), ContainsSubstring("field 'mixed'"));
  CHECK_THROWS_WITH(fields.string_list("mixed"), ContainsSubstring("field 'mixed'"));
  CHECK_THROWS_WITH(fields.string_list("text"), ContainsSubstring("a list of strings"));
  CHECK_THROWS_WITH(fields.optional_object("list"), ContainsSubstring("a JSON object"));
  CHECK_THROWS_WITH(fields.optional_object("inner")->integer("n"),
                    ContainsSubstring("field 'inner.n' must be an integer"));
  const nlohmann::json list = parse_json("[1]", "t");
  CHECK_THROWS_AS(JsonFields(list, "t"), FormatError);
}
