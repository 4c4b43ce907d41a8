// What every operator demands of its outputs.
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <tenon/tenon.hpp>

using Catch::Matchers::ContainsSubstring;
using tenon::ShapeError;

TEST_CASE("operators refuse an output in which several results share an element", "[ops]") {
  tenon::Context<tenon::Cpu> ctx(2);
  const auto column = tenon::zeros<float>(ctx, {4, 1});
  const auto shared = column.expand({4, 6});
  const auto x = tenon::full<float>(ctx, {4, 6}, 1.0f);
  const auto weight = tenon::full<float>(ctx, {6}, 1.0f);
  const auto square = tenon::full<float>(ctx, {6, 6}, 1.0f);
  const auto ids = tenon::zeros<std::int64_t>(ctx, {4});
  const std::string words = ": out has shape (4, 6) with strides (1, 0), so several results would share one element";
  CHECK_THROWS_WITH(tenon::add(ctx, shared, x, x), ContainsSubstring("add" + words));
  CHECK_THROWS_WITH(tenon::swiglu(ctx, shared, x, x), ContainsSubstring("swiglu" + words));
  CHECK_THROWS_WITH(tenon::rearrange(ctx, shared, x), ContainsSubstring("rearrange" + words));
  CHECK_THROWS_WITH(tenon::rms_norm(ctx, shared, x, weight, 1e-6), ContainsSubstring("rms_norm" + words));
  CHECK_THROWS_WITH(tenon::linear(ctx, shared, x, square, std::nullopt), ContainsSubstring("linear" + words));
  CHECK_THROWS_WITH(tenon::embedding(ctx, shared, ids, x), ContainsSubstring("embedding" + words));

  const auto heads = tenon::zeros<float>(ctx, {4, 1, 6}).expand({4, 3, 6});
  const auto q = tenon::full<float>(ctx, {4, 3, 6}, 1.0f);
  const auto pos_ids = tenon::arange<std::int64_t>(ctx, 4);
  CHECK_THROWS_AS(tenon::self_attention(ctx, heads, q, q, q, 1.0), ShapeError);
  CHECK_THROWS_AS(tenon::rope(ctx, heads, q, pos_ids, 10000.0), ShapeError);

  const std::string cube =
      ": out has shape (4, 3, 6) with strides (6, 0, 1), so several results would share one element";
  CHECK_THROWS_WITH(tenon::matmul(ctx, heads, q, tenon::zeros<float>(ctx, {4, 6, 6})),
                    ContainsSubstring("matmul" + cube));
  const auto prefix = tenon::zeros<std::int64_t>(ctx, {1});
  CHECK_THROWS_WITH(tenon::sliced_softmax(ctx, heads, q, prefix), ContainsSubstring("sliced_softmax" + cube));
  const tenon::PointwiseStep load[] = {{tenon::PointwiseCode::load, 0}};
  const tenon::PointwiseView<const float, tenon::Cpu> operand = q.unsqueeze(0);
  CHECK_THROWS_AS(tenon::pointwise(ctx, heads.unsqueeze(0), {&operand, 1}, tenon::PointwiseProgram(load)), ShapeError);
  const auto end = tenon::full<std::int64_t>(ctx, {1}, 4);
  CHECK_THROWS_WITH(tenon::replace_slice(ctx, heads.unsqueeze(1), q.unsqueeze(1), prefix, end),
                    ContainsSubstring("replace_slice: x has shape (4, 1, 3, 6)"));

  const auto index = tenon::zeros<std::int64_t>(ctx, {1, 1});
  const auto value = tenon::zeros<float>(ctx, {4, 1});
  CHECK_THROWS_AS(tenon::argmax(ctx, index.expand({4, 1}), value, x), ShapeError);
  for (std::int64_t i = 0; i < 4; ++i) CHECK(column(i, 0) == 0.0f);  // nothing was written

  // The same layout is a legal input, and a dimension of size 1 may have any stride.
  const auto out = tenon::zeros<float>(ctx, {4, 6});
  CHECK_NOTHROW(tenon::add(ctx, out, shared, shared));
  const tenon::View<float, 2> row(out.data(), tenon::Layout<2>({1, 6}, {0, 1}));
  CHECK_NOTHROW(tenon::add(ctx, row, x.slice(0, 0, 1), x.slice(0, 0, 1)));
}

TEST_CASE("rope names pos_ids where their number is wrong", "[ops]") {
  tenon::Context<tenon::Cpu> ctx(1);
  const auto q = tenon::full<float>(ctx, {4, 3, 6}, 1.0f);
  CHECK_THROWS_WITH(tenon::rope(ctx, q, q, tenon::arange<std::int64_t>(ctx, 3), 10000.0),
                    ContainsSubstring("pos_ids has shape (3,), expected (4,)"));
}
