// SPDX-License-Identifier: MIT
// Reads the energy that a GPU has taken, from the counter that its driver keeps.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace strata::tools {

// Joules that the whole GPU has taken since the driver was loaded, by nvmlDeviceGetTotalEnergyConsumption of NVML.
// Other programs on the same GPU count too. A process asks for one GPU. None for CPUs, for GPUs without a counter, and
// for a machine without NVML.
std::optional<double> joules_of(c10::Device device);

// The mean power of a GPU. The counter of energy moves only some ten times a second, so the power is that between two
// moves, at whatever times it is read. It is asked at most every 20 ms, because each answer takes time of a step.
class PowerMeter {
 public:
  explicit PowerMeter(c10::Device device) : device_(device) {}
  void sample();
  using Clock = std::chrono::steady_clock;
  // What sample() calls with the counter, or none if it could not be read.
  void add(Clock::time_point now, std::optional<double> joules);
  // Between the first and the last move that sample() has seen. None if it has seen fewer than two.
  std::optional<double> watts() const;

 private:
  struct Move {
    Clock::time_point time;
    double joules;
  };

  const c10::Device device_;
  Clock::time_point asked_;       // when the counter was read last
  std::optional<double> joules_;  // what it said then
  std::optional<Move> first_, last_;
};

// Runs call(i), i = 0, 1, ..., for half a second and returns the joules of a call: the mean power times the mean time.
// So what the GPU takes while it waits for the host counts. `seconds` is about how long a call takes. None if there is
// no counter, and then nothing is called. None, too, if the counter moves less than twice.
std::optional<double> joules_per_call(c10::Device device, double seconds, const std::function<void(int64_t)>& call);

}  // namespace strata::tools
