// SPDX-License-Identifier: MIT
#include "tools/bench/energy.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>

namespace strata::tools {
namespace {

constexpr std::chrono::milliseconds kBetweenSamples{20};
constexpr double kSecondsOfCalls = 0.5;  // some five moves of the counter

// The energy counter of a GPU, read by NVML. A function of NVML returns 0 on success. NVML belongs to the driver, so it
// is loaded only where there is a driver.
struct Counter {
  void* device = nullptr;
  int (*read)(void* device, unsigned long long* millijoules) = nullptr;
};

Counter counter_of(c10::Device device) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const auto start = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto find = reinterpret_cast<int (*)(const char*, void**)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  Counter counter;
  counter.read = reinterpret_cast<decltype(counter.read)>(dlsym(library, "nvmlDeviceGetTotalEnergyConsumption"));
  char bus[32] = {};  // NVML numbers all GPUs of the machine, and CUDA only the visible ones
  const bool found = start != nullptr && find != nullptr && counter.read != nullptr && start() == 0 &&
                     cudaDeviceGetPCIBusId(bus, sizeof bus, device.index()) == cudaSuccess &&
                     find(bus, &counter.device) == 0;
  return found ? counter : Counter{};
}

}  // namespace

std::optional<double> joules_of(c10::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  static const Counter counter = counter_of(device);
  unsigned long long millijoules = 0;
  if (counter.device == nullptr || counter.read(counter.device, &millijoules) != 0) return std::nullopt;
  return 1e-3 * static_cast<double>(millijoules);
}

void PowerMeter::sample() {
  const Clock::time_point now = Clock::now();
  if (joules_ && now - asked_ < kBetweenSamples) return;
  asked_ = now;
  add(now, joules_of(device_));
}

void PowerMeter::add(Clock::time_point now, std::optional<double> joules) {
  if (joules_ && joules && *joules != *joules_) {
    last_ = {now, *joules};
    if (!first_) first_ = last_;
  }
  joules_ = joules;
}

std::optional<double> PowerMeter::watts() const {
  if (!first_ || last_->time == first_->time) return std::nullopt;
  return (last_->joules - first_->joules) / std::chrono::duration<double>(last_->time - first_->time).count();
}

std::optional<double> joules_per_call(c10::Device device, double seconds, const std::function<void(int64_t)>& call) {
  if (!joules_of(device)) return std::nullopt;
  // Enough calls are queued together for the time between two looks, because each wait leaves the GPU idle.
  const double between = std::chrono::duration<double>(kBetweenSamples).count();
  const auto together = static_cast<int64_t>(std::clamp(between / seconds, 1.0, 100.0));
  PowerMeter power(device);
  const PowerMeter::Clock::time_point start = PowerMeter::Clock::now();
  double passed = 0;
  int64_t calls = 0;
  while (passed < kSecondsOfCalls) {
    for (int64_t i = 0; i < together; ++i) call(calls++);
    cudaDeviceSynchronize();
    power.sample();
    passed = std::chrono::duration<double>(PowerMeter::Clock::now() - start).count();
  }
  const std::optional<double> watts = power.watts();
  if (!watts) return std::nullopt;
  return *watts * passed / static_cast<double>(calls);
}

}  // namespace strata::tools
