#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/runtime/context.hpp>
#include <tenon/tensor/any_tensor.hpp>
#include <tenon/tensor/create.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::AnyTensor;
using tenon::Context;
using tenon::Cpu;
using tenon::DType;
using tenon::Tensor;
using Shape = std::vector<std::int64_t>;

/// Elements in row-major order, as double.
std::vector<double> values(const AnyTensor& tensor) {
  return tensor.visit([](const auto& typed) {
    std::vector<double> result;
    Context<Cpu> ctx(1);
    const auto dense = typed.clone(ctx);
    for (std::int64_t i = 0; i < dense.numel(); ++i) result.push_back(static_cast<double>(dense.data()[i]));
    return result;
  });
}

AnyTensor counted(Context<Cpu>& ctx, Shape sizes) {
  AnyTensor result = AnyTensor::empty(ctx, DType::float32, std::move(sizes));
  std::vector<float> host(static_cast<std::size_t>(result.numel()));
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i);
  result.load(ctx, std::as_bytes(std::span<const float>(host)));
  return result;
}

}  // namespace

TEST_CASE("any tensor: shares elements with typed tensors both ways", "[any_tensor]") {
  Context<Cpu> ctx(1);
  const auto typed = tenon::zeros<float>(ctx, {2, 3});
  const AnyTensor any = typed.transpose(0, 1);
  CHECK(any.dtype() == DType::float32);
  CHECK(any.device() == tenon::DeviceKind::cpu);
  CHECK(any.sizes() == Shape{3, 2});
  CHECK(any.strides() == Shape{1, 3});
  CHECK(any.rank() == 2);
  CHECK(any.nbytes() == 24);
  CHECK_FALSE(any.is_contiguous());
  CHECK_FALSE(any.read_only());
  const auto back = any.as<float, 2>();
  back(2, 1) = 8.0f;
  CHECK(typed(1, 2) == 8.0f);
  CHECK(any.as<const float, 2>()(2, 1) == 8.0f);
}

TEST_CASE("any tensor: downcasts are checked", "[any_tensor]") {
  Context<Cpu> ctx(1);
  const AnyTensor any = tenon::zeros<float>(ctx, {2, 3});
  CHECK_THROWS_WITH((any.as<tenon::bfloat16, 2>()), "tensor has dtype float32, asked for as bfloat16");
  CHECK_THROWS_AS((any.as<double, 2>()), tenon::DTypeError);
  CHECK_THROWS_AS((any.as<std::int32_t, 2>()), tenon::DTypeError);
  CHECK_THROWS_WITH((any.as<float, 3>()), "tensor has shape (2, 3), asked for with rank 3");
  CHECK_THROWS_AS((any.as<float, 1>()), tenon::ShapeError);
  CHECK_THROWS_WITH((any.as<float, 2, tenon::Cuda>()), "tensor is on cpu, asked for on cuda");
  CHECK_THROWS_AS((any.as<float, 2, tenon::Cuda>()), tenon::DeviceError);
}

TEST_CASE("any tensor: read-only elements are handed out as const only", "[any_tensor]") {
  Context<Cpu> ctx(1);
  const Tensor<const float, 1> fixed = tenon::full<float>(ctx, {4}, 1.0f);
  const AnyTensor any = fixed;
  CHECK(any.read_only());
  CHECK_THROWS_AS((any.as<float, 1>()), tenon::ValueError);
  CHECK((any.as<const float, 1>()(3)) == 1.0f);
  CHECK(any.slice(0, 1, 2).read_only());
  CHECK(any.view({2, 2}).read_only());
  const std::vector<std::byte> bytes(16);
  CHECK_THROWS_WITH(any.load(ctx, bytes), "load: the tensor is read-only");
  CHECK_FALSE(any.cast(ctx, DType::float64).read_only());
  CHECK(any.cast(ctx, DType::float32).data() == any.data());  // nothing to change: shared, still read-only
  CHECK(any.cast(ctx, DType::float32).read_only());

  // A mutable view made from read-only storage does not lose the mark on the way.
  const AnyTensor external = AnyTensor::from_external(DType::float32, {4}, any.data(), nullptr);
  CHECK(AnyTensor(external.as<const float, 1>()).read_only());
}

TEST_CASE("any tensor: external memory is borrowed, kept alive, and must be aligned", "[any_tensor]") {
  auto owner = std::make_shared<std::vector<double>>(std::vector<double>{1, 2, 3, 4});
  const auto* bytes = reinterpret_cast<const std::byte*>(owner->data());
  const std::weak_ptr<std::vector<double>> watch = owner;
  {
    AnyTensor row;
    {
      const AnyTensor any = AnyTensor::from_external(DType::float64, {2, 2}, bytes, owner);
      CHECK(any.read_only());
      CHECK(any.data() == bytes);
      row = any.select(0, 1);
    }
    owner.reset();
    CHECK_FALSE(watch.expired());
    CHECK(values(row) == std::vector<double>{3, 4});
  }
  CHECK(watch.expired());

  alignas(8) const std::byte memory[32]{};
  CHECK_THROWS_WITH(AnyTensor::from_external(DType::float32, {2}, memory + 2, nullptr),
                    "external data of dtype float32 is not aligned to its size");
  CHECK_THROWS_AS(AnyTensor::from_external(DType::bfloat16, {2}, memory + 1, nullptr), tenon::ValueError);
  CHECK_THROWS_AS(AnyTensor::from_external(DType::int64, {2}, memory + 4, nullptr), tenon::ValueError);
  CHECK_NOTHROW(AnyTensor::from_external(DType::int8, {2}, memory + 1, nullptr));
  CHECK_NOTHROW(AnyTensor::from_external(DType::float16, {2}, memory + 2, nullptr));
  CHECK_THROWS_AS(AnyTensor::from_external(DType::int8, {-2}, memory, nullptr), tenon::ShapeError);
  CHECK_THROWS_AS(AnyTensor::from_external(DType::int64, {std::int64_t{1} << 61}, memory, nullptr), tenon::ShapeError);
}

TEST_CASE("any tensor: view, permute, slice and select follow the typed tensor", "[any_tensor]") {
  Context<Cpu> ctx(1);
  const AnyTensor any = counted(ctx, {2, 3, 4});
  const auto typed = any.as<float, 3>();
  const auto check = [](const AnyTensor& actual, const AnyTensor& expected) {
    CHECK(actual.sizes() == expected.sizes());
    CHECK(actual.strides() == expected.strides());
    CHECK(actual.data() == expected.data());
    CHECK(values(actual) == values(expected));
  };
  check(any.permute({2, 0, 1}), typed.permute({2, 0, 1}));
  check(any.slice(-1, 1, 4, 2), typed.slice(-1, 1, 4, 2));
  check(any.slice(1, 3, 3), typed.slice(1, 3, 3));
  check(any.select(1, 2), typed.select(1, 2));
  check(any.view({6, -1}), typed.view({6, -1}));
  check(any.slice(2, 0, 2).view({6, 2}), typed.slice(2, 0, 2).view({6, 2}));
  check(any.select(0, 1).select(0, 1).select(0, 1), typed.select(0, 1).select(0, 1).select(0, 1));
  CHECK_THROWS_AS(any.permute({0, 1}), tenon::ShapeError);
  CHECK_THROWS_AS(any.permute({0, 1, 1}), tenon::ShapeError);
  CHECK_THROWS_AS(any.slice(3, 0, 1), tenon::IndexError);
  CHECK_THROWS_AS(any.slice(0, 0, 3), tenon::IndexError);
  CHECK_THROWS_AS(any.select(0, 2), tenon::IndexError);
  CHECK_THROWS_AS(any.slice(2, 0, 2).view({2, 6}), tenon::ShapeError);
  CHECK_THROWS_AS(AnyTensor::empty(ctx, DType::float32, {}).select(0, 0), tenon::IndexError);

  const Shape ones(80, 1);  // ranks that no typed tensor has
  const AnyTensor deep = counted(ctx, {1}).view(ones);
  Shape order(80);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(79 - i);
  CHECK(deep.permute(order).rank() == 80);
  order[0] = order[70];
  CHECK_THROWS_AS(deep.permute(order), tenon::ShapeError);
}

TEST_CASE("any tensor: visit hands over the typed tensor, up to a rank", "[any_tensor]") {
  Context<Cpu> ctx(1);
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::float8_e4m3,
                            DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8, DType::boolean}) {
    for (std::size_t rank = 0; rank <= 4; ++rank) {
      const AnyTensor any = AnyTensor::empty(ctx, dtype, Shape(rank, 2));
      const auto seen = any.visit([](const auto& typed) {
        using Typed = std::remove_cvref_t<decltype(typed)>;
        static_assert(std::is_const_v<typename Typed::element_type>);
        return std::pair(Typed::dtype(), Typed::rank);
      });
      CHECK(seen == std::pair(dtype, rank));
    }
  }
  const AnyTensor deep = AnyTensor::empty(ctx, DType::float32, {1, 1, 1, 1, 1});
  CHECK_THROWS_WITH(deep.visit([](const auto& typed) { return typed.numel(); }),
                    "tensor has shape (1, 1, 1, 1, 1), but its visitor takes ranks 0 to 4");
  CHECK(deep.visit<5>([](const auto& typed) { return typed.numel(); }) == 1);
  CHECK_THROWS_AS((counted(ctx, {2, 2}).visit<1>([](const auto& typed) { return typed.numel(); })), tenon::ShapeError);
}

TEST_CASE("any tensor: to converts every dtype into every other, from any layout", "[any_tensor]") {
  Context<Cpu> ctx(1);
  const std::vector<DType> all{DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::float8_e4m3,
                               DType::int8,    DType::int16,   DType::int32,   DType::int64,    DType::uint8};
  const AnyTensor base = counted(ctx, {2, 3});
  for (const DType from : all) {
    const AnyTensor source = base.cast(ctx, from).permute({1, 0});
    for (const DType to : all) {
      CAPTURE(tenon::dtype_name(from), tenon::dtype_name(to));
      const AnyTensor result = source.cast(ctx, to);
      CHECK(result.dtype() == to);
      CHECK(result.is_contiguous());
      CHECK(values(result) == std::vector<double>{0, 3, 1, 4, 2, 5});
    }
    CHECK(values(source.cast(ctx, DType::boolean)) == std::vector<double>{0, 1, 1, 1, 1, 1});
  }
  CHECK(base.contiguous(ctx).data() == base.data());
  CHECK(base.to(ctx).data() == base.data());
  CHECK(counted(ctx, {0, 3}).cast(ctx, DType::int8).sizes() == Shape{0, 3});
  CHECK(values(AnyTensor(tenon::full<float>(ctx, tenon::Sizes<0>{}, 2.5f)).cast(ctx, DType::float16)) ==
        std::vector<double>{2.5});
}

TEST_CASE("any tensor: load and impossible sizes", "[any_tensor]") {
  Context<Cpu> ctx(1);
  const AnyTensor any = AnyTensor::empty(ctx, DType::int16, {3});
  const std::vector<std::byte> six(6, std::byte{1});
  any.load(ctx, six);
  CHECK(values(any) == std::vector<double>{257, 257, 257});
  CHECK_THROWS_WITH(any.load(ctx, std::vector<std::byte>(5)), "load: 5 bytes do not fill shape (3,) of dtype int16");
  CHECK_THROWS_WITH(any.slice(0, 0, 3, 2).load(ctx, std::vector<std::byte>(4)), "load: the tensor is not contiguous");
  CHECK_THROWS_AS(AnyTensor::empty(ctx, DType::float32, {-1}), tenon::ShapeError);
  CHECK_THROWS_AS(AnyTensor::empty(ctx, DType::float32, {std::int64_t{1} << 62}), tenon::ShapeError);
  CHECK(AnyTensor().sizes() == Shape{0});
  CHECK(AnyTensor().numel() == 0);
  CHECK(AnyTensor().as<float, 1>().empty());
}
