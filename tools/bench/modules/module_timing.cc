// SPDX-License-Identifier: MIT
#include "tools/bench/modules/module_timing.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstddef>
#include <utility>

#include "base/quantile.h"
#include "tools/bench/energy.h"
#include "tools/bench/kernels/timer.h"
#include "trainer/memory/allocation_meter.h"
#include "trainer/profile/recorded_steps.h"
#include "trainer/profile/recorder.h"

namespace strata::tools {
namespace {

namespace profile = trainer::profile;

std::vector<Tensor> leaves_of(const ModuleInputs& inputs) {
  std::vector<Tensor> leaves = {inputs.x};
  for (const auto& [name, parameter] : inputs.parameters) leaves.push_back(parameter);
  return leaves;
}

Tensor copied(const Tensor& values) { return values.detach().clone().requires_grad_(values.requires_grad()); }

ModuleInputs copied(const ModuleInputs& inputs) {
  ModuleInputs copy{{}, copied(inputs.x), copied(inputs.grad_y)};
  for (const auto& [name, parameter] : inputs.parameters) copy.parameters[name] = copied(parameter);
  return copy;
}

// A module with inputs and parameters that no other call reads before all other sets had a call.
class Set {
 public:
  Set(const BuildModule& build, ModuleInputs inputs)
      : inputs_(std::move(inputs)), leaves_(leaves_of(inputs_)), run_(build(inputs_.parameters)) {}

  void forward() {
    y_.reset();  // so that at most one autograd graph of a set exists
    y_ = run_(inputs_.x);
  }
  // Returns the gradients. The graph stays.
  std::vector<Tensor> backward() const {
    return torch::autograd::grad({y_}, leaves_, {inputs_.grad_y}, /*retain_graph=*/true);
  }

 private:
  ModuleInputs inputs_;
  std::vector<Tensor> leaves_;
  ModuleCase::Function run_;
  Tensor y_;
};

int64_t peak_bytes(const BuildModule& build, const ModuleInputs& inputs) {
  const ModuleCase::Function run = build(inputs.parameters);
  const trainer::AllocationMeter meter(inputs.x.device());
  evaluate(run, inputs);
  return meter.counts().peak_bytes;
}

std::vector<Set> rotating_modules(const BuildModule& build, const ModuleInputs& inputs, int64_t peak) {
  int64_t bytes = peak + static_cast<int64_t>(inputs.grad_y.nbytes());
  for (const Tensor& leaf : leaves_of(inputs)) bytes += static_cast<int64_t>(leaf.nbytes());
  std::vector<Set> sets;
  for (int64_t i = 0; i < rotating_sets(bytes, inputs.x.device()); ++i) sets.emplace_back(build, copied(inputs));
  return sets;
}

void wait_for(at::Device device) {
  if (device.is_cuda()) at::cuda::getCurrentCUDAStream(device.index()).synchronize();
}

std::optional<int64_t> launches_of(at::Device device, const std::function<void()>& call) {
  profile::Recorder recorder(device.is_cuda());
  recorder.start();
  {
    RECORD_USER_SCOPE("step 1");
    call();
  }
  wait_for(device);
  const profile::RecordedStep step = profile::StepReader().read(recorder.stop()).at(0);
  if (step.on_device != device.is_cuda()) return std::nullopt;
  return times_of(step).launches;
}

}  // namespace

std::vector<Tensor> evaluate(const ModuleCase::Function& run, const ModuleInputs& inputs) {
  const Tensor y = run(inputs.x);
  std::vector<Tensor> results = torch::autograd::grad({y}, leaves_of(inputs), {inputs.grad_y});
  results.insert(results.begin(), y.detach());
  return results;
}

ModuleTimes time_module(const BuildModule& build, const ModuleInputs& inputs) {
  const at::Device device = inputs.x.device();
  ModuleTimes times;
  times.peak_bytes = peak_bytes(build, inputs);
  std::vector<Set> sets = rotating_modules(build, inputs, times.peak_bytes);
  times.sets = static_cast<int64_t>(sets.size());
  const auto set_of = [&](int64_t call) -> Set& { return sets[static_cast<size_t>(call) % sets.size()]; };
  for (Set& set : sets) set.forward();  // so that no call that is timed is the first one to allocate
  times.forward = sampled_seconds(device, [&](int64_t i) { set_of(i).forward(); });
  times.backward = sampled_seconds(device, [&](int64_t i) { set_of(i).backward(); });
  times.forward_launches = launches_of(device, [&] { sets[0].forward(); });
  times.backward_launches = launches_of(device, [&] { sets[0].backward(); });
  times.joules = joules_per_call(device, median(times.forward) + median(times.backward), [&](int64_t i) {
    set_of(i).forward();
    set_of(i).backward();
  });
  return times;
}

}  // namespace strata::tools
