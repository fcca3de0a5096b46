// SPDX-License-Identifier: MIT
#include "tools/bench/kernels/timer.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Sleep.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/quantile.h"

namespace strata::tools {
namespace {

using kernels::Inputs;
using kernels::Level;
using kernels::Tensor;
using kernels::Workload;
using Clock = std::chrono::steady_clock;

constexpr double kSecondsOfSamples = 0.02;  // each median covers about this much time
constexpr int64_t kFewest = 7, kMost = 100;
// Several calls are timed between two events, so that the 2 us of an event do not count as the op's time.
constexpr double kSecondsBetweenEvents = 1e-3;
constexpr int64_t kMostBetweenEvents = 10, kMostEvents = 20;
constexpr int64_t kMostSets = 64;
constexpr double kClock = 2e9;  // cycles per second; no current GPU exceeds it for long

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The calls wait on the stream for a sleeping kernel until all of them are queued, so that no gap between them comes
// from the host. There are fewer of them than a queue holds, which is about a thousand kernels.
std::vector<double> samples_on_gpu(const std::function<void(int64_t)>& call) {
  call(0);  // the first call loads and selects kernels
  at::cuda::getCurrentCUDAStream().synchronize();
  auto start = Clock::now();
  call(1);
  const double host = seconds_since(start);
  at::cuda::getCurrentCUDAStream().synchronize();
  const double whole = std::max(seconds_since(start), 1e-6);
  const auto together = std::clamp(static_cast<int64_t>(kSecondsBetweenEvents / whole), int64_t{1}, kMostBetweenEvents);
  const auto count = std::clamp(static_cast<int64_t>(kSecondsOfSamples / whole) / together, kFewest, kMostEvents);
  std::vector<at::cuda::CUDAEvent> events;
  for (int64_t i = 0; i <= count; ++i) events.emplace_back(cudaEventDefault);
  at::cuda::sleep(static_cast<int64_t>(kClock * std::min(1.5 * host * static_cast<double>(count * together), 0.05)));
  for (int64_t i = 0; i < count; ++i) {
    events[i].record();
    for (int64_t j = 0; j < together; ++j) call(i * together + j);
  }
  events[count].record();
  events[count].synchronize();
  std::vector<double> samples;
  for (int64_t i = 0; i < count; ++i) {
    samples.push_back(1e-3 * events[i].elapsed_time(events[i + 1]) / static_cast<double>(together));
  }
  return samples;
}

std::vector<double> samples_on_cpu(const std::function<void(int64_t)>& call) {
  call(0);
  auto start = Clock::now();
  call(1);
  const double once = std::max(seconds_since(start), 1e-7);
  const auto count = std::clamp(static_cast<int64_t>(kSecondsOfSamples / once), kFewest, kMost);
  std::vector<double> samples;
  for (int64_t i = 0; i < count; ++i) {
    start = Clock::now();
    call(i);
    samples.push_back(seconds_since(start));
  }
  return samples;
}

std::vector<Inputs> rotating_inputs(const Workload& workload) {
  int64_t bytes = 0;
  for (const Tensor& leaf : workload.inputs.leaves) bytes += static_cast<int64_t>(leaf.nbytes());
  const int64_t sets = rotating_sets(bytes, workload.inputs.leaves[0].device());
  std::vector<Inputs> inputs;
  for (int64_t i = 0; i < sets; ++i) inputs.push_back(fresh_inputs(workload));
  return inputs;
}

}  // namespace

std::vector<double> sampled_seconds(at::Device device, const std::function<void(int64_t)>& call) {
  return device.is_cuda() ? samples_on_gpu(call) : samples_on_cpu(call);
}

double median_seconds(at::Device device, const std::function<void(int64_t)>& call) {
  return median(sampled_seconds(device, call));
}

int64_t cache_bytes(at::Device device) {
  if (device.is_cuda()) return at::cuda::getDeviceProperties(device.index())->l2CacheSize;
  const int64_t bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? bytes : int64_t{32} << 20;
}

int64_t rotating_sets(int64_t bytes, at::Device device) {
  return std::clamp<int64_t>(2 * cache_bytes(device) / std::max<int64_t>(bytes, 1) + 1, 2, kMostSets);
}

Timing time_workload(const Workload& workload, Level level) {
  const kernels::DeterministicScope scope(workload, level);
  const at::Device device = workload.inputs.leaves[0].device();
  const std::vector<Inputs> inputs = rotating_inputs(workload);
  const size_t sets = inputs.size();
  std::vector<std::vector<Tensor>> results(sets);  // kept for one round, so that results rotate too
  Timing timing;
  if (workload.timed_whole) {
    timing.whole = median_seconds(device, [&](int64_t i) {
      const size_t set = static_cast<size_t>(i) % sets;
      results[set] = torch::autograd::grad(workload.run(inputs[set], level), inputs[set].leaves);
    });
    return timing;
  }
  timing.forward = median_seconds(device, [&](int64_t i) {
    const size_t set = static_cast<size_t>(i) % sets;
    results[set] = workload.run(inputs[set], level);
  });
  if (!workload.differentiable) return timing;
  for (size_t set = 0; set < sets; ++set) results[set] = workload.run(inputs[set], level);
  const std::vector<Tensor> gradients = kernels::random_gradients(results[0]);
  std::vector<std::vector<Tensor>> kept(sets);
  const bool in_place = workload.backward_in_place && workload.has_backward(level);
  timing.backward = median_seconds(device, [&](int64_t i) {
    const size_t set = static_cast<size_t>(i) % sets;
    if (in_place) {
      workload.backward_in_place(results[set][0].detach(), inputs[set], level);
      return;
    }
    kept[set] = torch::autograd::grad(results[set], inputs[set].leaves, gradients, /*retain_graph=*/true);
  });
  return timing;
}

}  // namespace strata::tools
