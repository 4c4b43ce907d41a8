// copy and fill on CUDA: every pair of dtypes, every layout, and the edges of the types.
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/tensor/any_tensor.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"
#include "support/operand.hpp"

using support::Form;
using support::message_of;
using support::OnDevice;
using support::Operand;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::DType;
using tenon::Sizes;
using tenon::View;
using tenon::detail::StridedLayout;

namespace {

constexpr int dtypes = static_cast<int>(DType::boolean) + 1;
using Bytes = std::vector<std::byte>;

/// `count` elements of a dtype, converted on the CPU.
Bytes converted(DType to, DType from, const Bytes& elements) {
  const auto count = elements.size() / tenon::dtype_size(from);
  Bytes result(count * tenon::dtype_size(to));
  tenon::detail::convert_run(to, result.data(), from, elements.data(), 1, static_cast<std::int64_t>(count));
  return result;
}
template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes result(values.size() * sizeof(T));
  std::memcpy(result.data(), values.data(), result.size());
  return result;
}

StridedLayout layout_of(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  StridedLayout result;
  result.rank = static_cast<int>(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    result.sizes[i] = sizes[i];
    result.strides[i] = strides[i];
  }
  return result;
}

/// A block of device memory with the given bytes in it.
class Block {
 public:
  Block(Context<Cuda>& ctx, const Bytes& bytes)
      : ctx_(ctx), bytes_(bytes.size()), storage_(tenon::allocate_storage(ctx, bytes.size())) {
    tenon::detail::copy_bytes(ctx, storage_.data(), bytes.data(), bytes_, tenon::DeviceKind::cuda,
                              tenon::DeviceKind::cpu);
  }
  [[nodiscard]] std::byte* data() const { return storage_.data(); }
  [[nodiscard]] Bytes read() const {
    Bytes result(bytes_);
    tenon::detail::copy_bytes(ctx_, result.data(), storage_.data(), bytes_, tenon::DeviceKind::cpu,
                              tenon::DeviceKind::cuda);
    return result;
  }

 private:
  Context<Cuda>& ctx_;
  std::size_t bytes_;
  tenon::Storage<Cuda> storage_;
};

/// Where two runs of one dtype differ, as a sentence; NaN meets NaN, whatever its bits.
std::string difference(DType dtype, const Bytes& actual, const Bytes& expected) {
  if (actual.size() != expected.size()) return "sizes differ";
  const std::size_t size = tenon::dtype_size(dtype);
  const Bytes actual_values = converted(DType::float64, dtype, actual);
  const Bytes expected_values = converted(DType::float64, dtype, expected);
  for (std::size_t i = 0; i < actual.size() / size; ++i) {
    if (std::memcmp(&actual[i * size], &expected[i * size], size) == 0) continue;
    double a = 0.0;
    double b = 0.0;
    std::memcpy(&a, &actual_values[i * 8], 8);
    std::memcpy(&b, &expected_values[i * 8], 8);
    if (std::isnan(a) && std::isnan(b)) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(a) + ", expected " + std::to_string(b);
  }
  return "";
}

/// Converts `elements` on the device, without gaps, and says where the result differs from the CPU's.
std::string check_conversion(Context<Cuda>& ctx, DType to, DType from, const Bytes& elements) {
  const auto count = static_cast<std::int64_t>(elements.size() / tenon::dtype_size(from));
  const Bytes expected = converted(to, from, elements);
  const Block source(ctx, elements);
  const Block target(ctx, Bytes(expected.size() + 16, std::byte{0x5b}));
  const StridedLayout layout = layout_of({count}, {1});
  tenon::detail::copy_strided(ctx, {target.data(), to, layout}, {source.data(), from, layout});
  Bytes result = target.read();
  for (std::size_t i = expected.size(); i < result.size(); ++i) {
    if (result[i] != std::byte{0x5b}) return "byte " + std::to_string(i) + " behind the result was written";
  }
  result.resize(expected.size());
  return difference(to, result, expected);
}

std::vector<double> interesting_values() {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values{0.0,
                             -0.0,
                             1.0,
                             -1.0,
                             0.5,
                             -0.25,
                             1.5,
                             2.5,
                             3.75,
                             -2.0,
                             17.0,
                             100.0,
                             -129.0,
                             255.9,
                             256.0,
                             -128.9,
                             127.9,
                             32767.5,
                             -32769.0,
                             65504.0,
                             65519.9,
                             65520.0,
                             1e6,
                             447.9,
                             464.0,
                             465.0,
                             448.0,
                             2147483646.7,
                             2147483648.0,
                             -2147483649.0,
                             9223372036854774784.0,
                             9223372036854775808.0,
                             -9223372036854775808.0,
                             -1e30,
                             1e30,
                             3.5e38,
                             -3.5e38,
                             1e300,
                             1e-300,
                             1e-40,
                             6e-8,
                             3e-8,
                             2.9e-8,
                             0x1p-133,
                             0x1p-134,
                             0x1p-9,
                             0x1p-10,
                             0x1.8p-10,
                             inf,
                             -inf,
                             std::nan(""),
                             -std::nan("")};
  // Halfway between two values of each narrow type, and next to it: what is rounded twice goes wrong here.
  for (const int digits : {3, 7, 10}) {
    for (const double base : {1.0, 1.0 + std::ldexp(1.0, -digits)}) {
      const double halfway = base + std::ldexp(1.0, -digits - 1);
      for (const double x : {halfway, halfway + 0x1p-50, halfway - 0x1p-50, halfway + 0x1p-24}) {
        values.push_back(x);
        values.push_back(-x * 8);
      }
    }
  }
  return values;
}

}  // namespace

TEST_CASE("copy on CUDA converts every pair of dtypes as the CPU does", "[cuda][copy]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937_64 random(1);
  std::vector<double> floats = interesting_values();
  std::vector<std::int64_t> integers{0,
                                     1,
                                     -1,
                                     127,
                                     128,
                                     -128,
                                     -129,
                                     255,
                                     256,
                                     32767,
                                     65536,
                                     INT64_MAX,
                                     INT64_MIN,
                                     (std::int64_t{1} << 53) + 1,
                                     0x7fffffffffffff01};
  for (int i = 0; i < 300; ++i) {
    floats.push_back(
        std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())), -static_cast<int>(random() % 90)));
    integers.push_back(static_cast<std::int64_t>(random()) >> random() % 63);
  }
  for (int from = 0; from < dtypes; ++from) {
    const auto from_dtype = static_cast<DType>(from);
    const bool integral = tenon::detail::is_integral(from_dtype);
    const Bytes elements = integral ? converted(from_dtype, DType::int64, bytes_of(integers))
                                    : converted(from_dtype, DType::float64, bytes_of(floats));
    for (int to = 0; to < dtypes; ++to) {
      const auto to_dtype = static_cast<DType>(to);
      INFO(tenon::dtype_name(from_dtype) << " to " << tenon::dtype_name(to_dtype));
      CHECK(check_conversion(ctx, to_dtype, from_dtype, elements) == "");
    }
  }
}

TEST_CASE("copy on CUDA: the narrow floats, every pattern of 16 bits and many of 32", "[cuda][copy]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  for (const DType from : {DType::float16, DType::bfloat16}) {
    for (const DType to : {DType::float32, DType::float16, DType::bfloat16, DType::float64, DType::int32}) {
      INFO(tenon::dtype_name(from) << " to " << tenon::dtype_name(to));
      CHECK(check_conversion(ctx, to, from, bytes_of(patterns)) == "");
    }
  }
  std::mt19937 random(2);
  std::vector<std::uint32_t> bits(200001);
  for (std::uint32_t& x : bits) x = static_cast<std::uint32_t>(random());
  for (std::size_t i = 0; i < 65536; ++i) {  // every float16 with the bits behind it at and beside the halfway point
    const float x = tenon::float16::from_bits(patterns[i]);
    bits[i] = std::bit_cast<std::uint32_t>(x) + (i % 3 == 0 ? 0x0fffu : i % 3 == 1 ? 0x1000u : 0x1001u);
    bits[i + 65536] = static_cast<std::uint32_t>(i) << 16 | (i % 3 == 0 ? 0x7fffu : i % 3 == 1 ? 0x8000u : 0x8001u);
  }
  for (const DType to : {DType::float16, DType::bfloat16, DType::float8_e4m3, DType::int8, DType::boolean}) {
    INFO("float32 to " << tenon::dtype_name(to));
    CHECK(check_conversion(ctx, to, DType::float32, bytes_of(bits)) == "");
  }
}

TEST_CASE("copy on CUDA between strides: transposed, stepped, reversed, broadcast, of eight dimensions",
          "[cuda][copy]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(3);
  struct Pair {
    DType to, from;
  };
  for (const auto& [to, from] : {Pair{DType::bfloat16, DType::float32},
                                 {DType::float32, DType::float16},
                                 {DType::float16, DType::bfloat16},
                                 {DType::float64, DType::int32},
                                 {DType::int8, DType::float32},
                                 {DType::int16, DType::int16},
                                 {DType::float32, DType::float32},
                                 {DType::boolean, DType::float16}}) {
    tenon::visit_dtype(from, [&, to = to, from = from]<class From>(std::type_identity<From>) {
      tenon::visit_dtype(to, [&]<class To>(std::type_identity<To>) {
        for (const Sizes<3> sizes : {Sizes<3>{1, 1, 1}, {0, 2, 3}, {3, 4, 0}, {2, 3, 5}, {2, 40, 35}, {3, 1, 64}}) {
          for (const Form in_form : support::all_forms) {
            Operand<From, 3> in(sizes, in_form);
            in.fill([&] { return static_cast<double>(random() % 100) - 50.0; });
            const OnDevice in_device(ctx, in);
            const Form out_form = support::writable_forms[random() % support::writable_forms.size()];
            Operand<To, 3> out(sizes, out_form);
            Operand<To, 3> expected(sizes);
            Context<Cpu> host(1);
            tenon::copy(host, expected.view(), in.view());
            const OnDevice out_device(ctx, out);
            tenon::copy(ctx, out_device.view(), in_device.view());
            out_device.read_back(out);
            INFO(tenon::dtype_name(from) << " to " << tenon::dtype_name(to) << ", " << support::form_name(in_form)
                                         << " to " << support::form_name(out_form) << ", "
                                         << tenon::shape_string(sizes));
            CHECK(support::mismatch(out.view(), tenon::reference::elements(expected.view()), {}) == "");
            CHECK(out.intact());
          }
        }
      });
    });
  }
  Operand<float, 8> in({2, 3, 1, 2, 3, 2, 1, 5});
  in.fill(random);
  const OnDevice device(ctx, in);
  const Sizes<8> order{5, 7, 0, 4, 2, 1, 6, 3};
  const auto turned = device.view().permute(order);
  const auto out = tenon::empty<float>(ctx, turned.sizes());
  tenon::copy(ctx, View<float, 8, Cuda>(out), turned);
  CHECK(support::bits(View<float, 8>(out.cpu(ctx))) == support::bits(in.view().permute(order)));
  const auto same = tenon::empty<tenon::float16>(ctx, {4, 6});
  tenon::fill(ctx, View<tenon::float16, 2, Cuda>(same), 2.5);
  tenon::copy(ctx, View<tenon::float16, 2, Cuda>(same), View<tenon::float16, 2, Cuda>(same));
  CHECK(tenon::reference::elements(View<tenon::float16, 2>(same.cpu(ctx))) == std::vector<double>(24, 2.5));
}

TEST_CASE("copy between the CPU and CUDA, with strides and conversion on either side", "[cuda][copy]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(4);
  for (const Form form : support::writable_forms) {
    INFO(support::form_name(form));
    Operand<float, 2> host({7, 33}, form);
    host.fill(random);
    Operand<tenon::bfloat16, 2> guard({7, 33}, form);
    const OnDevice strided(ctx, guard);
    tenon::copy(ctx, strided.view(), View<const float, 2>(host.view()));
    Operand<double, 2> back({7, 33}, form);
    tenon::copy(ctx, back.view(), View<const tenon::bfloat16, 2, Cuda>(strided.view()));
    std::vector<double> expected;
    for (const double x : tenon::reference::elements(host.view())) {
      expected.push_back(tenon::reference::rounded<tenon::bfloat16>(x));
    }
    CHECK(tenon::reference::elements(back.view()) == expected);
    CHECK(back.intact());
    strided.read_back(guard);
    CHECK(guard.intact());
  }
  const auto columns = tenon::arange<std::int64_t>(ctx, 24).view({4, 6}).transpose(0, 1);
  const auto packed = columns.contiguous(ctx).cpu(ctx);
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) CHECK(packed(i, j) == 6 * j + i);
  }
  CHECK(message_of([&] {
          tenon::copy(ctx, View<float, 2, Cuda>(tenon::zeros<float>(ctx, {2, 3})),
                      View<float, 2, Cuda>(tenon::zeros<float>(ctx, {3, 2})));
        }) == "copy: dst has shape (2, 3), but src has shape (3, 2)");
}

TEMPLATE_TEST_CASE("fill on CUDA writes every element and nothing else", "[cuda][copy]", float, double, tenon::float16,
                   tenon::bfloat16, tenon::float8_e4m3, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                   std::uint8_t, bool) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  for (const Sizes<2> sizes : {Sizes<2>{1, 1}, {0, 3}, {3, 0}, {3, 5}, {4, 64}, {7, 301}}) {
    for (const Form form : support::writable_forms) {
      Operand<TestType, 2> out(sizes, form);
      const OnDevice device(ctx, out);
      tenon::fill(ctx, device.view(), 1);
      device.read_back(out);
      INFO(support::form_name(form) << ", " << tenon::shape_string(sizes));
      CHECK(support::mismatch(out.view(), std::vector<double>(static_cast<std::size_t>(out.view().numel()), 1.0), {}) ==
            "");
      CHECK(out.intact());
    }
  }
  for (const std::int64_t n : {1, 15, 16, 17, 4099}) {  // aligned, with every kind of end
    const auto memory = tenon::zeros<TestType>(ctx, {n + 32});
    const View<TestType, 1, Cuda> part(memory.slice(0, 0, n));
    tenon::fill(ctx, part, 1);
    const auto result = memory.cpu(ctx);
    std::vector<double> expected(static_cast<std::size_t>(n + 32), 0.0);
    for (std::int64_t i = 0; i < n; ++i) expected[static_cast<std::size_t>(i)] = 1.0;
    INFO("n = " << n);
    CHECK(tenon::reference::elements(View<TestType, 1>(result)) == expected);
  }
  const auto scalar = tenon::zeros<TestType>(ctx, Sizes<0>{});
  tenon::fill(ctx, View<TestType, 0, Cuda>(scalar), 1);
  CHECK(static_cast<double>(*scalar.cpu(ctx).data()) == 1.0);
}

TEST_CASE("G10: copy and fill on CUDA reach elements more than 2^31 apart", "[cuda][copy]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  constexpr std::int64_t gap = (std::int64_t{1} << 31) + 48;
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{12} << 30)) SKIP("this needs 12 GiB of device memory");
  Operand<float, 2> host({2, 48});
  std::mt19937 random(5);
  host.fill(random);
  const auto memory = tenon::allocate_storage(ctx, static_cast<std::size_t>(gap + 48) * 2);
  const View<tenon::bfloat16, 2, Cuda> far(reinterpret_cast<tenon::bfloat16*>(memory.data()),
                                           tenon::Layout<2>({2, 48}, {gap, 1}));
  const auto near = tenon::empty<float>(ctx, {2, 48});
  tenon::copy(ctx, View<float, 2, Cuda>(near), View<const float, 2>(host.view()));
  tenon::copy(ctx, far, View<const float, 2, Cuda>(near));
  const auto back = tenon::empty<double>(ctx, {2, 48});
  tenon::copy(ctx, View<double, 2, Cuda>(back), View<const tenon::bfloat16, 2, Cuda>(far));
  std::vector<double> expected;
  for (const double x : tenon::reference::elements(host.view())) {
    expected.push_back(tenon::reference::rounded<tenon::bfloat16>(x));
  }
  CHECK(tenon::reference::elements(View<double, 2>(back.cpu(ctx))) == expected);
  // More than 2^32 elements, which need 64 bits to be counted.
  const auto many = tenon::empty<std::int8_t>(ctx, {3, (std::int64_t{1} << 31) + 5});
  const View<std::int8_t, 2, Cuda> odd(many.slice(1, 1, (std::int64_t{1} << 31) + 4));
  tenon::fill(ctx, View<std::int8_t, 2, Cuda>(many), 1);
  tenon::fill(ctx, odd, 2);
  for (const std::int64_t row : {0, 2}) {
    const auto last = many.slice(0, row, row + 1).slice(1, (std::int64_t{1} << 31), (std::int64_t{1} << 31) + 5);
    CHECK(tenon::reference::elements(View<std::int8_t, 2>(last.cpu(ctx))) == std::vector<double>{2, 2, 2, 2, 1});
    const auto first = many.slice(0, row, row + 1).slice(1, 0, 3);
    CHECK(tenon::reference::elements(View<std::int8_t, 2>(first.cpu(ctx))) == std::vector<double>{1, 2, 2});
  }
}
