// matmul on CUDA: every kernel and layout, with and without an epilogue.
#include <tenon/ops/matmul.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <tenon/cpu/reference_graph.hpp>
#include <tenon/cuda/graph.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"
#include "support/operand.hpp"
#include "support/pointwise.hpp"

using support::Form;
using support::message_of;
using support::OnDevice;
using support::Operand;
using support::pointwise_program;
using support::upload;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::PointwiseProgram;
using tenon::Sizes;
using tenon::View;

namespace {

template <class T>
using Host = View<const T, 3>;
template <class T>
using Device = View<const T, 3, Cuda>;

template <class T>
std::string compare(const View<T, 3>& out, const std::vector<double>& expected, std::int64_t n) {
  return support::mismatch(out, expected, support::tolerance<T>(n, static_cast<double>(n) * 4.0));
}

/// Compares a product, in two runs, with the reference of the same factors on the CPU.
template <class T>
void check_product(Context<Cuda>& ctx, const Host<T>& a, const Host<T>& b, const Device<T>& a_device,
                   const Device<T>& b_device, Form form) {
  const Sizes<3> sizes{a.size(0), a.size(1), b.size(2)};
  Operand<T, 3> out(sizes, form);
  const OnDevice first(ctx, out);
  const OnDevice second(ctx, out);
  tenon::matmul(ctx, first.view(), a_device, b_device);
  tenon::matmul(ctx, second.view(), a_device, b_device);
  second.read_back(out);
  const auto bits = support::bits(out.view());
  first.read_back(out);
  INFO("(" << a.size(0) << ", " << a.size(1) << ", " << a.size(2) << ") . (" << b.size(1) << ", " << b.size(2)
           << "), strides " << tenon::shape_string(a.strides()) << " and " << tenon::shape_string(b.strides())
           << ", to " << support::form_name(form));
  CHECK(compare(out.view(), tenon::reference::matmul<T>(a, b), a.size(2)) == "");
  CHECK(support::bits(out.view()) == bits);
  CHECK(out.intact());
}

/// b as rows and as columns, aligned and not.
template <class T>
void check_layouts(Context<Cuda>& ctx, std::mt19937& random, std::int64_t batch, std::int64_t m, std::int64_t n,
                   std::int64_t k) {
  Operand<T, 3> a({batch, m, n});
  Operand<T, 3> rows({batch, n, k});
  Operand<T, 3> columns({batch, k, n});
  a.fill(random);
  rows.fill(random);
  columns.fill(random);
  const Host<T> across = columns.view().transpose(1, 2);
  {
    const OnDevice x(ctx, a);
    const OnDevice y(ctx, rows);
    const OnDevice z(ctx, columns);
    check_product<T>(ctx, a.view(), rows.view(), x, y, Form::contiguous);
    check_product<T>(ctx, a.view(), across, x, z.view().transpose(1, 2), Form::padded);
  }
  const auto x = upload(ctx, a);
  const auto y = upload(ctx, rows);
  const auto z = upload(ctx, columns);
  check_product<T>(ctx, a.view(), rows.view(), x, y, Form::padded);
  check_product<T>(ctx, a.view(), across, x, Device<T>(z.transpose(1, 2)), Form::contiguous);
}

}  // namespace

TEMPLATE_TEST_CASE("matmul on CUDA equals its definition for every size", "[cuda][matmul]", float, double,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const std::int64_t m : {0, 1, 3, 8, 9, 20}) {
    for (const std::int64_t n : {0, 1, 7, 64, 129}) {
      for (const std::int64_t k : {0, 1, 8, 83, 130}) {
        if (m > 3 && n > 64 && k > 83) continue;
        for (const std::int64_t batch : {1, 2}) check_layouts<TestType>(ctx, random, batch, m, n, k);
      }
    }
  }
}

TEMPLATE_TEST_CASE("matmul on CUDA takes any strides", "[cuda][matmul]", float, double, tenon::float16,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(2);
  for (const std::int64_t m : {1, 3, 7, 14}) {
    for (const Form a_form : support::all_forms) {
      for (const Form b_form : support::all_forms) {
        Operand<TestType, 3> a({3, m, 21}, a_form);
        Operand<TestType, 3> b({3, 21, 34}, b_form);
        a.fill(random);
        b.fill(random);
        const OnDevice x(ctx, a);
        const OnDevice y(ctx, b);
        const Form form = a_form == Form::broadcast ? b_form == Form::broadcast ? Form::padded : b_form : a_form;
        check_product<TestType>(ctx, a.view(), b.view(), x, y, form);
        check_product<TestType>(ctx, a.view().slice(2, 3, 12), b.view().slice(1, 5, 14), x.view().slice(2, 3, 12),
                                y.view().slice(1, 5, 14), Form::contiguous);
      }
    }
    Operand<TestType, 3> one({1, 1, 1});
    one.fill(random);
    Operand<TestType, 3> b({3, 21, 34});
    b.fill(random);
    const OnDevice x(ctx, one);
    const OnDevice y(ctx, b);
    check_product<TestType>(ctx, one.view().expand({3, m, 21}), b.view(), x.view().expand({3, m, 21}), y,
                            Form::contiguous);
    check_product<TestType>(ctx, b.view().slice(1, 0, m), one.view().expand({3, 34, 40}), y.view().slice(1, 0, m),
                            x.view().expand({3, 34, 40}), Form::contiguous);
  }
}

TEMPLATE_TEST_CASE("matmul on CUDA with few rows and a large matrix", "[cuda][matmul]", float, double, tenon::float16,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(3);
  // One row to each warp or two, and rows that are split over several.
  for (const auto& [m, n, k] :
       {std::tuple{1, 4096, 200}, {1, 256, 2500}, {2, 1000, 600}, {4, 512, 333}, {6, 344, 500}, {8, 2048, 160}}) {
    check_layouts<TestType>(ctx, random, 1, m, n, k);
  }
  // More than shared memory holds of so many rows, and of one.
  check_layouts<TestType>(ctx, random, 1, 8, 11008, 24);
  check_layouts<TestType>(ctx, random, 1, 7, 30000, 9);
  check_layouts<TestType>(ctx, random, 1, 1, 120000, 5);
}

TEMPLATE_TEST_CASE("matmul on CUDA with many rows", "[cuda][matmul]", float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(4);
  check_layouts<TestType>(ctx, random, 1, 70, 304, 200);
  check_layouts<TestType>(ctx, random, 5, 33, 64, 96);
  // Columns of a that are contiguous, and one matrix b for the whole batch.
  Operand<TestType, 3> a({4, 64, 48});
  Operand<TestType, 3> b({1, 64, 40});
  a.fill(random);
  b.fill(random);
  const auto x = upload(ctx, a);
  const auto y = upload(ctx, b);
  check_product<TestType>(ctx, a.view().transpose(1, 2), b.view().expand({4, 64, 40}),
                          Device<TestType>(x.transpose(1, 2)), Device<TestType>(y.expand({4, 64, 40})),
                          Form::contiguous);
}

TEMPLATE_TEST_CASE("matmul on CUDA of the scores and values of an attention", "[cuda][matmul]", float, double,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(5);
  for (const auto& [heads, group, dim, length] :
       {std::tuple{4, 2, 8, 100}, {2, 4, 128, 300}, {3, 1, 48, 257}, {32, 1, 128, 256}, {2, 8, 64, 1000}}) {
    Operand<TestType, 3> cache({length, heads, dim});
    Operand<TestType, 3> q({heads, group, dim});
    Operand<TestType, 3> weights({heads, group, length});
    cache.fill(random);
    q.fill(random);
    weights.fill(random);
    const auto rows = upload(ctx, cache);
    const auto query = upload(ctx, q);
    const auto shares = upload(ctx, weights);
    check_product<TestType>(ctx, q.view(), cache.view().permute({1, 2, 0}), query,
                            Device<TestType>(rows.permute({1, 2, 0})), Form::contiguous);
    check_product<TestType>(ctx, weights.view(), cache.view().permute({1, 0, 2}), shares,
                            Device<TestType>(rows.permute({1, 0, 2})), Form::contiguous);
  }
}

TEMPLATE_TEST_CASE("matmul on CUDA gives the bits of the product and then its epilogue", "[cuda][matmul]", float,
                   double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(6);
  for (const PointwiseProgram& program : {pointwise_program("01+"), pointwise_program("0s2*1+r"),
                                          pointwise_program("1230*++"), pointwise_program("1r")}) {
    // The kernels for one matrix, for batches of rows and of columns, cuBLASLt, and the general one.
    for (const auto& [sizes, n, aligned, by_rows] : {std::tuple{Sizes<3>{1, 1, 64}, 32, true, false},
                                                     {Sizes<3>{1, 1, 2500}, 64, true, false},
                                                     {Sizes<3>{1, 6, 200}, 64, true, false},
                                                     {Sizes<3>{2, 3, 300}, 32, true, false},
                                                     {Sizes<3>{2, 3, 300}, 30, false, false},
                                                     {Sizes<3>{2, 1, 96}, 40, true, true},
                                                     {Sizes<3>{1, 7, 37}, 31, false, true},
                                                     {Sizes<3>{2, 20, 40}, 32, true, true},
                                                     {Sizes<3>{2, 20, 37}, 30, false, false}}) {
      for (const Form form : support::writable_forms) {
        Operand<TestType, 3> a({sizes[0], sizes[1], n});
        Operand<TestType, 3> b(by_rows ? Sizes<3>{sizes[0], n, sizes[2]} : Sizes<3>{sizes[0], sizes[2], n});
        Operand<TestType, 3> other(sizes, form);
        Operand<TestType, 3> row({1, 1, sizes[2]});
        a.fill(random, -1, 1);
        b.fill(random, -1, 1);
        other.fill(random);
        row.fill(random);
        const Host<TestType> b_host = by_rows ? b.view() : b.view().transpose(1, 2);
        const std::vector<Host<TestType>> host{other.view(), row.view().expand(sizes), other.view()};
        const auto expected = tenon::reference::matmul<TestType>(a.view(), b_host, &program, host);

        const OnDevice a_strided(ctx, a);
        const OnDevice b_strided(ctx, b);
        const auto a_packed = upload(ctx, a);
        const auto b_packed = upload(ctx, b);
        const Device<TestType> left = aligned ? Device<TestType>(a_packed) : Device<TestType>(a_strided);
        const Device<TestType> stored = aligned ? Device<TestType>(b_packed) : Device<TestType>(b_strided);
        const Device<TestType> right = by_rows ? stored : stored.transpose(1, 2);
        const OnDevice other_device(ctx, other);
        const OnDevice row_device(ctx, row);
        const std::vector<Device<TestType>> operands{other_device, row_device.view().expand(sizes), other_device};

        const auto plain = tenon::empty<TestType>(ctx, sizes);
        const auto steps = tenon::empty<TestType>(ctx, sizes);
        tenon::matmul(ctx, View<TestType, 3, Cuda>(plain), left, right);
        std::vector<tenon::PointwiseView<const TestType, Cuda>> views{Device<TestType>(plain).unsqueeze(0)};
        for (const auto& operand : operands) views.push_back(operand.unsqueeze(0));
        tenon::pointwise(ctx, View<TestType, 3, Cuda>(steps).unsqueeze(0), views, program);
        const auto bits = support::bits(View<TestType, 3>(steps.cpu(ctx)));

        Operand<TestType, 3> out(sizes, form);
        const OnDevice out_device(ctx, out);
        tenon::matmul(ctx, out_device.view(), left, right, {&program, operands});
        out_device.read_back(out);
        INFO(tenon::shape_string(sizes) << ", n = " << n << ", " << support::form_name(form) << ", program of "
                                        << program.size() << " steps");
        // With many rows the algorithm depends on the layout of `out`.
        const bool exact = sizes[1] <= 8;
        if (exact) CHECK(support::bits(out.view()) == bits);
        CHECK(support::mismatch(out.view(), expected,
                                {200 * support::epsilon<TestType>(), 8 * support::epsilon<TestType>()}) == "");
        CHECK(out.intact());
        // An operand may be the output.
        const auto result = support::bits(out.view());
        tenon::copy(ctx, out_device.view(), Device<TestType>(other_device));
        const std::vector<Device<TestType>> in_place{out_device, operands[1], out_device};
        tenon::matmul(ctx, out_device.view(), left, right, {&program, in_place});
        out_device.read_back(out);
        if (exact) CHECK(support::bits(out.view()) == result);
        CHECK(support::mismatch(out.view(), expected,
                                {200 * support::epsilon<TestType>(), 8 * support::epsilon<TestType>()}) == "");
        CHECK(out.intact());
      }
    }
  }
}

TEMPLATE_TEST_CASE("matmul on CUDA in a graph: operands change between replays", "[cuda][matmul]", float,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(7);
  const PointwiseProgram program = pointwise_program("01+");
  for (const auto& [batch, m, n, k] : {std::tuple{1, 1, 512, 300}, {4, 2, 64, 256}, {1, 1, 64, 96}, {2, 20, 64, 48}}) {
    for (const bool by_rows : {false, true}) {
      Operand<TestType, 3> a({batch, m, n});
      Operand<TestType, 3> b(by_rows ? Sizes<3>{batch, n, k} : Sizes<3>{batch, k, n});
      Operand<TestType, 3> other({batch, m, k});
      const auto x = upload(ctx, a.fill(random));
      const auto stored = upload(ctx, b.fill(random));
      const auto residue = upload(ctx, other.fill(random));
      const Device<TestType> y = by_rows ? Device<TestType>(stored) : Device<TestType>(stored.transpose(1, 2));
      const auto plain = tenon::empty<TestType>(ctx, other.view().sizes());
      const auto captured = tenon::empty<TestType>(ctx, other.view().sizes());
      const std::array<Device<TestType>, 1> operands{residue};
      const auto call = [&](const View<TestType, 3, Cuda>& out) {
        tenon::matmul(ctx, out, x, y, {&program, operands});
      };
      call(captured);  // loads the kernels
      tenon::detail::CudaGraph graph(ctx, [&] { call(captured); });
      for (int i = 0; i < 3; ++i) {
        tenon::copy(ctx, View<TestType, 3, Cuda>(x), Host<TestType>(a.fill(random).view()));
        call(plain);
        graph.launch(ctx);
        INFO("(" << batch << ", " << m << ", " << n << ") to " << k << ", replay " << i);
        CHECK(support::bits(View<TestType, 3>(captured.cpu(ctx))) == support::bits(View<TestType, 3>(plain.cpu(ctx))));
      }
      ctx.set_dependent_launch(false);
      call(captured);
      CHECK(support::bits(View<TestType, 3>(captured.cpu(ctx))) == support::bits(View<TestType, 3>(plain.cpu(ctx))));
      ctx.set_dependent_launch(true);
    }
  }
}

TEST_CASE("matmul on CUDA lets NaN and infinity through, in their places only", "[cuda][matmul]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  for (const std::int64_t m : {1, 2, 12}) {
    for (const std::int64_t n : {5, 8, 40, 200}) {
      std::mt19937 random(8);
      Operand<float, 3> a({1, m, n});
      Operand<float, 3> b({1, n, 20});
      Operand<float, 3> c({1, 20, n});
      a.fill(random, 0.5, 1.0);
      b.fill(random, 0.5, 1.0);
      c.fill(random, 0.5, 1.0);
      b.view()(0, n - 1, 3) = std::numeric_limits<float>::quiet_NaN();
      b.view()(0, 0, 19) = std::numeric_limits<float>::infinity();
      c.view()(0, 3, n - 1) = std::numeric_limits<float>::quiet_NaN();
      c.view()(0, 19, 0) = std::numeric_limits<float>::infinity();
      const auto x = upload(ctx, a);
      const auto y = upload(ctx, b);
      const auto z = upload(ctx, c);
      check_product<float>(ctx, a.view(), b.view(), x, y, Form::contiguous);
      check_product<float>(ctx, a.view(), c.view().transpose(1, 2), x, Device<float>(z.transpose(1, 2)),
                           Form::contiguous);
    }
  }
}

TEST_CASE("matmul on CUDA: float keeps all its bits", "[cuda][matmul]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(9);
  for (const std::int64_t m : {1, 8, 64}) {
    // 1 + 2^-12 is 1 in TF32, and sums of so few are exact in float.
    Operand<float, 3> a({1, m, 128});
    Operand<float, 3> b({1, 128, 64});
    a.fill([] { return 1.0 + 0x1p-12; });
    b.fill([&] { return random() % 2 == 0 ? 1.0 : -1.0; });
    const auto out = tenon::empty<float>(ctx, {1, m, 64});
    tenon::matmul(ctx, View<float, 3, Cuda>(out), upload(ctx, a), upload(ctx, b));
    CHECK(support::mismatch(View<float, 3>(out.cpu(ctx)), tenon::reference::matmul<float>(a.view(), b.view()),
                            support::Tolerance{}) == "");
  }
}

TEST_CASE("G10: matmul on CUDA reaches elements more than 2^31 apart", "[cuda][matmul]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{8} << 30)) SKIP("this needs 8 GiB of device memory");
  using T = tenon::bfloat16;
  constexpr std::int64_t gap = (std::int64_t{1} << 31) + 64;  // elements: 4.3 GB
  const auto memory = tenon::allocate_storage(ctx, static_cast<std::size_t>(gap + 64) * 2);
  auto* data = reinterpret_cast<T*>(memory.data());
  std::mt19937 random(10);
  // Two lines of 64 elements, as the columns of one matrix, the rows of one, and the matrices of a batch.
  Operand<T, 3> lines({1, 2, 64});
  lines.fill(random);
  const View<T, 3, Cuda> far(data, tenon::Layout<3>({1, 2, 64}, {0, gap, 1}));
  tenon::copy(ctx, far, Host<T>(lines.view()));
  for (const std::int64_t m : {1, 3, 10}) {
    Operand<T, 3> a({1, m, 64});
    Operand<T, 3> short_rows({1, m, 2});
    a.fill(random);
    short_rows.fill(random);
    const auto x = upload(ctx, a);
    const auto y = upload(ctx, short_rows);
    check_product<T>(ctx, a.view(), lines.view().transpose(1, 2), x, far.transpose(1, 2), Form::contiguous);
    check_product<T>(ctx, short_rows.view(), lines.view(), y, far, Form::contiguous);
    const Host<T> batch = lines.view().permute({1, 2, 0});
    const Host<T> pair = a.view().expand({1, m, 64}).slice(1, 0, 1).expand({2, 1, 64});
    check_product<T>(ctx, pair, batch, Device<T>(x.slice(1, 0, 1).expand({2, 1, 64})), far.permute({1, 2, 0}),
                     Form::contiguous);
  }
}

TEST_CASE("matmul on CUDA refuses what it refuses on the CPU, in the same words", "[cuda][matmul]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check = [&](const Sizes<3>& out, const Sizes<3>& a, const Sizes<3>& b, const PointwiseProgram* program,
                         const std::vector<Sizes<3>>& operands, bool shared) {
    const auto call = [&](auto& c) {
      using On = typename std::remove_reference_t<decltype(c)>::device_type;
      const auto tensor = tenon::zeros<float>(c, out);
      View<float, 3, On> target = tensor;
      if (shared) target = {tensor.data(), tenon::Layout<3>(out, {out[1] * out[2], out[2], 0})};
      std::vector<tenon::Tensor<float, 3, On>> tensors;
      std::vector<View<const float, 3, On>> views;
      for (const auto& size : operands) {
        tensors.push_back(tenon::zeros<float>(c, size));
        views.push_back(tensors.back());
      }
      tenon::matmul(c, target, tenon::zeros<float>(c, a), tenon::zeros<float>(c, b), {program, views});
    };
    const std::string on_cpu = message_of([&] { call(host); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx); }) == on_cpu);
  };
  const PointwiseProgram residual = pointwise_program("01+");
  const PointwiseProgram product = pointwise_program("01c");
  check({2, 3, 5}, {2, 3, 4}, {2, 5, 4}, nullptr, {}, false);
  check({2, 3, 5}, {2, 3, 4}, {1, 4, 5}, nullptr, {}, false);
  check({2, 5, 3}, {2, 3, 4}, {2, 4, 5}, nullptr, {}, false);
  check({2, 3, 5}, {2, 3, 4}, {2, 4, 5}, nullptr, {}, true);
  check({2, 3, 5}, {2, 3, 4}, {2, 4, 5}, &residual, {}, false);
  check({2, 3, 5}, {2, 3, 4}, {2, 4, 5}, &residual, {{2, 5, 3}}, false);
  check({2, 3, 2}, {2, 3, 4}, {2, 4, 2}, &product, {{2, 3, 2}}, false);
}
