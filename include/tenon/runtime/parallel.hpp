// parallel_for: a range split over the threads of a context.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/runtime/context.hpp>

TENON_NAMESPACE_BEGIN

/// Calls `body(thread)` once on each of `threads` threads, 0 … threads - 1, the caller being thread 0; returns when all
/// are done. The first exception that a body throws is thrown again here.
template <class Body>
void parallel_run(int threads, Body&& body) {
#ifdef _OPENMP
  if (threads > 1) {
    std::exception_ptr error;
#pragma omp parallel num_threads(threads)
    {
      // A runtime short of threads gives fewer than asked for: then each does the work of several.
      const int given = omp_get_num_threads();
      for (int thread = omp_get_thread_num(); thread < threads; thread += given) {
        try {
          body(thread);
        } catch (...) {
#pragma omp critical(tenon_parallel_run)
          if (!error) error = std::current_exception();
        }
      }
    }
    if (error) std::rethrow_exception(error);
    return;
  }
#endif
  for (int thread = 0; thread < threads; ++thread) body(thread);
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
  parallel_run(static_cast<int>(pieces), [&](int thread) { body(start(thread), start(thread + 1)); });
}

TENON_NAMESPACE_END
