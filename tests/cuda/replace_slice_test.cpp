// replace_slice on CUDA.
#include <tenon/ops/replace_slice.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenon/cpu/reference_graph.hpp>
#include <tenon/cuda/graph.hpp>

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

/// A number in device memory that can be changed.
class Number {
 public:
  Number(Context<Cuda>& ctx, std::int64_t value) : ctx_(ctx), data_(tenon::empty<std::int64_t>(ctx, {1})) {
    *this = value;
  }
  Number& operator=(std::int64_t value) {
    data_.load(ctx_, std::vector<std::int64_t>{value});
    return *this;
  }
  [[nodiscard]] View<const std::int64_t, 1, Cuda> view() const { return data_; }

 private:
  Context<Cuda>& ctx_;
  tenon::Tensor<std::int64_t, 1, Cuda> data_;
};

std::string describe(const Sizes<4>& sizes, std::int64_t count, std::int64_t begin, Form x, Form rows) {
  return tenon::shape_string(sizes) + ", " + std::to_string(count) + " rows at " + std::to_string(begin) + ", " +
         std::string(support::form_name(rows)) + " to " + std::string(support::form_name(x));
}

}  // namespace

TEMPLATE_TEST_CASE("replace_slice on CUDA writes rows of every size and layout", "[cuda][replace_slice]", float, double,
                   tenon::float16, tenon::bfloat16, std::int64_t) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const Sizes<4> sizes : {Sizes<4>{1, 1, 1, 1}, {7, 2, 3, 5}, {9, 1, 4, 32}, {5, 3, 0, 2}, {4, 1, 1, 2000}}) {
    for (const std::int64_t count : {0, 1, 3}) {
      if (count > sizes[0]) continue;
      for (const Form form : support::writable_forms) {
        for (const Form other : {form, Form::contiguous, support::all_forms[random() % support::all_forms.size()]}) {
          const std::int64_t begin =
              static_cast<std::int64_t>(random() % static_cast<std::size_t>(sizes[0] - count + 1));
          Operand<TestType, 4> x(sizes, form);
          Operand<TestType, 4> rows({count, sizes[1], sizes[2], sizes[3]}, other);
          x.fill(random, -8, 8);
          rows.fill(random, -8, 8);
          const auto expected = tenon::reference::replace_slice<TestType>(x.view(), rows.view(), begin);
          const OnDevice x_device(ctx, x);
          const OnDevice rows_device(ctx, rows);
          tenon::replace_slice(ctx, x_device.view(), rows_device.view(), Number(ctx, begin).view(),
                               Number(ctx, begin + count).view());
          x_device.read_back(x);
          INFO(describe(sizes, count, begin, form, other));
          CHECK(tenon::reference::elements(x.view()) == expected);
          CHECK(x.intact());
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("replace_slice on CUDA on aligned memory, at every place and in a graph", "[cuda][replace_slice]",
                   float, double, tenon::float16, tenon::bfloat16, std::int64_t) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(2);
  for (const Sizes<4> sizes : {Sizes<4>{6, 1, 4, 32}, {6, 1, 1, 3}, {6, 2, 2, 17}}) {
    Operand<TestType, 4> x(sizes);
    Operand<TestType, 4> rows({2, sizes[1], sizes[2], sizes[3]});
    x.fill(random, -8, 8);
    rows.fill(random, -8, 8);
    const auto from = upload(ctx, rows);
    const auto target = upload(ctx, x);
    const auto captured = upload(ctx, x);
    Number begin(ctx, 0);
    Number end(ctx, 2);
    const auto call = [&](const View<TestType, 4, Cuda>& to) {
      tenon::replace_slice(ctx, to, from, begin.view(), end.view());
    };
    call(target);
    tenon::detail::CudaGraph graph(ctx, [&] { call(captured); });
    for (const std::int64_t at : {0, 1, 4}) {
      begin = at;
      end = at + 2;
      tenon::copy(ctx, View<TestType, 4, Cuda>(target), View<const TestType, 4>(x.view()));
      tenon::copy(ctx, View<TestType, 4, Cuda>(captured), View<const TestType, 4>(x.view()));
      call(target);
      graph.launch(ctx);
      const auto expected = tenon::reference::replace_slice<TestType>(x.view(), rows.view(), at);
      INFO(tenon::shape_string(sizes) << " at " << at);
      CHECK(tenon::reference::elements(View<TestType, 4>(target.cpu(ctx))) == expected);
      CHECK(tenon::reference::elements(View<TestType, 4>(captured.cpu(ctx))) == expected);
    }
  }
}

TEST_CASE("replace_slice on CUDA writes nothing where the place does not fit", "[cuda][replace_slice]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  for (const std::int64_t columns : {8, 7}) {
    const auto x = tenon::zeros<float>(ctx, {5, 1, 2, columns});
    const auto rows = tenon::ones<float>(ctx, {2, 1, 2, columns});
    constexpr std::int64_t far = std::int64_t{1} << 62;
    for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {-1, 1}, {4, 6}, {5, 7}, {0, 1}, {0, 3}, {2, 0}, {0, 0}, {far, far + 2}, {-far, far}, {-2, 0}}) {
      tenon::replace_slice(ctx, View<float, 4, Cuda>(x), rows, Number(ctx, begin).view(), Number(ctx, end).view());
      INFO("[" << begin << ", " << end << ")");
      CHECK(tenon::reference::elements(View<float, 4>(x.cpu(ctx))) ==
            std::vector<double>(static_cast<std::size_t>(10 * columns), 0.0));
    }
    const auto many = tenon::ones<float>(ctx, {6, 1, 2, columns});
    tenon::replace_slice(ctx, View<float, 4, Cuda>(x), many, Number(ctx, 0).view(), Number(ctx, 6).view());
    CHECK(tenon::reference::elements(View<float, 4>(x.cpu(ctx))) ==
          std::vector<double>(static_cast<std::size_t>(10 * columns), 0.0));
  }
}

TEST_CASE("G10: replace_slice on CUDA reaches rows more than 2^31 elements away", "[cuda][replace_slice]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{8} << 30)) SKIP("this needs 8 GiB of device memory");
  constexpr std::int64_t gap = (std::int64_t{1} << 31) + 64;  // elements: 4.3 GB
  const auto memory = tenon::allocate_storage(ctx, static_cast<std::size_t>(gap + 64) * 2);
  for (const std::int64_t n : {64, 63}) {
    const View<tenon::bfloat16, 4, Cuda> x(reinterpret_cast<tenon::bfloat16*>(memory.data()),
                                           tenon::Layout<4>({2, 1, 1, n}, {gap, 0, 0, 1}));
    std::mt19937 random(3);
    Operand<tenon::bfloat16, 4> rows({1, 1, 1, n});
    rows.fill(random);
    tenon::replace_slice(ctx, x, upload(ctx, rows), Number(ctx, 1).view(), Number(ctx, 2).view());
    const auto out = tenon::empty<tenon::bfloat16>(ctx, {1, 1, 1, n});
    tenon::copy(ctx, View<tenon::bfloat16, 4, Cuda>(out), View<const tenon::bfloat16, 4, Cuda>(x.slice(0, 1, 2)));
    CHECK(support::bits(View<tenon::bfloat16, 4>(out.cpu(ctx))) == support::bits(rows.view()));
  }
}

TEST_CASE("replace_slice on CUDA refuses what it refuses on the CPU, in the same words", "[cuda][replace_slice]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check = [&](const Sizes<4>& x, const Sizes<4>& rows, std::int64_t begins, std::int64_t ends, bool shared) {
    const auto call = [&](auto& c) {
      using Device = typename std::remove_reference_t<decltype(c)>::device_type;
      const auto tensor = tenon::zeros<float>(c, x);
      View<float, 4, Device> target = tensor;
      if (shared) target = {tensor.data(), tenon::Layout<4>(x, {0, 1, 1, 1})};
      const auto begin = tenon::zeros<std::int64_t>(c, {begins});
      const auto end = tenon::ones<std::int64_t>(c, {ends});
      tenon::replace_slice(c, target, tenon::zeros<float>(c, rows), begin, end);
    };
    const std::string on_cpu = message_of([&] { call(host); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx); }) == on_cpu);
  };
  check({5, 1, 2, 3}, {1, 1, 2, 4}, 1, 1, false);
  check({5, 1, 2, 3}, {1, 2, 1, 3}, 1, 1, false);
  check({5, 1, 2, 3}, {1, 1, 2, 3}, 2, 1, false);
  check({5, 1, 2, 3}, {1, 1, 2, 3}, 1, 0, false);
  check({5, 1, 1, 1}, {1, 1, 1, 1}, 1, 1, true);
}
