// SPDX-License-Identifier: MIT
// Splits a range of work over the threads that a rank may use.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace strata {

// Calls body(begin, end) in parallel on consecutive parts of [0, count), each with at least `fewest` elements. Runs on
// the calling thread alone if a c10::ParallelGuard is active, because other threads then do the same work.
// at::parallel_for is no replacement: in code compiled without OpenMP, as Strata is, it uses one thread.
template <class Body>
void on_all_threads(int64_t count, int64_t fewest, const Body& body) {
  const int64_t most_threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  const int64_t threads = std::clamp<int64_t>(count / fewest, 1, most_threads);
  std::vector<std::jthread> other_threads;
  for (int64_t i = 1; i < threads; ++i)
    other_threads.emplace_back(body, count * i / threads, count * (i + 1) / threads);
  body(0, count / threads);
}

}  // namespace strata
