// SPDX-License-Identifier: MIT
#include "trainer/model/amax_history.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

namespace strata::trainer {

AmaxHistory::AmaxHistory(const modules::LinearFormatsConfig& formats, const std::vector<modules::Module>& modules,
                         sharding::Communicator& all, at::Device device)
    : all_(all) {
  int64_t operands = 0;
  for (const modules::Module& module : modules) {
    if (!formats.delays() || !module.product || !formats.of(module.name)) continue;
    first_operand_[module.name] = operands;
    operands += kOperands;
  }
  const at::TensorOptions options = at::device(device).dtype(at::kFloat);
  history_ = at::zeros({operands, operands == 0 ? 0 : formats.steps_of_history()}, options);
  past_ = at::zeros({operands}, options);
  of_step_ = at::zeros({all.size() * operands}, options);
}

kernels::DelayedScales AmaxHistory::of(const std::string& module) const {
  const int64_t first = first_operand_.at(module), first_in_step = all_.rank() * past_.numel() + first;
  const auto scale = [&](int64_t operand) {
    return kernels::DelayedScale{past_.narrow(0, first + operand, 1), of_step_.narrow(0, first_in_step + operand, 1)};
  };
  return {.x = scale(0), .weight = scale(1), .gradient = scale(2)};
}

void AmaxHistory::end_step(const Tensor& of_ranks, const Tensor& skipped) {
  const Tensor newest = of_ranks.view({all_.size(), past_.numel()}).amax(0).unsqueeze(1);
  const Tensor moved = at::cat({newest, history_.narrow(1, 0, steps() - 1)}, 1);
  at::where_out(history_, skipped.gt(0), history_, moved);
  find_largest();
  of_step_.zero_();
}

std::vector<AmaxHistory::OfModule> AmaxHistory::histories() const {
  std::vector<OfModule> all;
  for (const auto& [module, first] : first_operand_)
    all.push_back({module, history_.narrow(0, first, kOperands).view(-1)});
  return all;
}

void AmaxHistory::share() {
  if (!is_on()) return;
  all_.broadcast(history_, /*root=*/0, "histories of the largest magnitudes").wait();
  find_largest();
}

void AmaxHistory::find_largest() { at::amax_out(past_, history_, /*dim=*/1); }

}  // namespace strata::trainer
