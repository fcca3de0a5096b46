// SPDX-License-Identifier: MIT
#include "trainer/model/amax_history.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

namespace strata::trainer {

AmaxHistory::AmaxHistory(const modules::LinearFormatsConfig& formats,
                         const std::vector<modules::DeclaredModule>& modules, sharding::Communicator& all,
                         at::Device device)
    : all_(all) {
  int64_t operands = 0;
  for (const modules::DeclaredModule& module : modules) {
    if (!formats.delays(module)) continue;
    first_operand_[module.name] = operands;
    operands += kOperands;
  }
  const at::TensorOptions options = at::device(device).dtype(at::kFloat);
  const int64_t steps = operands == 0 ? 0 : formats.steps_of_history();
  history_ = at::zeros({operands, steps}, options);
  largest_ = at::zeros({operands}, options);
  step_amax_ = at::zeros({operands}, options);
  places_ = at::arange(steps, options);
}

int64_t AmaxHistory::bytes() const {
  return static_cast<int64_t>(history_.nbytes() + largest_.nbytes() + step_amax_.nbytes() + places_.nbytes());
}

kernels::DelayedScales AmaxHistory::of(const std::string& module) const {
  const auto found = first_operand_.find(module);
  TORCH_CHECK(found != first_operand_.end(), "AmaxHistory: ", module,
              " has no history, expected a module whose product has delayed scales");
  const auto scale = [&](int64_t operand) {
    const int64_t place = found->second + operand;
    return kernels::DelayedScale{largest_.narrow(0, place, 1), step_amax_.narrow(0, place, 1)};
  };
  return {.x = scale(0), .weight = scale(1), .gradient = scale(2)};
}

// Writes in place, and everywhere, because a captured step has no index that the host knows.
void AmaxHistory::end_step(const Tensor& updates, const Tensor& skipped) {
  all_.all_reduce_max(step_amax_, "largest magnitudes").wait();
  const Tensor is_newest = places_.eq(at::remainder(updates - 1, steps())).logical_and(skipped.eq(0));
  at::where_out(history_, is_newest, step_amax_.unsqueeze(1), history_);
  find_largest();
  step_amax_.zero_();
}

std::vector<AmaxHistory::OfModule> AmaxHistory::histories() const {
  std::vector<OfModule> all;
  for (const auto& [module, first] : first_operand_) {
    all.push_back({module, history_.narrow(0, first, kOperands).view(-1)});
  }
  return all;
}

void AmaxHistory::share() {
  if (!is_on()) return;
  all_.broadcast(history_, /*root=*/0, "histories of the largest magnitudes").wait();
  find_largest();
}

std::map<std::string, Tensor> AmaxHistory::largest_by_module() const {
  std::map<std::string, Tensor> all;
  for (const auto& [module, first] : first_operand_) all[module] = largest_.narrow(0, first, kOperands);
  return all;
}

void AmaxHistory::find_largest() { at::amax_out(largest_, history_, /*dim=*/1); }

}  // namespace strata::trainer
