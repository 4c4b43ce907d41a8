// parallel_for: a range split over the threads of a context.
#pragma once

#include <algorithm>
#include <cstdint>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/runtime/context.hpp>

TENON_NAMESPACE_BEGIN

/// Calls `body(piece)` once for each piece in [0, pieces), on the threads of the context, and returns when all calls have.
/// Which thread takes which piece is open. The first exception that a body throws is thrown again here. A call from
/// inside a body runs on the thread that makes it.
template <class Body>
void parallel_run(Context<Cpu>& ctx, int pieces, Body&& body) {
  if (pieces > 1 && ctx.threads() > 1) {
    ctx.thread_pool().run(pieces, body);
  } else {
    for (int piece = 0; piece < pieces; ++piece) body(piece);
  }
}

/// Calls `body(begin, end)` for pieces that cover [0, count), in parallel. Pieces are contiguous, one per thread, and
/// hold at least `grain` indices (the last may hold fewer), so that little work stays on one thread.
template <class Body>
void parallel_for(Context<Cpu>& ctx, std::int64_t count, std::int64_t grain, Body&& body) {
  if (count <= 0) return;
  const std::int64_t pieces = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, ctx.threads());
  if (pieces == 1) {
    body(std::int64_t{0}, count);
    return;
  }
  // The first `rest` pieces hold one index more; written so that no product exceeds count.
  const std::int64_t least = count / pieces;
  const std::int64_t rest = count % pieces;
  const auto start = [&](std::int64_t piece) { return least * piece + std::min(piece, rest); };
  parallel_run(ctx, static_cast<int>(pieces), [&](int piece) { body(start(piece), start(piece + 1)); });
}

TENON_NAMESPACE_END
