// argmax on CUDA.
#include <tenon/ops/argmax.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"
#include "support/operand.hpp"

using support::Form;
using support::message_of;
using support::OnDevice;
using support::Operand;
using support::upload;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::Sizes;
using tenon::View;

namespace {

/// Runs argmax on an operand as it lies and on an aligned copy, and compares with `expected` (one index for each row).
template <class T, std::size_t Rank>
void check(Context<Cuda>& ctx, const Operand<T, Rank>& in, const std::vector<std::int64_t>& expected,
           Form form = Form::contiguous) {
  Sizes<Rank> sizes = in.view().sizes();
  const std::int64_t n = sizes[Rank - 1];
  sizes[Rank - 1] = 1;
  const auto all = tenon::reference::elements(in.view());
  std::vector<double> values;
  for (std::size_t row = 0; row < expected.size(); ++row) {
    values.push_back(all[row * static_cast<std::size_t>(n) + static_cast<std::size_t>(expected[row])]);
  }
  const OnDevice as_it_lies(ctx, in);
  const auto aligned = upload(ctx, in);
  for (const View<const T, Rank, Cuda>& device :
       {View<const T, Rank, Cuda>(as_it_lies), View<const T, Rank, Cuda>(aligned)}) {
    Operand<std::int64_t, Rank> index(sizes, form);
    Operand<T, Rank> value(sizes, form);
    const OnDevice index_device(ctx, index);
    const OnDevice value_device(ctx, value);
    tenon::argmax(ctx, index_device.view(), value_device.view(), device);
    index_device.read_back(index);
    value_device.read_back(value);
    std::vector<std::int64_t> found;
    for (const double x : tenon::reference::elements(index.view())) found.push_back(static_cast<std::int64_t>(x));
    INFO(tenon::shape_string(in.view().sizes()) << " with strides " << tenon::shape_string(device.strides()));
    CHECK(found == expected);
    CHECK(support::mismatch(value.view(), values, support::Tolerance{}) == "");
    CHECK(index.intact());
    CHECK(value.intact());
  }
}

}  // namespace

TEMPLATE_TEST_CASE("argmax on CUDA finds the largest element in every layout", "[cuda][argmax]", float, double,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const std::int64_t n : {1, 2, 3, 8, 15, 16, 17, 65, 256, 1000, 1024, 1025, 5003}) {
    for (const Form form : support::all_forms) {
      Operand<TestType, 2> in({3, n}, form);
      in.fill(random, -100, 100);
      check(ctx, in, tenon::reference::argmax(in.view()), form == Form::broadcast ? Form::contiguous : form);
    }
  }
  for (const Form form : support::writable_forms) {
    Operand<TestType, 3> in({4, 5, 37}, form);
    in.fill(random, -100, 100);
    check(ctx, in, tenon::reference::argmax(in.view()), form);
    Operand<TestType, 1> row({2500}, form);
    row.fill(random, -100, 100);
    check(ctx, row, tenon::reference::argmax(row.view()), form);
  }
}

TEMPLATE_TEST_CASE("argmax on CUDA takes the lowest index among equal elements", "[cuda][argmax]", float, double,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  // Rows for a warp, for a block, and for several blocks.
  for (const std::int64_t n : {2, 40, 300, 2000, 9001}) {
    for (std::int64_t first = 0; first < n; first += n / 9 + 1) {
      Operand<TestType, 1> in({n});
      std::int64_t i = 0;
      in.fill([&] { return i++ >= first ? 1.5 : -1.5; });  // everything from `first` on is equal
      check(ctx, in, {first});
      i = 0;
      in.fill([&] { return i++ == first ? 0.0 : -0.0; });  // +0 and -0 are equal
      check(ctx, in, {0});
    }
  }
}

TEMPLATE_TEST_CASE("argmax on CUDA gives the first NaN of a row that holds one", "[cuda][argmax]", float, double,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const double inf = std::numeric_limits<double>::infinity();
  for (const std::int64_t n : {1, 5, 40, 300, 2000, 9001}) {
    for (std::int64_t first = 0; first < n; first += n / 9 + 1) {
      Operand<TestType, 1> in({n});
      std::int64_t i = 0;
      in.fill([&] {
        const std::int64_t k = i++;
        return k == first || (k > first && k % 2 == 0) ? (k % 4 == 0 ? -std::nan("") : std::nan("")) : inf;
      });
      check(ctx, in, {first});
    }
  }
}

TEST_CASE("argmax on CUDA of rows of one value, of infinities and of the lowest values", "[cuda][argmax]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  for (const double value : {0.0, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(),
                             static_cast<double>(std::numeric_limits<float>::lowest())}) {
    for (const std::int64_t n : {1, 2, 33, 257, 1027, 8197}) {
      Operand<float, 1> in({n});
      in.fill([&] { return value; });
      check(ctx, in, {0});
      in.view()(n - 1) = 3.0f;
      check(ctx, in, {value > 3.0 ? 0 : n - 1});
    }
  }
}

TEST_CASE("argmax on CUDA over a vocabulary, few rows and many, and no rows", "[cuda][argmax]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(2);
  for (const std::int64_t rows : {1, 3, 300}) {
    Operand<float, 2> in({rows, rows == 300 ? 4001 : 151936});
    in.fill(random);
    check(ctx, in, tenon::reference::argmax(in.view()));
  }
  Operand<tenon::bfloat16, 2> rounded({2, 151936});  // few different values: many are the largest
  rounded.fill(random);
  check(ctx, rounded, tenon::reference::argmax(rounded.view()));
  Operand<tenon::bfloat16, 3> many({5, 41, 301}, Form::padded);
  many.fill(random);
  check(ctx, many, tenon::reference::argmax(many.view()), Form::transposed);

  const auto none = tenon::empty<float>(ctx, {0, 7});
  CHECK_NOTHROW(tenon::argmax(ctx, tenon::empty<std::int64_t>(ctx, {0, 1}), tenon::empty<float>(ctx, {0, 1}), none));
}

TEST_CASE("G10: argmax on CUDA of a row of more than 2^31 elements", "[cuda][argmax]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{8} << 30)) SKIP("this needs 8 GiB of device memory");
  const std::int64_t n = (std::int64_t{1} << 31) + 77;
  const auto in = tenon::zeros<tenon::bfloat16>(ctx, {n});
  const auto index = tenon::zeros<std::int64_t>(ctx, {1});
  const auto value = tenon::zeros<tenon::bfloat16>(ctx, {1});
  for (const std::int64_t at : {n - 1, n - 3, (std::int64_t{1} << 31) + 8}) {
    tenon::fill(ctx, View<tenon::bfloat16, 1, Cuda>(in.slice(0, at, at + 1)), 2.0);
    tenon::argmax(ctx, index, value, in);
    CHECK(index.cpu(ctx)(0) == at);
    CHECK(static_cast<float>(value.cpu(ctx)(0)) == 2.0f);
  }
  tenon::argmax(ctx, index, value, in.slice(0, 1, n));  // off any alignment
  CHECK(index.cpu(ctx)(0) == (std::int64_t{1} << 31) + 7);
}

TEST_CASE("argmax on CUDA refuses what it refuses on the CPU, in the same words", "[cuda][argmax]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check_message = [&](auto&& call) {
    const std::string on_cpu = message_of([&] { call(host); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx); }) == on_cpu);
  };
  const auto call = [](auto& c, const Sizes<2>& index, const Sizes<2>& value, const Sizes<2>& in) {
    tenon::argmax(c, tenon::zeros<std::int64_t>(c, index), tenon::zeros<float>(c, value), tenon::zeros<float>(c, in));
  };
  check_message([&](auto& c) { call(c, {3, 1}, {3, 1}, {3, 0}); });
  check_message([&](auto& c) { call(c, {0, 1}, {2, 1}, {2, 4}); });
  check_message([&](auto& c) { call(c, {2, 1}, {1, 1}, {2, 4}); });
  check_message([&](auto& c) {
    tenon::argmax(c, tenon::zeros<std::int64_t>(c, {1, 1}).expand({4, 1}), tenon::zeros<float>(c, {4, 1}),
                  tenon::zeros<float>(c, {4, 6}));
  });
}
