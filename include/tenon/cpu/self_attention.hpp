// self_attention on the CPU.
//
// The heads of q that share a kv head, and all tokens, are the rows of one problem: rows x keys x values. Keys are cut
// into segments of a fixed length. For each segment, keys are packed so that a vector holds one coordinate of
// neighbouring keys, scores = q k^T are a product of small tiles in registers, a softmax leaves weights and their sum,
// and weights * values is the same product again. The segments of a row are then joined in ascending order, with the
// larger maximum as the new reference (Milakov and Gimelshein 2018, Dao et al. 2022).
//
// Decoding is the same with few rows: keys and values are read once for the whole group of heads, and threads take
// segments. What is computed for a row, and in which order, depends on that row and on the number of keys alone:
// results are bitwise the same for any number of threads, and whether tokens come together or one at a time, so this
// operator needs no batch-invariant mode.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <tenon/core/math.hpp>
#include <tenon/cpu/packed.hpp>
#include <tenon/cpu/simd/denormals.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/ops/self_attention.hpp>
#include <tenon/runtime/parallel.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Keys that are treated together, and rows of queries.
inline constexpr std::int64_t attention_segment = 256;
inline constexpr std::int64_t attention_rows = 120;

/// Largest score of a row so far, and the sum of exp(score - max).
struct AttentionState {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0f;
};

/// Sizes and scratch memory of one block of rows.
struct AttentionBlock {
  std::int64_t rows = 0;
  std::int64_t d = 0;
  std::int64_t dv = 0;
  float scale = 0.0f;
  std::int64_t scores_row = 0;     ///< row stride of scores
  std::int64_t sums_row = 0;       ///< row stride of sums: dv, filled up to whole panels
  float* queries = nullptr;        ///< (rows, d)
  float* packed_keys = nullptr;    ///< (d, panel), one panel of keys
  float* packed_values = nullptr;  ///< one segment, in panels of columns
  float* scores = nullptr;
  const char** lines = nullptr;  ///< two lists of LinePrefetch
};

/// A list of cache lines that will be needed soon, for loops that have time to ask for one or two with every step.
/// Hardware looks ahead only inside a page of 4 KiB, and the rows of a head lie a token apart. A plain list, since
/// loops that keep their sums in registers have one register to spare for it, not four.
class LinePrefetch {
 public:
  static constexpr std::int64_t capacity = 4096;

  /// `lines` has room for `capacity` addresses.
  explicit LinePrefetch(const char** lines) noexcept : lines_(lines) {}

  /// Fills the list with `count` rows of `length` elements; loops will make `steps` steps in all.
  template <class T>
  void add(const T* rows, std::int64_t stride, std::int64_t length, std::int64_t count, std::int64_t steps) noexcept {
    const std::int64_t bytes = length * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t of_row = ceil_div<std::int64_t>(bytes, 64);
    for (std::int64_t i = 0; i < count && size_ + of_row <= capacity; ++i) {
      const char* row = reinterpret_cast<const char*>(rows + i * stride);
      for (std::int64_t at = 0; at < bytes; at += 64) lines_[size_++] = row + at;
    }
    twice_ = size_ > steps;
  }

  /// The lines of the next `steps` steps: result[k] and result[k + second]. nullptr where not that many are left.
  const char* const* take(std::int64_t steps, std::int64_t& second) noexcept {
    second = twice_ ? steps : 0;
    if (size_ - taken_ < steps + second) return nullptr;
    const char* const* result = lines_ + taken_;
    taken_ += steps + second;
    return result;
  }

 private:
  const char** lines_;
  std::int64_t size_ = 0;
  std::int64_t taken_ = 0;
  bool twice_ = false;
};

}  // namespace detail
TENON_NAMESPACE_END

#define TENON_SIMD_BODY <tenon/cpu/self_attention_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// One call of self_attention for a level; all views have contiguous rows.
template <class T, class Level>
class Attention {
 public:
  Attention(Context<Cpu>& ctx, const View<T, 3, Cpu>& out, const View<const T, 3, Cpu>& q,
            const View<const T, 3, Cpu>& k, const View<const T, 3, Cpu>& v, float scale)
      : ctx_(ctx), out_(out), q_(q), k_(k), v_(v), scale_(scale) {}

  void run() {
    const std::int64_t work = q_.size(0) * q_.size(1) * k_.size(0) * (q_.size(2) + v_.size(2));
    constexpr std::int64_t grain = 262144;  // multiplications that are worth a thread
    threads_ = static_cast<int>(std::clamp<std::int64_t>(work / grain, 1, ctx_.threads()));
    auto scope = ctx_.workspace().scope();
    scratch_ = scope.template allocate<Scratch>(std::int64_t{threads_});
    for (int i = 0; i < threads_; ++i) scratch_[i] = make_scratch(scope);
    if (blocks() == 1 && segments() > 1) {
      run_by_segments(scope);
    } else {
      run_by_blocks();
    }
  }

 private:
  struct Scratch {
    AttentionBlock block;
    float* sums;
    float* next_sums;
    AttentionState* states;
    AttentionState* next_states;
    std::int64_t* visible;
    const T** inputs;
    T** outputs;
  };

  [[nodiscard]] std::int64_t group() const { return q_.size(1) / k_.size(1); }
  [[nodiscard]] std::int64_t rows() const { return q_.size(0) * group(); }  // of one kv head: token-major
  [[nodiscard]] std::int64_t blocks() const { return ceil_div(rows(), attention_rows); }
  [[nodiscard]] std::int64_t segments() const { return ceil_div(k_.size(0), attention_segment); }
  [[nodiscard]] std::int64_t sums_row() const { return align_up(v_.size(2), panel_columns(Level{})); }
  [[nodiscard]] std::int64_t block_rows() const { return std::min(rows(), attention_rows); }

  Scratch make_scratch(Workspace::Scope& scope) {
    Scratch s{};
    const std::int64_t n = block_rows();
    s.block.d = q_.size(2);
    s.block.dv = v_.size(2);
    s.block.scale = scale_;
    s.block.scores_row = attention_segment + 16;  // rows of a power of two would share the sets of a cache
    s.block.sums_row = sums_row();
    s.block.queries = scope.template allocate<float>(n * s.block.d);
    s.block.packed_keys = scope.template allocate<float>(panel_columns(Level{}) * s.block.d);
    s.block.packed_values = scope.template allocate<float>(attention_segment * s.block.sums_row);
    s.block.scores = scope.template allocate<float>(n * s.block.scores_row);
    s.block.lines = scope.template allocate<const char*>(2 * LinePrefetch::capacity);
    s.sums = scope.template allocate<float>(n * s.block.sums_row);
    s.next_sums = scope.template allocate<float>(n * s.block.sums_row);
    s.states = scope.template allocate<AttentionState>(n);
    s.next_states = scope.template allocate<AttentionState>(n);
    s.visible = scope.template allocate<std::int64_t>(n);
    s.inputs = scope.template allocate<const T*>(n);
    s.outputs = scope.template allocate<T*>(n);
    return s;
  }

  /// Keys that the token of row r sees in all; zero or less where it sees none.
  [[nodiscard]] std::int64_t visible_keys(std::int64_t r) const { return k_.size(0) - q_.size(0) + r / group() + 1; }

  /// Prepares rows [first, first + block.rows) of a kv head.
  void start_block(Scratch& s, std::int64_t head, std::int64_t first) const {
    for (std::int64_t r = 0; r < s.block.rows; ++r) {
      const std::int64_t token = (first + r) / group();
      const std::int64_t q_head = head * group() + (first + r) % group();
      s.inputs[r] = q_.ptr(token, q_head, 0);
      s.outputs[r] = out_.ptr(token, q_head, 0);
    }
    widen_queries(Level{}, s.block.queries, s.inputs, s.block.rows, s.block.d);
  }

  /// Sets s.visible and computes one segment into `sums` and `states`.
  void segment(Scratch& s, std::int64_t head, std::int64_t first, std::int64_t index, float* sums,
               AttentionState* states) const {
    const std::int64_t begin = index * attention_segment;
    const std::int64_t last = visible_keys(first + s.block.rows - 1) - begin;
    const std::int64_t count = std::clamp<std::int64_t>(last, 0, attention_segment);
    set_visible(s, first, index);
    if (count == 0) return;
    const std::int64_t next_count = std::clamp<std::int64_t>(last - attention_segment, 0, attention_segment);
    attend_segment(Level{}, s.block, k_.ptr(begin, head, 0), k_.stride(0), v_.ptr(begin, head, 0), v_.stride(0), count,
                   next_count, s.visible, states, sums);
  }

  void set_visible(Scratch& s, std::int64_t first, std::int64_t index) const {
    for (std::int64_t r = 0; r < s.block.rows; ++r) {
      s.visible[r] =
          std::clamp<std::int64_t>(visible_keys(first + r) - index * attention_segment, 0, attention_segment);
    }
  }

  static void reset(Scratch& s) {
    std::fill_n(s.states, s.block.rows, AttentionState{});
    std::fill_n(s.sums, s.block.rows * s.block.sums_row, 0.0f);
  }

  void finish(Scratch& s, std::int64_t first) const {
    for (std::int64_t r = 0; r < s.block.rows; ++r) {
      s.visible[r] = visible_keys(first + r);
      if (s.visible[r] <= 0) std::fill_n(s.outputs[r], s.block.dv, T(0.0f));
    }
    finish_block(Level{}, s.block, s.outputs, s.sums, s.states, s.visible);
  }

  /// Tasks are blocks of rows, the ones with most keys first; threads take the next one when they are done.
  void run_by_blocks() {
    const std::int64_t heads = k_.size(1);
    std::atomic<std::int64_t> next{0};
    parallel_run(ctx_, threads_, [&](int thread) {
      const ScopedFlushDenormals flush;
      Scratch& s = scratch_[thread];
      for (std::int64_t task = next++; task < heads * blocks(); task = next++) {
        const std::int64_t head = task % heads;
        const std::int64_t first = (blocks() - 1 - task / heads) * attention_rows;
        s.block.rows = std::min(attention_rows, rows() - first);
        start_block(s, head, first);
        reset(s);
        for (std::int64_t i = 0; i < segments(); ++i) {
          segment(s, head, first, i, s.next_sums, s.next_states);
          merge_block(Level{}, s.block, s.visible, s.sums, s.states, s.next_sums, s.next_states);
        }
        finish(s, first);
      }
    });
  }

  /// Few rows: memory limits. Results of segments are kept and joined in a second round. A unit of work is a segment of
  /// a few heads that lie next to each other in memory and fit in the cache together, since reading the rows of one
  /// head fetches its neighbours'. Threads take a few units in a row, so that what they fetch ahead is their own.
  void run_by_segments(Workspace::Scope& scope) {
    const std::int64_t heads = k_.size(1);
    const std::int64_t n = rows();
    auto* sums = scope.template allocate<float>(heads * segments() * n * sums_row());
    auto* states = scope.template allocate<AttentionState>(heads * segments() * n);
    const auto slot = [&](std::int64_t head, std::int64_t index) { return (head * segments() + index) * n; };
    constexpr std::int64_t cache = 524288;
    const std::int64_t head_bytes =
        attention_segment * (q_.size(2) + v_.size(2)) * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t together = std::clamp<std::int64_t>(cache / (head_bytes + 1), 1, heads);
    const std::int64_t units = ceil_div(heads, together) * segments();
    const std::int64_t chunk = ceil_div<std::int64_t>(units, std::int64_t{4} * threads_);
    std::atomic<std::int64_t> next{0};
    parallel_run(ctx_, threads_, [&](int thread) {
      const ScopedFlushDenormals flush;
      Scratch& s = scratch_[thread];
      s.block.rows = n;
      for (std::int64_t begin = next.fetch_add(chunk); begin < units; begin = next.fetch_add(chunk)) {
        for (std::int64_t unit = begin; unit < std::min(begin + chunk, units); ++unit) {
          const std::int64_t index = unit % segments();
          const std::int64_t first_head = unit / segments() * together;
          for (std::int64_t head = first_head; head < std::min(first_head + together, heads); ++head) {
            start_block(s, head, 0);
            segment(s, head, 0, index, sums + slot(head, index) * sums_row(), states + slot(head, index));
          }
        }
      }
    });
    next = 0;
    parallel_run(ctx_, static_cast<int>(std::min<std::int64_t>(threads_, heads)), [&](int thread) {
      const ScopedFlushDenormals flush;
      Scratch& s = scratch_[thread];
      s.block.rows = n;
      for (std::int64_t head = next++; head < heads; head = next++) {
        start_block(s, head, 0);
        reset(s);
        for (std::int64_t i = 0; i < segments(); ++i) {
          set_visible(s, 0, i);
          merge_block(Level{}, s.block, s.visible, s.sums, s.states, sums + slot(head, i) * sums_row(),
                      states + slot(head, i));
        }
        finish(s, 0);
      }
    });
  }

  Context<Cpu>& ctx_;
  View<T, 3, Cpu> out_;
  View<const T, 3, Cpu> q_;
  View<const T, 3, Cpu> k_;
  View<const T, 3, Cpu> v_;
  float scale_;
  int threads_ = 1;
  Scratch* scratch_ = nullptr;
};

/// In double and row by row: for checking models, not for speed. `scores` holds one float64 for each key.
inline void attention_row_double(const View<double, 3, Cpu>& out, const View<const double, 3, Cpu>& q,
                                 const View<const double, 3, Cpu>& k, const View<const double, 3, Cpu>& v, double scale,
                                 std::int64_t token, std::int64_t head, double* scores) {
  const std::int64_t kv_head = head / (q.size(1) / k.size(1));
  const std::int64_t visible = k.size(0) - q.size(0) + token + 1;
  double* row = out.ptr(token, head, 0);
  std::fill_n(row, v.size(2), 0.0);
  if (visible <= 0) return;
  double top = -std::numeric_limits<double>::infinity();
  for (std::int64_t s = 0; s < visible; ++s) {
    double score = 0.0;
    for (std::int64_t c = 0; c < q.size(2); ++c) score += q(token, head, c) * k(s, kv_head, c);
    scores[s] = score * scale;
    top = scores[s] > top ? scores[s] : top;
  }
  double sum = 0.0;
  for (std::int64_t s = 0; s < visible; ++s) {
    const double weight = std::exp(scores[s] - top);
    sum += weight;
    for (std::int64_t c = 0; c < v.size(2); ++c) row[c] += weight * v(s, kv_head, c);
  }
  for (std::int64_t c = 0; c < v.size(2); ++c) row[c] /= sum;
}

}  // namespace detail

template <FloatElement T>
void self_attention(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> q,
                    std::type_identity_t<View<const T, 3, Cpu>> k, std::type_identity_t<View<const T, 3, Cpu>> v,
                    double scale, std::int64_t window) {
  detail::check_self_attention(out.sizes(), q.sizes(), k.sizes(), v.sizes(), scale, window);
  detail::check_output("self_attention", "out", out.layout());
  if (out.empty()) return;
  if (window > 0 && window < k.size(0)) {  // another range of keys for each query
    for (std::int64_t t = 0; t < q.size(0); ++t) {
      const std::int64_t end = std::max<std::int64_t>(0, k.size(0) - q.size(0) + t + 1);
      const std::int64_t begin = std::max<std::int64_t>(0, end - window);
      self_attention<T>(ctx, out.slice(0, t, t + 1), q.slice(0, t, t + 1), k.slice(0, begin, end),
                        v.slice(0, begin, end), scale);
    }
    return;
  }
  auto scope = ctx.workspace().scope();
  const auto queries = detail::with_contiguous_rows<T, 3>(ctx, scope, q);
  const auto keys = detail::with_contiguous_rows<T, 3>(ctx, scope, k);
  const auto values = detail::with_contiguous_rows<T, 3>(ctx, scope, v);
  const bool direct = detail::has_contiguous_rows(out);
  const auto result = direct ? out : detail::scratch_tensor<T, 3>(scope, out.sizes());
  if constexpr (std::is_same_v<T, double>) {
    const std::int64_t rows = q.size(0) * q.size(1);
    const auto threads = static_cast<int>(std::min<std::int64_t>(ctx.threads(), rows));
    auto* scores = scope.template allocate<double>(threads * k.size(0));  // a row for each thread
    parallel_run(ctx, threads, [&](int thread) {
      for (std::int64_t r = thread; r < rows; r += threads) {
        detail::attention_row_double(result, queries, keys, values, scale, r / q.size(1), r % q.size(1),
                                     scores + thread * k.size(0));
      }
    });
  } else {
    detail::visit_simd_level(ctx.simd_level(), [&](auto level) {
      detail::Attention<T, decltype(level)>(ctx, result, queries, keys, values, static_cast<float>(scale)).run();
    });
  }
  if (!direct) rearrange<T, 3>(ctx, out, result);
}

TENON_NAMESPACE_END
