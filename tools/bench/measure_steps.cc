// SPDX-License-Identifier: MIT
#include "tools/bench/measure_steps.h"

#include <algorithm>
#include <chrono>

#include "tools/bench/energy.h"
#include "trainer/memory/device_memory.h"

namespace strata::tools {

StepMeasurement measure_steps(trainer::Step& step, sharding::RankSession& session, int64_t warm_up, int64_t steps,
                              int64_t last_profiled, const std::function<void(const trainer::StepResult&)>& check) {
  using Clock = std::chrono::steady_clock;
  const at::Device device = session.device();
  StepMeasurement measured;
  Clock::time_point last;
  PowerMeter power(device);
  const auto read_results = [&](bool all) {
    while (const std::optional<trainer::StepResult> result = step.next_result(all)) {
      const Clock::time_point now = Clock::now();
      const bool has_gradients = result->overflowed == 0 || result->step == warm_up;
      if (measured.first.step == 0 && has_gradients) check(measured.first = *result);
      const std::chrono::duration<double, std::milli> passed = now - last;
      if (result->step > warm_up + steps) {
        measured.profiled_milliseconds.push_back(passed.count());
      } else if (result->step > warm_up) {
        measured.milliseconds.push_back(passed.count());
        if (result->skipped > 0) ++measured.skipped;
        if (result->overflowed > 0) ++measured.overflowed;
      }
      // Half of a warm-up has steps that are as long as the measured ones.
      if (result->step > warm_up / 2 && result->step <= warm_up + steps) power.sample();
      last = now;
      measured.loss = result->loss;
    }
  };
  const int64_t last_step = std::max(warm_up + steps, last_profiled);
  // It exists during two steps alone, because counting takes time, and because it cannot exist beside a profiler. That
  // records step 3 if steps are captured.
  std::optional<StepCounter> counter(device);
  while (step.number() < last_step) {
    if (step.number() == warm_up) measured.device_allocations = -trainer::device_allocations(device);
    if (counter) counter->begin_step();
    step.queue_next();
    if (step.number() == 2) {  // which is not captured and is not the first to allocate
      measured.step_memory_bytes = counter->peak_bytes();
      measured.counts = counter->counts();
      counter.reset();
    }
    if (step.number() == warm_up + steps) measured.device_allocations += trainer::device_allocations(device);
    read_results(/*all=*/step.number() == warm_up + steps);  // before the profiler starts, which itself takes time
    session.end_step();
  }
  read_results(/*all=*/true);
  session.pause_watchdog();
  measured.peak_memory_bytes = trainer::memory_bytes(device);
  measured.captured = step.is_captured();
  measured.watts = power.watts();
  if (step.profiler()) measured.profiled = step.profiler()->mean_times();
  return measured;
}

}  // namespace strata::tools
