#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

#include <tenon/io/safetensors.hpp>
#include <tenon/io/save_safetensors.hpp>

#include <support/temporary_folder.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::AnyTensor;
using tenon::DType;
using tenon::FormatError;
using tenon::parse_safetensors_header;
using tenon::SafetensorsFile;
using tenon::SafetensorsHeader;
using tenon_test::slurp;
using tenon_test::TemporaryFolder;

const std::filesystem::path cases = std::filesystem::path(TENON_TEST_DATA) / "safetensors_cases";

/// Header length, header and `data_bytes` counting bytes.
std::string file_text(const std::string& header, std::size_t data_bytes = 0) {
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  text += header;
  for (std::size_t i = 0; i < data_bytes; ++i) text += static_cast<char>(i);
  return text;
}

SafetensorsHeader parse(const std::string& text) {
  return parse_safetensors_header(std::as_bytes(std::span(text.data(), text.size())), "test.safetensors");
}

std::string one(const std::string& fields) { return "{\"a\":{" + fields + "}}"; }

/// Throws FormatError that names the file and says `reason`.
void check_refused(const std::string& text, const std::string& reason) {
  CAPTURE(text, reason);
  CHECK_THROWS_AS(parse(text), FormatError);
  CHECK_THROWS_WITH(parse(text), ContainsSubstring("'test.safetensors'") && ContainsSubstring(reason));
}

template <class T>
std::vector<T> values_of(const AnyTensor& tensor) {
  std::vector<T> result(static_cast<std::size_t>(tensor.numel()));
  if (!result.empty()) std::memcpy(result.data(), tensor.data(), result.size() * sizeof(T));
  return result;
}

}  // namespace

TEST_CASE("every file of safetensors_cases gets the verdict of the reference reader", "[safetensors]") {
  const nlohmann::json expected = nlohmann::json::parse(slurp(cases / "expected.json"));
  REQUIRE(expected.size() == 21);
  for (const nlohmann::json& row : expected) {
    const auto name = row.at("file").get<std::string>();
    const auto path = cases / name;
    CAPTURE(name);
    REQUIRE(std::filesystem::file_size(path) == row.at("size").get<std::uintmax_t>());
    // Where the description of the format and the reference reader disagree: a duplicate name is an error, a field that
    // is not defined is ignored.
    const bool valid =
        row.at("valid").is_null() ? name == "extra_field_in_tensor_info.safetensors" : row.at("valid").get<bool>();
    if (valid) {
      CHECK_NOTHROW(SafetensorsFile(path));
    } else {
      CHECK_THROWS_AS(SafetensorsFile(path), FormatError);
      CHECK_THROWS_WITH(SafetensorsFile(path), ContainsSubstring("'" + path.string() + "'"));
    }
  }
}

TEST_CASE("values and shapes of small files", "[safetensors]") {
  const SafetensorsFile basic(cases / "basic_2x2_i32.safetensors");
  REQUIRE(basic.tensors().size() == 1);
  const AnyTensor test = basic.tensor("test");
  CHECK(test.dtype() == DType::int32);
  CHECK(test.sizes() == std::vector<std::int64_t>{2, 2});
  CHECK(values_of<std::int32_t>(test) == std::vector<std::int32_t>{0, 0, 0, 0});
  CHECK(test.read_only());

  const AnyTensor scalar = SafetensorsFile(cases / "scalar_empty_shape.safetensors").tensor("test");
  CHECK(scalar.rank() == 0);
  CHECK(scalar.numel() == 1);

  const AnyTensor nothing = SafetensorsFile(cases / "zero_sized_tensor.safetensors").tensor("test");
  CHECK(nothing.sizes() == std::vector<std::int64_t>{2, 0});
  CHECK(nothing.numel() == 0);

  const SafetensorsFile names(cases / "unicode_and_escaped_names.safetensors");
  CHECK(values_of<std::uint8_t>(names.tensor("t\xC3\xA9nsor \"q\"\n")) == std::vector<std::uint8_t>{1});
  CHECK(values_of<std::uint8_t>(names.tensor("\xE5\xBC\xA0")) == std::vector<std::uint8_t>{2});
}

TEST_CASE("two-byte floats keep their bits", "[safetensors]") {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto check = [&](const std::string& file, DType dtype, auto zero, float smallest) {
    using T = decltype(zero);
    const AnyTensor x = SafetensorsFile(cases / file).tensor("x");
    CHECK(x.dtype() == dtype);
    const std::vector<T> values = values_of<T>(x);
    REQUIRE(values.size() == 8);
    const std::array<float, 6> expected{1.0f, -1.0f, 0.0f, -0.0f, infinity, -infinity};
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(float(values[i]) == expected[i]);
    CHECK(std::signbit(float(values[3])));
    CHECK(std::isnan(float(values[6])));
    CHECK(float(values[7]) == smallest);
  };
  check("bf16_values.safetensors", DType::bfloat16, tenon::bfloat16(0.0f), 0x1p-133f);
  check("f16_values.safetensors", DType::float16, tenon::float16(0.0f), 0x1p-24f);
}

TEST_CASE("F1: bytes must be what shape and dtype need", "[safetensors]") {
  check_refused(file_text(one(R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,4])"), 4),
                "tensor 'a' has 4 bytes, but its shape and dtype need 4000000");
  check_refused(file_text(one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])")),
                "more elements than 64 bits can count");
  check_refused(file_text(one(R"("dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0])")),
                "more elements than 64 bits can count");
  check_refused(file_text(one(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])")),
                "more elements than 64 bits can count");
  check_refused(file_text(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"), 1), "whole number of bytes");
  CHECK(parse(file_text(one(R"("dtype":"F4","shape":[4],"data_offsets":[0,2])"), 2)).tensors[0].bytes == 2);
}

TEST_CASE("F2: a header length that wraps around is refused", "[safetensors]") {
  for (const std::string& length : {std::string(8, '\xff'), std::string("\xfb\xff\xff\xff\xff\xff\xff\xff", 8),
                                    std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)}) {
    check_refused(length + "{}      ", "at most 100000000 are read");
  }
  check_refused(std::string("\x09\0\0\0\0\0\0\0", 8) + "{}      ", "claims 9 bytes, but only 8 follow");
  check_refused(std::string(8, '\0'), "not valid JSON");
}

TEST_CASE("F3: offsets that run backwards or past the end are refused", "[safetensors]") {
  check_refused(file_text(one(R"("dtype":"U8","shape":[4],"data_offsets":[8,4])"), 8), "before it begins");
  check_refused(file_text(one(R"("dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776])"), 8),
                "describes 1099511627776 bytes of data, but it holds 8");
  check_refused(file_text(one(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,0])"), 8),
                "before it begins");
  check_refused(file_text(one(R"("dtype":"U8","shape":[1],"data_offsets":[-1,0])"), 8), "data_offsets");
  check_refused(file_text(one(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1), "fewer than two");
  check_refused(file_text(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,1])"), 1), "more than two");
  check_refused(file_text(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1e0])"), 1), "data_offsets");
  check_refused(file_text(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551616])"), 1),
                "data_offsets");
}

TEST_CASE("F4: overlapping tensors and holes are refused", "[safetensors]") {
  const auto two = [](const std::string& k, const std::string& v) {
    return R"({"k_proj":{"dtype":"U8","shape":[4],"data_offsets":)" + k +
           R"(},"v_proj":{"dtype":"U8","shape":[4],"data_offsets":)" + v + "}}";
  };
  check_refused(file_text(two("[0,4]", "[0,4]"), 4), "tensor 'v_proj' overlaps with tensor 'k_proj'");
  check_refused(file_text(two("[0,4]", "[3,7]"), 7), "tensor 'v_proj' overlaps with tensor 'k_proj'");
  check_refused(file_text(two("[5,9]", "[0,4]"), 9), "tensor 'k_proj' leaves a hole after tensor 'v_proj'");
  check_refused(file_text(two("[1,5]", "[5,9]"), 9), "hole after the start of the data");
  check_refused(file_text(two("[0,4]", "[4,8]"), 9), "describes 8 bytes of data, but it holds 9");
  const SafetensorsHeader header = parse(file_text(two("[4,8]", "[0,4]"), 8));
  REQUIRE(header.tensors.size() == 2);
  CHECK(header.tensors[0].name == "v_proj");
  CHECK(header.tensors[1].offset == header.tensors[0].offset + 4);
}

TEST_CASE("F5: an unknown dtype is refused before its offsets are looked at", "[safetensors]") {
  check_refused(file_text(one(R"("dtype":"F7","shape":[1],"data_offsets":[4611686018427387904,4611686018427387905])")),
                "tensor 'a' has the unknown dtype 'F7'");
  check_refused(file_text(one(R"("dtype":32,"shape":[1],"data_offsets":[0,4])"), 4), "dtype that is not a string");
  check_refused(file_text(one(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])"), 4), "unknown dtype 'f32'");
}

TEST_CASE("F7: a header over 100 MB is refused with its limit named", "[safetensors]") {
  const TemporaryFolder folder;
  const auto path = folder.write("large.safetensors", std::string("\x80\x9b\x82\x07\0\0\0\0", 8));  // 126,000,000
  std::filesystem::resize_file(path, 126'000'008);  // sparse: takes no space
  CHECK_THROWS_AS(SafetensorsFile(path), FormatError);
  CHECK_THROWS_WITH(SafetensorsFile(path), ContainsSubstring("claims 126000000 bytes") &&
                                               ContainsSubstring("at most 100000000 are read") &&
                                               ContainsSubstring(path.string()));
}

TEST_CASE("F9: a file shorter than its header says is refused", "[safetensors]") {
  const TemporaryFolder folder;
  const std::string whole =
      slurp(std::filesystem::path(TENON_TEST_DATA) / "golden/qwen2-untied-bf16/model.safetensors");
  REQUIRE(whole.size() > 100'000);
  CHECK_NOTHROW(SafetensorsFile(folder.write("model.safetensors", whole)));
  for (const std::size_t size :
       {whole.size() - 1, whole.size() / 2, std::size_t{100}, std::size_t{8}, std::size_t{0}}) {
    const auto path = folder.write("model.safetensors", std::string_view(whole).substr(0, size));
    CAPTURE(size);
    CHECK_THROWS_AS(SafetensorsFile(path), FormatError);
    CHECK_THROWS_WITH(SafetensorsFile(path), ContainsSubstring("'" + path.string() + "'"));
  }
}

TEST_CASE("headers that are not what the format describes are refused", "[safetensors]") {
  const std::string good = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  CHECK_NOTHROW(parse(file_text(one(good) + "  \n", 1)));
  check_refused(file_text("[]"), "not a JSON object");
  check_refused(file_text("1"), "not a JSON object");
  check_refused(file_text(R"({"a":1})"), "tensor 'a' is not described by an object");
  check_refused(file_text(R"({"a":null})"), "tensor 'a' is not described by an object");
  check_refused(file_text(one(R"("dtype":"U8","shape":[1])"), 1), "lacks the field 'data_offsets'");
  check_refused(file_text(one(R"("dtype":"U8","data_offsets":[0,1])"), 1), "lacks the field 'shape'");
  check_refused(file_text(one(R"("shape":[1],"data_offsets":[0,1])"), 1), "lacks the field 'dtype'");
  check_refused(file_text(one(good + R"(,"shape":[1])"), 1), "has the field 'shape' twice");
  check_refused(file_text(one(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), 1), "shape that is not");
  check_refused(file_text(one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1), "shape that is not");
  check_refused(file_text(one(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), 1), "shape that is not");
  check_refused(file_text(R"({"a":{)" + good + R"(},"a":{)" + good + "}}", 1), "tensor 'a' appears twice");
  check_refused(file_text(R"({"__metadata__":["x"]})"), "__metadata__ must map strings to strings");
  check_refused(file_text(R"({"__metadata__":{"x":{}}})"), "__metadata__ must map strings to strings");
  check_refused(file_text(R"({"__metadata__":{"x":null}})"), "__metadata__ must map strings to strings");
  check_refused(file_text(R"({"__metadata__":{"x":"1","x":"2"}})"), "'x' appears twice");
  check_refused(file_text(one(good) + "x", 1), "not valid JSON");
  check_refused(file_text("{\"\xff\":{" + good + "}}", 1), "not valid JSON");
  check_refused(file_text(one(good) + std::string("\0x", 2), 1), "zero byte");
  check_refused(file_text("\xEF\xBB\xBF" + one(good), 1), "byte order mark");
  check_refused(file_text(R"({"a":{"x":)" + std::string(100'000, '[')), "nested too deep");
  check_refused(file_text(std::string(100'000, '[')), "not a JSON object");
  CHECK(parse(file_text(one(R"("extra":{"dtype":[1,{"shape":2}],"shape":null},)" + good), 1)).tensors.size() == 1);
  CHECK(parse(file_text(R"({"__metadata__":{"format":"pt"}})")).metadata.at("format") == "pt");
  CHECK(parse(file_text(R"({"__metadata__":null})")).metadata.empty());
}

TEST_CASE("dtypes that tenon lacks are listed and refused on access", "[safetensors]") {
  const TemporaryFolder folder;
  const auto path =
      folder.write("t.safetensors", file_text(R"({"u":{"dtype":"U32","shape":[2],"data_offsets":[0,8]},)"
                                              R"("f":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[8,11]},)"
                                              R"("g":{"dtype":"U8","shape":[1],"data_offsets":[11,12]}})",
                                              12));
  const SafetensorsFile file(path);
  CHECK(file.info("u").dtype.name == "U32");
  CHECK(file.bytes("f").size() == 3);
  CHECK(file.bytes("f")[0] == std::byte{8});
  CHECK_THROWS_AS(file.tensor("u"), tenon::DTypeError);
  CHECK_THROWS_WITH(file.tensor("u"), ContainsSubstring("'u'") && ContainsSubstring("U32"));
  CHECK_THROWS_AS(file.tensor("f"), tenon::DTypeError);
  CHECK(values_of<std::uint8_t>(file.tensor("g")) == std::vector<std::uint8_t>{11});
  CHECK_THROWS_AS(file.tensor("h"), FormatError);
  CHECK_THROWS_WITH(file.tensor("h"), ContainsSubstring("'h'") && ContainsSubstring(path.string()));
}

TEST_CASE("a BOOL that is neither 0 nor 1 is refused", "[safetensors]") {
  const TemporaryFolder folder;
  const std::string header = one(R"("dtype":"BOOL","shape":[2],"data_offsets":[0,2])");
  CHECK(SafetensorsFile(folder.write("good", file_text(header, 2))).tensor("a").dtype() == DType::boolean);
  const SafetensorsFile bad(folder.write("bad", file_text(header) + "\x01\x02"));
  CHECK_THROWS_AS(bad.tensor("a"), FormatError);
}

TEST_CASE("tensors share the mapping where the data is aligned and outlive the file object", "[safetensors]") {
  const TemporaryFolder folder;
  const std::array<float, 3> values{1.5f, -2.25f, 1e30f};
  std::string data(reinterpret_cast<const char*>(values.data()), sizeof(values));
  for (std::size_t padding = 0; padding < 4; ++padding) {
    std::string header = one(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])");
    header += std::string(8 - header.size() % 8 + padding, ' ');
    const auto path = folder.write("t.safetensors", file_text(header) + data);
    std::optional<AnyTensor> tensor;
    {
      const SafetensorsFile file(path);
      tensor = file.tensor("a");
      CHECK((tensor->data() == file.bytes("a").data()) == (padding == 0));
      CHECK(file.tensor("a").read_only());
    }
    std::filesystem::remove(path);
    CHECK(values_of<float>(*tensor) == std::vector<float>(values.begin(), values.end()));
    CHECK(tensor->as<const float, 1>().data() == reinterpret_cast<const float*>(tensor->data()));
  }
}

TEST_CASE("save_safetensors writes what the reader reads", "[safetensors]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.safetensors";
  const std::vector<std::int64_t> ids{-5, 0, 1LL << 40};
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  const std::vector<float> values{0.5f, -1.0f, 2.0f, 3.0f};
  const auto external = [](DType dtype, std::vector<std::int64_t> shape, const auto& data) {
    return AnyTensor::from_external(dtype, std::move(shape), reinterpret_cast<const std::byte*>(data.data()), nullptr);
  };
  std::map<std::string, AnyTensor> tensors;
  tensors.emplace("b\"ytes\n", external(DType::uint8, {3}, bytes));
  tensors.emplace("ids", external(DType::int64, {1, 3}, ids));
  tensors.emplace("values", external(DType::float32, {2, 2}, values));
  tensors.emplace("none", external(DType::float32, {0, 7}, values));
  tensors.emplace("scalar", external(DType::float32, {}, values));
  save_safetensors(path, tensors, {{"format", "pt"}, {"quote", "\""}});
  CHECK(folder.entries() == 1);

  const SafetensorsFile file(path);
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"quote", "\""}});
  REQUIRE(file.tensors().size() == 5);
  for (const auto& [name, tensor] : tensors) {
    const AnyTensor read = file.tensor(name);
    CHECK(read.dtype() == tensor.dtype());
    CHECK(read.sizes() == tensor.sizes());
    CHECK(std::equal(tensor.data(), tensor.data() + tensor.nbytes(), read.data()));
    CHECK(read.data() == file.bytes(name).data());
  }

  tensors.emplace("__metadata__", tensors.at("ids"));
  CHECK_THROWS_AS(save_safetensors(path, tensors), tenon::ValueError);
  CHECK_THROWS_AS(save_safetensors(path, std::map<std::string, AnyTensor>{{"\xff", tensors.at("ids")}}),
                  tenon::ValueError);
  CHECK_THROWS_AS(save_safetensors(path, std::map<std::string, AnyTensor>{{"x", tensors.at("values").permute({1, 0})}}),
                  tenon::ValueError);
  CHECK_NOTHROW(SafetensorsFile(path).tensor("ids"));  // the failed writes changed nothing
  save_safetensors(path, std::map<std::string, AnyTensor>{});
  CHECK(SafetensorsFile(path).tensors().empty());
}

TEST_CASE("thousands of tensors", "[safetensors]") {
  std::string header = "{";
  constexpr std::size_t count = 20'000;
  for (std::size_t i = count; i-- > 0;) {
    if (header.size() > 1) header += ',';
    header += "\"model.layers." + std::to_string(i) + R"(.w":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  const std::string text = file_text(header + "}", count);
  const SafetensorsHeader parsed = parse(text);
  REQUIRE(parsed.tensors.size() == count);
  CHECK(parsed.tensors[777].name == "model.layers.777.w");
}

TEST_CASE("mutated files are refused or read, and nothing else", "[safetensors]") {
  const TemporaryFolder folder;
  const std::string original = file_text(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],)"
                                         R"("data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[3],"data_offsets":)"
                                         R"([24,30]},"m":{"dtype":"BOOL","shape":[2],"data_offsets":[30,32]}})",
                                         30) +
                               std::string("\x01\x00", 2);
  CHECK(parse(original).tensors.size() == 3);
  std::mt19937 random(20'240'611);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::size_t refused = 0;
  std::size_t accepted = 0;
  const auto path = folder.path() / "mutated.safetensors";
  for (int i = 0; i < 5000; ++i) {
    std::string text = original;
    const std::size_t edits = 1 + below(2);
    for (std::size_t edit = 0; edit < edits; ++edit) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0: text[at] = static_cast<char>(text[at] ^ static_cast<char>(1u << below(8))); break;
        case 1: text[at] = static_cast<char>(random()); break;
        case 2: text.resize(std::max<std::size_t>(at, 1)); break;
        case 3: text.insert(at, 1 + below(3), "0123456789[]{}\",:"[below(17)]); break;
        default: text.erase(at, 1 + below(3)); break;
      }
      if (text.empty()) text = "x";
    }
    // From memory: the bytes end where the sanitizer watches.
    try {
      const std::vector<char> exact(text.begin(), text.end());
      parse_safetensors_header(std::as_bytes(std::span(exact.data(), exact.size())), "mutated");
    } catch (const tenon::Error&) {
      ++refused;
      continue;
    }
    const SafetensorsFile file(tenon::FileMap::read(folder.write("mutated.safetensors", text)));
    ++accepted;
    std::size_t sum = 0;
    for (const tenon::TensorInfo& info : file.tensors()) {
      for (const std::byte b : file.bytes(info.name)) sum += std::to_integer<std::size_t>(b);
      try {
        sum += file.tensor(info.name).nbytes();
      } catch (const tenon::Error&) {
        ++sum;
      }
    }
    CHECK(sum <= 255 * text.size() * 2);
  }
  CHECK(refused > 1000);
  CHECK(accepted > 100);
}
