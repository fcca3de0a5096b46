// SPDX-License-Identifier: MIT
// A range of work split over the threads that a rank may use.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace strata {

// body(begin, end) for parts of [0, count) of at least `fewest`, at the same time; on this thread alone where a
// c10::ParallelGuard says that others do the same. at::parallel_for runs on one thread in code that is not compiled
// with OpenMP, as ours is.
template <class Body>
void on_all_threads(int64_t count, int64_t fewest, const Body& body) {
  const int64_t most = at::in_parallel_region() ? 1 : at::get_num_threads();
  const int64_t threads = std::clamp<int64_t>(count / fewest, 1, most);
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < threads; ++i) others.emplace_back(body, count * i / threads, count * (i + 1) / threads);
  body(0, count / threads);
}

}  // namespace strata
