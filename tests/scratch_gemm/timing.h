// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/cuda/CUDAEvent.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>
// Median and least milliseconds of one call; `call(i)` uses the i-th set of buffers.
struct Times { double median, least; };
inline Times time_calls(const std::function<void(int)>& call, int warm = 3, int count = 15) {
  for (int i = 0; i < warm; ++i) call(i);
  std::vector<at::cuda::CUDAEvent> events;
  for (int i = 0; i <= count; ++i) events.emplace_back(cudaEventDefault);
  events[0].record();
  for (int i = 0; i < count; ++i) { call(i); events[i + 1].record(); }
  events.back().synchronize();
  std::vector<double> ms;
  for (int i = 0; i < count; ++i) ms.push_back(events[i].elapsed_time(events[i + 1]));
  std::sort(ms.begin(), ms.end());
  return {ms[ms.size() / 2], ms[0]};
}
