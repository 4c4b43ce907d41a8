#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <tenon/core/dtype.hpp>

using tenon::DType;

TEST_CASE("dtypes: names, sizes and types belong together", "[dtype]") {
  struct Row {
    DType dtype;
    std::string name;
    std::size_t size;
  };
  const std::vector<Row> rows{{DType::float32, "float32", 4},
                              {DType::float64, "float64", 8},
                              {DType::float16, "float16", 2},
                              {DType::bfloat16, "bfloat16", 2},
                              {DType::float8_e4m3, "float8_e4m3", 1},
                              {DType::int8, "int8", 1},
                              {DType::int16, "int16", 2},
                              {DType::int32, "int32", 4},
                              {DType::int64, "int64", 8},
                              {DType::uint8, "uint8", 1},
                              {DType::boolean, "bool", 1}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(tenon::dtype_name(row.dtype) == row.name);
    CHECK(tenon::dtype_size(row.dtype) == row.size);
    CHECK(tenon::visit_dtype(row.dtype, []<class T>(std::type_identity<T>) { return tenon::dtype_of<T>; }) ==
          row.dtype);
  }
  static_assert(tenon::dtype_of<const float> == DType::float32);
  static_assert(tenon::dtype_of<bool> == DType::boolean);
}

TEST_CASE("dtypes: an enumerator outside the list is an error, not a crash", "[dtype]") {
  const auto bad = static_cast<DType>(200);
  CHECK(tenon::dtype_name(bad) == "unknown");
  CHECK_THROWS_AS(tenon::dtype_size(bad), tenon::DTypeError);
}

TEST_CASE("dtypes: concepts admit what operators and tensors take", "[dtype]") {
  static_assert(tenon::Element<float> && tenon::Element<const tenon::bfloat16> && tenon::Element<bool>);
  static_assert(!tenon::Element<std::string> && !tenon::Element<char32_t> && !tenon::Element<std::uint32_t>);
  static_assert(tenon::FloatElement<float> && tenon::FloatElement<double> && tenon::FloatElement<tenon::float16>);
  static_assert(!tenon::FloatElement<std::int32_t> && !tenon::FloatElement<const float>);
  static_assert(std::is_same_v<tenon::accumulator_t<const double>, double>);
  static_assert(std::is_same_v<tenon::accumulator_t<tenon::bfloat16>, float>);
  SUCCEED();
}

TEST_CASE("errors: one base class catches all of them and keeps the sentence", "[error]") {
  const auto thrown = []<class E>(std::type_identity<E>) {
    try {
      throw E("linear: weight has shape (2, 3)");
    } catch (const tenon::Error& error) {
      return std::string(error.what());
    }
  };
  const std::string sentence = "linear: weight has shape (2, 3)";
  CHECK(thrown(std::type_identity<tenon::ShapeError>{}) == sentence);
  CHECK(thrown(std::type_identity<tenon::DTypeError>{}) == sentence);
  CHECK(thrown(std::type_identity<tenon::DeviceError>{}) == sentence);
  CHECK(thrown(std::type_identity<tenon::IndexError>{}) == sentence);
  CHECK(thrown(std::type_identity<tenon::ValueError>{}) == sentence);
  CHECK(thrown(std::type_identity<tenon::FileError>{}) == sentence);
  CHECK(thrown(std::type_identity<tenon::FormatError>{}) == sentence);
  CHECK(thrown(std::type_identity<tenon::NumericError>{}) == sentence);
  static_assert(std::is_base_of_v<std::runtime_error, tenon::Error>);
}
