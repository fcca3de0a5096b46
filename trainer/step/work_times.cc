// SPDX-License-Identifier: MIT
#include "trainer/step/work_times.h"

#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAStream.h>

namespace strata::trainer {

WorkTimes::WorkTimes(at::Device device, int rank, int ranks, PhaseTimer& timer)
    : device_(device), timer_(timer), before_(timer.total()) {
  const auto phases = static_cast<int64_t>(phase_names(device).size());
  values_ = at::zeros({count(device, ranks)}, at::TensorOptions(at::kFloat).device(device));
  for (int64_t i = 0; ranks > 1 && i < phases; ++i) own_.push_back(values_.select(0, rank * phases + i));
}

std::vector<std::string_view> WorkTimes::phase_names(at::Device device) {
  if (device.is_cuda()) return {"between steps"};
  std::vector<std::string_view> names;
  for (const Phase phase : kPhases) names.emplace_back(kPhaseNames[static_cast<size_t>(phase)]);
  return names;
}

int64_t WorkTimes::count(at::Device device, int64_t ranks) {
  return ranks > 1 ? ranks * static_cast<int64_t>(phase_names(device).size()) : 0;
}

void WorkTimes::write_last() {
  if (own_.empty()) return;
  device_.is_cuda() ? measure_gpu() : measure_host();
}

void WorkTimes::inputs_are_set() {
  if (own_.empty() || device_.is_cpu()) return;
  events_[step_ % events_.size()].begin.record(c10::cuda::getCurrentCUDAStream(device_.index()));
}

void WorkTimes::step_is_queued() {
  if (own_.empty() || device_.is_cpu()) return;
  events_[step_++ % events_.size()].end.record(c10::cuda::getCurrentCUDAStream(device_.index()));
}

void WorkTimes::measure_host() {
  const PhaseTimer::Seconds now = timer_.total();
  for (size_t i = 0; i < kPhases.size(); ++i) {
    const auto phase = static_cast<size_t>(kPhases[i]);
    own_[i].fill_(now[phase] - before_[phase]);
  }
  before_ = now;
}

// Measures the gap between steps n - 3 and n - 2, where n is the step to be queued: the host has read their results,
// and step n - 1 may still run.
void WorkTimes::measure_gpu() {
  if (step_ < 3) return;
  const c10::cuda::CUDAEvent& end = events_[(step_ - 3) % events_.size()].end;
  const c10::cuda::CUDAEvent& begin = events_[(step_ - 2) % events_.size()].begin;
  if (end.query() && begin.query()) own_.front().fill_(1e-3 * end.elapsed_time(begin));
}

}  // namespace strata::trainer
