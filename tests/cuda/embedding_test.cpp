// embedding on CUDA, and the first kernel of a captured decoding step.
#include <tenon/ops/embedding.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/cuda/decode_embedding.hpp>
#include <tenon/ops/rope.hpp>

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

template <class T, class W>
struct Types {
  using Out = T;
  using Table = W;
};

tenon::Tensor<std::int64_t, 1, Cuda> upload(Context<Cuda>& ctx, const std::vector<std::int64_t>& values) {
  return tenon::from_span<std::int64_t>(ctx, Sizes<1>{static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace

TEMPLATE_TEST_CASE("embedding on CUDA picks rows in every layout and widens them exactly", "[cuda][embedding]",
                   (Types<float, float>), (Types<double, double>), (Types<tenon::float16, tenon::float16>),
                   (Types<tenon::bfloat16, tenon::bfloat16>), (Types<float, tenon::bfloat16>),
                   (Types<float, tenon::float16>)) {
  TENON_NEEDS_CUDA();
  using T = typename TestType::Out;
  using W = typename TestType::Table;
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const std::int64_t dim : {0, 1, 7, 16, 65, 264}) {
    for (const std::int64_t n : {0, 1, 5}) {
      for (const Form form : support::all_forms) {
        Operand<W, 2> weight({11, dim}, form);
        weight.fill(random, -100, 100);
        Operand<std::int64_t, 1> index({n}, form == Form::broadcast ? Form::stepped : form);
        index.fill([&] { return static_cast<double>(random() % 11); });
        const auto expected = tenon::reference::embedding(index.view(), weight.view());
        INFO(support::form_name(form) << ", " << n << " x " << dim);
        const OnDevice weight_device(ctx, weight);
        const OnDevice index_device(ctx, index);
        Operand<T, 2> out({n, dim}, form == Form::broadcast ? Form::padded : form);
        const OnDevice out_device(ctx, out);
        tenon::embedding(ctx, out_device.view(), index_device.view(), weight_device.view());
        out_device.read_back(out);
        CHECK(support::mismatch(out.view(), expected, support::Tolerance{}) == "");
        CHECK(out.intact());
        // Aligned, from a table that nobody writes, into rows that are wider than they need to be.
        const auto table = upload(ctx, weight);
        const auto wide = tenon::full<T>(ctx, {n, dim + 16}, 7);
        tenon::embedding(ctx, wide.slice(1, 0, dim), index_device.view(), View<const W, 2, Cuda>(table));
        const auto result = wide.cpu(ctx);
        CHECK(support::mismatch(View<T, 2>(result.slice(1, 0, dim)), expected, support::Tolerance{}) == "");
        for (const double x : tenon::reference::elements(View<T, 2>(result.slice(1, dim, dim + 16)))) {
          REQUIRE(x == 7.0);
        }
      }
    }
  }
}

TEST_CASE("embedding on CUDA widens every float16 and bfloat16", "[cuda][embedding]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::vector<std::int64_t> all(256);
  for (std::size_t i = 0; i < 256; ++i) all[i] = static_cast<std::int64_t>(i);
  const auto index = upload(ctx, all);
  const auto check = [&]<class W>(std::type_identity<W>) {
    Operand<W, 2> weight({256, 256});
    for (std::int64_t i = 0; i < 65536; ++i) weight.view().data()[i] = W::from_bits(static_cast<std::uint16_t>(i));
    const auto out = tenon::empty<float>(ctx, {256, 256});
    tenon::embedding(ctx, out, index, View<const W, 2, Cuda>(upload(ctx, weight)));
    CHECK(support::mismatch(View<float, 2>(out.cpu(ctx)), tenon::reference::elements(weight.view()), {}) == "");
    const auto same = tenon::empty<W>(ctx, {256, 256});
    tenon::embedding(ctx, same, index, View<const W, 2, Cuda>(upload(ctx, weight)));
    const auto result = same.cpu(ctx);
    for (std::int64_t i = 0; i < 65536; ++i) REQUIRE(result.data()[i].bits() == static_cast<std::uint16_t>(i));
  };
  check(std::type_identity<tenon::float16>{});
  check(std::type_identity<tenon::bfloat16>{});
}

TEST_CASE("embedding on CUDA refuses an index out of range before it writes anything", "[cuda][embedding]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const auto weight = tenon::ones<float>(ctx, {1536, 4});
  for (const std::int64_t bad : {std::int64_t{1600}, std::int64_t{1536}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const auto out = tenon::full<float>(ctx, {5, 4}, 7);
    const std::string words = "embedding: index[3] is " + std::to_string(bad) + ", not in [0, 1536)";
    CHECK_THROWS_MATCHES(tenon::embedding(ctx, out, upload(ctx, {0, 0, 0, bad, bad}), View<float, 2, Cuda>(weight)),
                         tenon::IndexError, Catch::Matchers::Message(words));
    CHECK(tenon::reference::elements(View<float, 2>(out.cpu(ctx))) == std::vector<double>(20, 7.0));
    // The context is still usable.
    tenon::embedding(ctx, out, upload(ctx, {0, 0, 0, 1535, 1}), View<float, 2, Cuda>(weight));
    CHECK(tenon::reference::elements(View<float, 2>(out.cpu(ctx))) == std::vector<double>(20, 1.0));
  }
  // The first of many, wherever it is among the threads.
  std::vector<std::int64_t> many(300001, 5);
  for (const std::size_t first : {std::size_t{0}, std::size_t{255}, std::size_t{256}, std::size_t{262143},
                                  std::size_t{262144}, std::size_t{300000}}) {
    auto indices = many;
    for (std::size_t i = first; i < indices.size(); ++i) indices[i] = -static_cast<std::int64_t>(i) - 1;
    const auto count = static_cast<std::int64_t>(indices.size());
    CHECK(message_of([&] {
            tenon::embedding(ctx, tenon::empty<float>(ctx, {count, 4}), upload(ctx, indices),
                             View<float, 2, Cuda>(weight));
          }) ==
          "embedding: index[" + std::to_string(first) + "] is -" + std::to_string(first + 1) + ", not in [0, 1536)");
  }
}

TEST_CASE("embedding on CUDA refuses what it refuses on the CPU, in the same words", "[cuda][embedding]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check = [&](auto&& call) {
    const std::string on_cpu = message_of([&] { call(host, View<float, 2, Cpu>()); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx, View<float, 2, Cuda>()); }) == on_cpu);
  };
  check([]<class D>(auto& c, View<float, 2, D>) {
    tenon::embedding(c, tenon::zeros<float>(c, {3, 5}), tenon::zeros<std::int64_t>(c, {3}),
                     View<float, 2, D>(tenon::zeros<float>(c, {10, 4})));
  });
  check([]<class D>(auto& c, View<float, 2, D>) {
    tenon::embedding(c, tenon::zeros<float>(c, {4, 1}).expand({4, 6}), tenon::zeros<std::int64_t>(c, {4}),
                     View<float, 2, D>(tenon::zeros<float>(c, {10, 6})));
  });
  check([]<class D>(auto& c, View<float, 2, D>) {
    tenon::embedding(c, tenon::zeros<float>(c, {3, 5}), tenon::zeros<std::int64_t>(c, {3}),
                     View<float, 2, D>(tenon::zeros<float>(c, {0, 5})));
  });
}

TEST_CASE("G10: embedding on CUDA from a table of more than 2^31 elements", "[cuda][embedding]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{8} << 30)) SKIP("this needs 8 GiB of device memory");
  const std::int64_t rows = 262144;
  const std::int64_t dim = 8960;
  const auto weight = tenon::empty<tenon::bfloat16>(ctx, {rows, dim});
  const std::vector<std::int64_t> picked{0, 239673, 239674, rows - 1};
  for (std::size_t i = 0; i < picked.size(); ++i) {
    tenon::fill(ctx, View<tenon::bfloat16, 2, Cuda>(weight.slice(0, picked[i], picked[i] + 1)),
                static_cast<double>(i) + 1.0);
  }
  const auto out = tenon::empty<float>(ctx, {4, dim});
  tenon::embedding(ctx, out, upload(ctx, picked), View<tenon::bfloat16, 2, Cuda>(weight));
  const auto result = out.cpu(ctx);
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t c = 0; c < dim; ++c) REQUIRE(result(i, c) == static_cast<float>(i + 1));
  }
}

TEMPLATE_TEST_CASE("decode_embedding gives the bits of embedding and rope_table", "[cuda][embedding]",
                   (Types<float, float>), (Types<double, double>), (Types<tenon::float16, tenon::float16>),
                   (Types<tenon::bfloat16, tenon::bfloat16>), (Types<float, tenon::bfloat16>),
                   (Types<float, tenon::float16>)) {
  TENON_NEEDS_CUDA();
  using T = typename TestType::Out;
  using W = typename TestType::Table;
  Context<Cuda> ctx;
  std::mt19937 random(2);
  struct Shape {
    std::int64_t hidden, head_dim;
    double theta;
  };
  for (const auto& [hidden, head_dim, theta] :
       {Shape{1536, 128, 1e4}, {896, 64, 1e6}, {7, 2, 1e4}, {130, 46, 1e6}, {8192, 512, 5e5}}) {
    Operand<W, 2> weight({19, hidden});
    weight.fill(random);
    const auto packed = upload(ctx, weight);
    const OnDevice shifted(ctx, weight);  // starts off any alignment
    const std::int64_t half = head_dim / 2;
    for (const std::int64_t position : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4095}, std::int64_t{131071}}) {
      const std::int64_t id = position % 19;
      const auto ids = upload(ctx, {id});
      const auto positions = upload(ctx, {position});
      const auto x = tenon::empty<T>(ctx, {1, hidden});
      const auto cos = tenon::empty<float>(ctx, {1, half});
      const auto sin = tenon::empty<float>(ctx, {1, half});
      tenon::embedding(ctx, x, ids, View<const W, 2, Cuda>(packed));
      tenon::rope_table(ctx, cos, sin, positions, theta);
      for (const View<const W, 2, Cuda>& table : {View<const W, 2, Cuda>(packed), View<const W, 2, Cuda>(shifted)}) {
        const auto x_out = tenon::full<T>(ctx, {hidden + 16}, 7);
        const auto angles = tenon::full<float>(ctx, {2 * half + 2}, 7);
        tenon::detail::decode_embedding<T, W>(ctx, x_out.data(), angles.data(), angles.data() + half + 1, ids.data(),
                                              positions.data(), table, head_dim, theta);
        INFO("hidden " << hidden << ", head_dim " << head_dim << ", position " << position);
        CHECK(support::bits(View<T, 1>(x_out.slice(0, 0, hidden).cpu(ctx))) ==
              support::bits(View<T, 1>(x.select(0, 0).cpu(ctx))));
        CHECK(tenon::reference::elements(View<T, 1>(x_out.slice(0, hidden, hidden + 16).cpu(ctx))) ==
              std::vector<double>(16, 7.0));
        CHECK(support::bits(View<float, 1>(angles.slice(0, 0, half).cpu(ctx))) ==
              support::bits(View<float, 1>(cos.select(0, 0).cpu(ctx))));
        CHECK(support::bits(View<float, 1>(angles.slice(0, half + 1, 2 * half + 1).cpu(ctx))) ==
              support::bits(View<float, 1>(sin.select(0, 0).cpu(ctx))));
        const auto all = angles.cpu(ctx);
        CHECK(all(half) == 7.0f);
        CHECK(all(2 * half + 1) == 7.0f);
      }
    }
  }
}
