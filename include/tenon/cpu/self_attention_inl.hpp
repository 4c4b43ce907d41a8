// Kernels of attention on one segment of keys. Compiled for every level; see simd.hpp. self_attention.hpp explains the
// algorithm and the names of the buffers.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

/// A tile of a product, rows by columns, stays in registers: 6 rows by a whole panel, or, on AVX-512, which has twice
/// as many registers, up to 12 rows by half a panel, so that the heads of one token are one tile.
inline constexpr int panel_vectors = width == 16 ? 4 : 2;
inline constexpr std::int64_t panel = panel_vectors * width;
inline constexpr std::int64_t tile_rows = 6;
inline constexpr std::int64_t tall_tile_rows = width == 16 ? 12 : 6;
constexpr std::int64_t panel_columns(Level) { return panel; }

/// c (Rows, Vectors * width) = a (Rows, depth) · b (depth, Vectors * width). Every element is one chain of fma over the
/// depth, whatever the number of rows, so a row's result does not depend on its neighbours. Step k asks for lines[k]
/// and lines[k + second] where Ahead is set.
template <int Rows, int Vectors, bool Ahead, class B>
TENON_SIMD_TARGET void multiply_tile(const float* a, std::int64_t a_row, const B* b, std::int64_t b_row, float* c,
                                     std::int64_t c_row, std::int64_t depth, const char* const* lines,
                                     std::int64_t second) {
  Float sums[Rows][Vectors];
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sums[r][v] = zero();
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    if constexpr (Ahead) {
      __builtin_prefetch(lines[k], 0, 2);
      __builtin_prefetch(lines[k + second], 0, 2);
    }
    Float row[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) row[v] = load(b + k * b_row + v * width);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const Float x = broadcast(a[r * a_row + k]);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sums[r][v] = fma(x, row[v], sums[r][v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) store(c + r * c_row + v * width, sums[r][v]);
  }
}

template <int Rows, int Vectors, class B>
TENON_SIMD_TARGET void run_tile(const float* a, std::int64_t a_row, const B* b, std::int64_t b_row, float* c,
                                std::int64_t c_row, std::int64_t depth, LinePrefetch& ahead) {
  std::int64_t second = 0;
  if (const char* const* lines = ahead.take(depth, second)) {
    multiply_tile<Rows, Vectors, true>(a, a_row, b, b_row, c, c_row, depth, lines, second);
  } else {
    multiply_tile<Rows, Vectors, false>(a, a_row, b, b_row, c, c_row, depth, lines, second);
  }
}

/// The same for 1 … tall_tile_rows rows and a whole panel.
template <class B>
TENON_SIMD_TARGET void multiply_rows(std::int64_t rows, const float* a, std::int64_t a_row, const B* b,
                                     std::int64_t b_row, float* c, std::int64_t c_row, std::int64_t depth,
                                     LinePrefetch& ahead) {
  constexpr int n = panel_vectors;
  if constexpr (tall_tile_rows > tile_rows) {
    if (rows > tile_rows) {
      for (std::int64_t i = 0; i < panel; i += 2 * width) {
        switch (rows) {
          case 7: run_tile<7, 2>(a, a_row, b + i, b_row, c + i, c_row, depth, ahead); break;
          case 8: run_tile<8, 2>(a, a_row, b + i, b_row, c + i, c_row, depth, ahead); break;
          case 9: run_tile<9, 2>(a, a_row, b + i, b_row, c + i, c_row, depth, ahead); break;
          case 10: run_tile<10, 2>(a, a_row, b + i, b_row, c + i, c_row, depth, ahead); break;
          case 11: run_tile<11, 2>(a, a_row, b + i, b_row, c + i, c_row, depth, ahead); break;
          default: run_tile<12, 2>(a, a_row, b + i, b_row, c + i, c_row, depth, ahead); break;
        }
      }
      return;
    }
  }
  switch (rows) {
    case 1: return run_tile<1, n>(a, a_row, b, b_row, c, c_row, depth, ahead);
    case 2: return run_tile<2, n>(a, a_row, b, b_row, c, c_row, depth, ahead);
    case 3: return run_tile<3, n>(a, a_row, b, b_row, c, c_row, depth, ahead);
    case 4: return run_tile<4, n>(a, a_row, b, b_row, c, c_row, depth, ahead);
    case 5: return run_tile<5, n>(a, a_row, b, b_row, c, c_row, depth, ahead);
    default: return run_tile<6, n>(a, a_row, b, b_row, c, c_row, depth, ahead);
  }
}

/// c (panel) += a (depth) · b (depth, panel): continues the chains of multiply_tile.
template <class B>
TENON_SIMD_TARGET void accumulate_row(const float* a, const B* b, std::int64_t b_row, float* c, std::int64_t depth) {
  for (int v = 0; v < panel_vectors; ++v) {
    Float total = load(c + v * width);
    for (std::int64_t k = 0; k < depth; ++k) total = fma(broadcast(a[k]), load(b + k * b_row + v * width), total);
    store(c + v * width, total);
  }
}

/// Packs `keys` rows of `d` elements, at most `panel` of them, as columns: to[c][i] = from[i][c]. Columns that are left
/// become zeros: products with them are computed and not used, but must not be slow.
template <class T>
TENON_SIMD_TARGET void pack_keys(float* to, const T* from, std::int64_t from_row, std::int64_t keys, std::int64_t d) {
  for (std::int64_t first = 0; first < panel; first += width) {
    for (std::int64_t c = 0; c < d; c += width) {
      const bool whole = c + width <= d;
      const std::int64_t columns = d % width;  // of the last block, where it is not whole
      Float block[width];
      if (first + width <= keys && whole) {
#pragma GCC unroll 16
        for (int i = 0; i < width; ++i) block[i] = load(from + (first + i) * from_row + c);
      } else {
        for (int i = 0; i < width; ++i) {
          const T* row = from + (first + i) * from_row + c;
          block[i] = first + i >= keys ? zero() : (whole ? load(row) : load(row, columns));
        }
      }
      transpose(block);
      if (whole) {
#pragma GCC unroll 16
        for (int i = 0; i < width; ++i) store(to + first + (c + i) * panel, block[i]);
      } else {
        for (int i = 0; i < columns; ++i) store(to + first + (c + i) * panel, block[i]);
      }
    }
  }
}

/// Packs rows of `dv` elements as panels: to[p][i][c] = from[i][p * panel + c], with zeros after the last column.
template <class T>
TENON_SIMD_TARGET void pack_values(float* to, const T* from, std::int64_t from_row, std::int64_t keys,
                                   std::int64_t dv) {
  for (std::int64_t first = 0; first < dv; first += panel) {
    for (std::int64_t i = 0; i < keys; ++i) {
      for (std::int64_t c = first; c < first + panel; c += width) {
        const std::int64_t rest = dv - c;
        const T* p = from + i * from_row + c;
        store(to, rest >= width ? load(p) : (rest > 0 ? load(p, rest) : zero()));
        to += width;
      }
    }
  }
}

template <class T>
TENON_SIMD_TARGET void widen_row(float* to, const T* from, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + width <= n; i += width) store(to + i, load(from + i));
  if (i < n) store(to + i, load(from + i, n - i), n - i);
}

/// Replaces n scores by exp(scale * score - max) and returns both statistics. Writes up to the next multiple of width.
/// A maximum of -infinity is kept as such, but not subtracted: its weights are exp(-infinity) = 0, not NaN.
TENON_SIMD_TARGET inline AttentionState softmax_row(float* scores, std::int64_t n, float scale) {
  const std::int64_t end = (n + width - 1) / width * width;
  const float worst = -std::numeric_limits<float>::infinity();
  const Float factor = broadcast(scale);
  Float largest[2] = {broadcast(worst), broadcast(worst)};
  std::int64_t i = 0;
  for (; i + 2 * width <= n; i += 2 * width) {
    const Float x = mul(load(scores + i), factor);
    const Float y = mul(load(scores + i + width), factor);
    store(scores + i, x);  // what is subtracted from is what is subtracted: in an fma large products keep a remainder
    store(scores + i + width, y);
    largest[0] = max(x, largest[0]);  // max takes the second where the first is NaN
    largest[1] = max(y, largest[1]);
  }
  float top = max_element(max(largest[0], largest[1]));
  for (; i < n; ++i) {
    scores[i] *= scale;
    top = scores[i] > top ? scores[i] : top;
  }
  const Float base = broadcast(top == worst ? 0.0f : top);
  Float sums[2] = {zero(), zero()};
  for (i = 0; i + 2 * width <= n; i += 2 * width) {
    const Float x = exp(sub(load(scores + i), base));
    const Float y = exp(sub(load(scores + i + width), base));
    store(scores + i, x);
    store(scores + i + width, y);
    sums[0] = add(sums[0], x);
    sums[1] = add(sums[1], y);
  }
  float total = sum(add(sums[0], sums[1]));
  for (; i < end; i += width) {
    const Float x = exp(sub(load(scores + i), base));
    store(scores + i, x);
    for (std::int64_t k = i; k < n && k < i + width; ++k) total += scores[k];
  }
  return {top, total};
}

/// Joins the results of two segments: `state` and `sums` of those before, `next` and `next_sums` of the next one.
TENON_SIMD_TARGET inline void merge_row(float* sums, AttentionState& state, const float* next_sums, AttentionState next,
                                        std::int64_t dv) {
  const float worst = -std::numeric_limits<float>::infinity();
  const float top = next.max > state.max ? next.max : state.max;
  const float shift = top == worst ? 0.0f : top;
  const Float keep = exp(broadcast(state.max - shift));
  const Float take = exp(broadcast(next.max - shift));
  for (std::int64_t c = 0; c < dv; c += width)
    store(sums + c, fma(load(next_sums + c), take, mul(load(sums + c), keep)));
  state.sum = next.sum * max_element(take) + state.sum * max_element(keep);
  state.max = top;
}

/// out = sums / state.sum.
template <class T>
TENON_SIMD_TARGET void finish_row(T* out, const float* sums, AttentionState state, std::int64_t dv) {
  const Float divisor = broadcast(state.sum);
  std::int64_t c = 0;
  for (; c + width <= dv; c += width) store(out + c, div(load(sums + c), divisor));
  if (c < dv) store(out + c, div(load(sums + c), divisor), dv - c);
}

/// One segment for a block of rows: leaves unnormalised sums (row stride `sums_row`) and states. `visible[r]` counts
/// the keys of the segment that row r sees, and does not decrease; rows that see none are skipped. The next segment, of
/// `next_count` keys, is expected right behind this one in memory.
template <class T>
TENON_SIMD_TARGET void attend_segment(Level, const AttentionBlock& block, const T* keys, std::int64_t key_row,
                                      const T* values, std::int64_t value_row, std::int64_t count,
                                      std::int64_t next_count, const std::int64_t* visible, AttentionState* states,
                                      float* sums) {
  std::int64_t first = 0;
  while (first < block.rows && visible[first] <= 0) ++first;
  const std::int64_t active = block.rows - first;
  if (active == 0) return;
  const std::int64_t tiles = active <= tall_tile_rows ? 1 : (active + tile_rows - 1) / tile_rows;
  const auto tile_begin = [&](std::int64_t tile) { return first + active * tile / tiles; };

  // With few rows, what limits is memory: the values come in while scores are computed, and the next keys while values
  // are summed, a line or two with every step of a tile.
  const bool few = tiles == 1;
  const std::int64_t passes = active > tile_rows ? panel / (2 * width) : 1;
  LinePrefetch next_values(block.lines);
  LinePrefetch next_keys(block.lines + LinePrefetch::capacity);
  if (few) {
    next_values.add(values, value_row, block.dv, count, (count + panel - 1) / panel * passes * block.d);
    next_keys.add(keys + attention_segment * key_row, key_row, block.d, next_count,
                  (block.dv + panel - 1) / panel * passes * count);
  }
  for (std::int64_t p = 0; p < count; p += panel) {
    pack_keys(block.packed_keys, keys + p * key_row, key_row, count - p < panel ? count - p : panel, block.d);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t begin = tile_begin(tile);
      const std::int64_t end = tile_begin(tile + 1);
      if (visible[end - 1] <= p) continue;
      multiply_rows(end - begin, block.queries + begin * block.d, block.d, block.packed_keys, panel,
                    block.scores + begin * block.scores_row + p, block.scores_row, block.d, next_values);
    }
  }
  for (std::int64_t r = first; r < block.rows; ++r) {
    states[r] = softmax_row(block.scores + r * block.scores_row, visible[r], block.scale);
  }

  // Values go into the product as they are where they fill whole panels and few rows share the work of widening them.
  const bool direct = block.dv % panel == 0 && (std::is_same_v<T, float> || tiles == 1);
  if (!direct) pack_values(block.packed_values, values, value_row, count, block.dv);
  for (std::int64_t c = 0; c < block.dv; c += panel) {
    const float* packed = block.packed_values + c * count;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t begin = tile_begin(tile);
      const std::int64_t end = tile_begin(tile + 1);
      const float* weights = block.scores + begin * block.scores_row;
      float* to = sums + begin * block.sums_row + c;
      // All rows of the tile see the first `depth` keys; what a row sees beyond them must not touch the others, not
      // even with a weight of 0, since a value may be infinite.
      const std::int64_t depth = visible[begin];
      if (direct) {
        multiply_rows(end - begin, weights, block.scores_row, values + c, value_row, to, block.sums_row, depth,
                      next_keys);
      } else {
        multiply_rows(end - begin, weights, block.scores_row, packed, panel, to, block.sums_row, depth, next_keys);
      }
      for (std::int64_t r = begin + 1; r < end; ++r) {
        if (visible[r] == depth) continue;
        const float* rest = block.scores + r * block.scores_row + depth;
        float* row = sums + r * block.sums_row + c;
        if (direct) {
          accumulate_row(rest, values + c + depth * value_row, value_row, row, visible[r] - depth);
        } else {
          accumulate_row(rest, packed + depth * panel, panel, row, visible[r] - depth);
        }
      }
    }
  }
}

/// Widens the rows of queries of a block.
template <class T>
TENON_SIMD_TARGET void widen_queries(Level, float* to, const T* const* rows, std::int64_t count, std::int64_t d) {
  for (std::int64_t r = 0; r < count; ++r) widen_row(to + r * d, rows[r], d);
}

/// merge_row for the rows of a block that see keys of the segment.
TENON_SIMD_TARGET inline void merge_block(Level, const AttentionBlock& block, const std::int64_t* visible, float* sums,
                                          AttentionState* states, const float* next_sums,
                                          const AttentionState* next_states) {
  for (std::int64_t r = 0; r < block.rows; ++r) {
    if (visible[r] <= 0) continue;
    merge_row(sums + r * block.sums_row, states[r], next_sums + r * block.sums_row, next_states[r], block.sums_row);
  }
}

template <class T>
TENON_SIMD_TARGET void finish_block(Level, const AttentionBlock& block, T* const* out, const float* sums,
                                    const AttentionState* states, const std::int64_t* visible) {
  for (std::int64_t r = 0; r < block.rows; ++r) {
    if (visible[r] > 0) finish_row(out[r], sums + r * block.sums_row, states[r], block.dv);
  }
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
