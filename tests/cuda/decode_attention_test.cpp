// decode_attention against rope and self_attention of the reference, over positions, shapes, steps and graphs.
#include <tenon/cuda/decode_attention.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/cuda/graph.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"

using tenon::Cuda;
using Context = tenon::Context<Cuda>;
using Shape = tenon::detail::DecodeAttentionShape;

namespace {

/// Device memory of `count` elements from `offset` elements behind an aligned address on.
template <class T>
class Memory {
 public:
  Memory(Context& ctx, std::size_t count, std::size_t offset = 0)
      : ctx_(ctx),
        storage_(tenon::allocate_storage(ctx, (count + offset + 1) * sizeof(T))),
        count_(count),
        offset_(offset) {}

  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(storage_.data()) + offset_; }
  void put(const std::vector<T>& from) const {
    tenon::detail::copy_bytes(ctx_, reinterpret_cast<std::byte*>(data()),
                              reinterpret_cast<const std::byte*>(from.data()), from.size() * sizeof(T),
                              tenon::DeviceKind::cuda, tenon::DeviceKind::cpu);
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> to(count_);
    tenon::detail::copy_bytes(ctx_, reinterpret_cast<std::byte*>(to.data()), reinterpret_cast<const std::byte*>(data()),
                              count_ * sizeof(T), tenon::DeviceKind::cpu, tenon::DeviceKind::cuda);
    return to;
  }

 private:
  Context& ctx_;
  tenon::Storage<Cuda> storage_;
  std::size_t count_;
  std::size_t offset_;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// A cache and the inputs of a step, here and on the device.
template <class T>
class Step {
 public:
  Step(Context& ctx, const Shape& shape, std::size_t offset = 0)
      : shape(shape),
        keys(row() * static_cast<std::size_t>(shape.capacity), not_a_number()),
        values(keys),
        qkv(static_cast<std::size_t>((shape.heads + 2 * shape.kv_heads) * shape.dim)),
        cos(static_cast<std::size_t>(shape.dim / 2)),
        sin(cos),
        device_out(ctx, static_cast<std::size_t>(shape.heads * shape.dim), offset),
        device_keys(ctx, keys.size(), offset),
        device_values(ctx, keys.size(), offset),
        device_qkv(ctx, qkv.size(), offset),
        device_cos(ctx, cos.size()),
        device_sin(ctx, cos.size()),
        position(ctx, 1),
        partial(ctx, static_cast<std::size_t>(decode_attention_partials(ctx.properties(), shape))),
        tickets(ctx, static_cast<std::size_t>(decode_attention_tickets(ctx.properties(), shape))) {
    tickets.put(std::vector<unsigned>(static_cast<std::size_t>(decode_attention_tickets(ctx.properties(), shape)), 0u));
  }

  /// Random rows before `at`, NaN from there on, and a random token.
  void fill(std::int64_t at, unsigned seed = 1) {
    std::mt19937 random(seed + static_cast<unsigned>(at));
    std::uniform_real_distribution<double> distribution(-1.5, 1.5);
    const std::size_t known = row() * static_cast<std::size_t>(at);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = i < known ? tenon::detail::convert<T>(distribution(random)) : not_a_number();
      values[i] = i < known ? tenon::detail::convert<T>(distribution(random)) : not_a_number();
    }
    device_keys.put(keys);
    device_values.put(values);
    next_token(at, seed);
  }
  void next_token(std::int64_t at, unsigned seed = 1) {
    std::mt19937 random(1000 + seed + static_cast<unsigned>(at));
    std::uniform_real_distribution<double> distribution(-1.5, 1.5);
    for (T& x : qkv) x = tenon::detail::convert<T>(distribution(random));
    for (std::size_t i = 0; i < cos.size(); ++i) {
      cos[i] = static_cast<float>(std::cos(static_cast<double>(at) * std::pow(0.7, static_cast<double>(i))));
      sin[i] = static_cast<float>(std::sin(static_cast<double>(at) * std::pow(0.7, static_cast<double>(i))));
    }
    device_qkv.put(qkv);
    device_cos.put(cos);
    device_sin.put(sin);
    position.put({at});
  }

  void run(Context& ctx) const {
    tenon::detail::decode_attention<T>(ctx, device_out.data(), device_qkv.data(), device_keys.data(),
                                       device_values.data(), device_cos.data(), device_sin.data(), position.data(),
                                       shape, {partial.data(), tickets.data()});
  }

  /// Empty if the step at `at` left what it should: the results, the new rows, and nothing else.
  std::string check(std::int64_t at) {
    const std::vector<T> new_keys = device_keys.get();
    const std::vector<T> new_values = device_values.get();
    const std::size_t first = row() * static_cast<std::size_t>(at);
    const tenon::View<const float, 2> angles_cos(cos.data(), {1, shape.dim / 2});
    const tenon::View<const float, 2> angles_sin(sin.data(), {1, shape.dim / 2});
    const T* k = qkv.data() + shape.heads * shape.dim;
    const T* v = k + shape.kv_heads * shape.dim;
    const auto rotated_key =
        tenon::reference::rope(tenon::View<const T, 3>(k, {1, shape.kv_heads, shape.dim}), angles_cos, angles_sin);
    std::string wrong =
        support::mismatch(tenon::View<const T, 3>(new_keys.data() + first, {1, shape.kv_heads, shape.dim}), rotated_key,
                          support::tolerance<T>(2, 4.0));
    if (!wrong.empty()) return "new key: " + wrong;
    for (std::size_t i = 0; i < row(); ++i) {
      keys[first + i] = new_keys[first + i];
      values[first + i] = v[i];
    }
    if (!same_bits(keys, new_keys)) return "keys of other rows changed";
    if (!same_bits(values, new_values)) return "the new value is wrong, or values of other rows changed";
    std::vector<T> q;
    for (const double x : tenon::reference::rope(tenon::View<const T, 3>(qkv.data(), {1, shape.heads, shape.dim}),
                                                 angles_cos, angles_sin)) {
      q.push_back(tenon::detail::convert<T>(x));
    }
    const auto expected = tenon::reference::self_attention(
        tenon::View<const T, 3>(q.data(), {1, shape.heads, shape.dim}),
        tenon::View<const T, 3>(keys.data(), {at + 1, shape.kv_heads, shape.dim}),
        tenon::View<const T, 3>(values.data(), {at + 1, shape.kv_heads, shape.dim}), shape.scale, shape.window);
    const std::vector<T> out = device_out.get();
    // As for self_attention, with scores of d products of up to 2 * 1.5^2.
    wrong = support::mismatch(tenon::View<const T, 3>(out.data(), {1, shape.heads, shape.dim}), expected,
                              support::tolerance<T>(shape.dim + at + 1, 20.0));
    return wrong.empty() ? "" : "out: " + wrong;
  }

  [[nodiscard]] std::size_t row() const { return static_cast<std::size_t>(shape.kv_heads * shape.dim); }
  static T not_a_number() { return tenon::detail::convert<T>(std::numeric_limits<double>::quiet_NaN()); }

  Shape shape;
  std::vector<T> keys, values, qkv;
  std::vector<float> cos, sin;
  Memory<T> device_out, device_keys, device_values, device_qkv;
  Memory<float> device_cos, device_sin;
  Memory<std::int64_t> position;
  Memory<float> partial;
  Memory<unsigned> tickets;
};

Shape make_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t dim, std::int64_t capacity,
                 std::int64_t window = 0) {
  return {heads, kv_heads, dim, capacity, window, 1.0 / std::sqrt(static_cast<double>(dim))};
}

std::string describe(const Shape& shape) {
  return std::to_string(shape.heads) + " heads on " + std::to_string(shape.kv_heads) + ", dim " +
         std::to_string(shape.dim) + ", window " + std::to_string(shape.window);
}

}  // namespace

TEMPLATE_TEST_CASE("decode_attention is rope, append and self_attention at every position", "[cuda][decode_attention]",
                   float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const Shape& shape : {make_shape(12, 2, 128, 2048), make_shape(14, 2, 64, 2048), make_shape(4, 4, 80, 400),
                             make_shape(20, 1, 64, 400)}) {
    Step<TestType> step(ctx, shape);
    for (const std::int64_t at : {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 300, 2047}) {
      if (at >= shape.capacity) continue;
      step.fill(at);
      step.run(ctx);
      INFO(describe(shape) << ", position " << at);
      CHECK(step.check(at) == "");
      const auto first = step.device_out.get();
      step.run(ctx);
      CHECK(same_bits(step.device_out.get(), first));
    }
  }
}

TEMPLATE_TEST_CASE("decode_attention takes heads of any even size, groups of any size, and any alignment",
                   "[cuda][decode_attention]", float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const Shape& shape :
       {make_shape(1, 1, 2, 200), make_shape(3, 1, 6, 200), make_shape(2, 2, 32, 200), make_shape(7, 1, 8, 200),
        make_shape(6, 2, 96, 200), make_shape(9, 1, 104, 200), make_shape(16, 1, 128, 200), make_shape(17, 1, 24, 200),
        make_shape(5, 1, 130, 200), make_shape(2, 1, 256, 200), make_shape(300, 300, 4, 200)}) {
    for (const std::size_t offset : {0, 1}) {
      Step<TestType> step(ctx, shape, offset);
      for (const std::int64_t at : {0, 40, 199}) {
        step.fill(at);
        step.run(ctx);
        INFO(describe(shape) << ", position " << at << ", memory off by " << offset);
        CHECK(step.check(at) == "");
      }
    }
  }
}

TEMPLATE_TEST_CASE("decode_attention with a window", "[cuda][decode_attention]", float, tenon::float16,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const std::int64_t window : {1, 5, 64, 129, 200, 5000}) {
    Step<TestType> step(ctx, make_shape(6, 2, 64, 700, window));
    for (const std::int64_t at : {0, 4, 5, 64, 128, 129, 200, 699}) {
      step.fill(at);
      // What the window has left behind is not seen, whatever it is.
      for (std::size_t i = 0; i < step.row() * static_cast<std::size_t>(std::max<std::int64_t>(0, at + 1 - window));
           ++i) {
        step.values[i] = Step<TestType>::not_a_number();
      }
      step.device_values.put(step.values);
      step.run(ctx);
      INFO(describe(step.shape) << ", position " << at);
      CHECK(step.check(at) == "");
    }
  }
}

TEMPLATE_TEST_CASE("G12, G13: decode_attention: step follows step, with and without a graph, and gives the same bits",
                   "[cuda][decode_attention]", float, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const Shape& shape : {make_shape(12, 2, 128, 600), make_shape(9, 1, 24, 600)}) {
    Step<TestType> plain(ctx, shape);
    Step<TestType> captured(ctx, shape);
    plain.fill(110);
    captured.fill(110);
    plain.run(ctx);  // loads the kernel
    tenon::detail::CudaGraph graph(ctx, [&] { captured.run(ctx); });
    for (std::int64_t at = 110; at < 600; at += at < 140 || at > 590 ? 1 : 45) {
      if (at > 140) {  // a jump: rows in between are new
        plain.fill(at);
        captured.fill(at);
      } else {
        plain.next_token(at);
        captured.next_token(at);
      }
      plain.run(ctx);
      graph.launch(ctx);
      INFO(describe(shape) << ", position " << at);
      CHECK(plain.check(at) == "");
      CHECK(captured.check(at) == "");
      CHECK(same_bits(plain.device_out.get(), captured.device_out.get()));
      CHECK(same_bits(captured.tickets.get(), std::vector<unsigned>(captured.tickets.get().size(), 0u)));
    }
    ctx.set_dependent_launch(false);
    const auto before = plain.device_out.get();
    plain.run(ctx);
    CHECK(same_bits(plain.device_out.get(), before));
    ctx.set_dependent_launch(true);
  }
}

TEST_CASE("G14: decode_attention at a far position, in a grid that was chosen without knowing it",
          "[cuda][decode_attention]") {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const std::int64_t heads : {2, 1}) {
    Step<tenon::bfloat16> step(ctx, make_shape(heads, 1, 32, std::int64_t{1} << 17));
    for (const std::int64_t at : {100000, (1 << 17) - 1}) {
      step.fill(at);
      step.run(ctx);
      INFO(describe(step.shape) << ", position " << at);
      CHECK(step.check(at) == "");
    }
  }
}

TEST_CASE("decode_attention does nothing at a position outside the cache", "[cuda][decode_attention]") {
  TENON_NEEDS_CUDA();
  Context ctx;
  Step<tenon::bfloat16> step(ctx, make_shape(4, 2, 64, 100));
  step.fill(50);
  step.run(ctx);
  CHECK(step.check(50) == "");
  const auto out = step.device_out.get();
  const auto keys = step.device_keys.get();
  for (const std::int64_t at : {-1, 100, 1000}) {
    step.position.put({at});
    step.run(ctx);
    CHECK(same_bits(step.device_out.get(), out));
    CHECK(same_bits(step.device_keys.get(), keys));
  }
}

TEST_CASE("decode_attention refuses shapes that it has no kernel for", "[cuda][decode_attention]") {
  TENON_NEEDS_CUDA();
  Context ctx;
  const auto run = [&](const Shape& shape) {
    tenon::detail::decode_attention<float>(ctx, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, shape,
                                           {});
  };
  CHECK_THROWS_MATCHES(
      run({4, 3, 8, 10, 0, 1.0}), tenon::ShapeError,
      Catch::Matchers::Message("decode_attention: 4 heads of 8 elements on 3 kv heads, 10 rows, window 0"));
  CHECK_THROWS_AS(run({4, 2, 7, 10, 0, 1.0}), tenon::ShapeError);
  CHECK_THROWS_AS(run({4, 2, 258, 10, 0, 1.0}), tenon::ShapeError);
  CHECK_THROWS_AS(run({4, 0, 8, 10, 0, 1.0}), tenon::ShapeError);
}
