// SPDX-License-Identifier: MIT
// AmaxHistory: the largest magnitudes of the operands of linear layers in the last steps, which `scaling: delayed`
// makes scales of.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "kernels/quantize/delayed_scale.h"
#include "modules/config/linear_formats_config.h"
#include "modules/config/module.h"
#include "sharding/communication/communicator.h"

namespace strata::trainer {

using at::Tensor;

// Each layer has three operands: inputs, weight, and gradients of outputs. All ranks hold the same histories. Kernels
// read and raise single numbers of the tensors here, so no step waits, and a captured step carries them.
class AmaxHistory {
 public:
  // `modules` are those of the model, `all` has the ranks of the run and must outlive this object.
  AmaxHistory(const modules::LinearFormatsConfig& formats, const std::vector<modules::Module>& modules,
              sharding::Communicator& all, at::Device device);

  bool is_on() const { return past_.numel() > 0; }  // without `scaling: delayed` all tensors are empty

  // The numbers of a module, whose forward and backward read and raise them.
  kernels::DelayedScales of(const std::string& module) const;

  // fp32 [ranks * operands]: what this rank recorded in this step, and zeros in the places of the other ranks. So the
  // sum over ranks has the numbers of all.
  const Tensor& of_step() const { return of_step_; }
  // Call it once a step if is_on(). `of_ranks` is the sum of of_step() over ranks. Its largest numbers begin the
  // histories, whose oldest ones are dropped. If `skipped` (fp32, 0-dim) is 1, the histories stay as they are, as the
  // weights do.
  void end_step(const Tensor& of_ranks, const Tensor& skipped);

  // A history for each operand of a module, newest first, fp32 [3, steps] in one row: `<module>/amax_history`.
  struct OfModule {
    std::string module;
    Tensor values;
  };
  std::vector<OfModule> histories() const;
  // Call it after rank 0 has filled the histories from a checkpoint. Collective.
  void share();

  int64_t steps() const { return history_.size(1); }

 private:
  static constexpr int64_t kOperands = 3;
  void find_largest();

  sharding::Communicator& all_;
  std::map<std::string, int64_t> first_operand_;  // by the name of the module
  Tensor history_;                                // fp32 [operands, steps]
  Tensor past_;                                   // fp32 [operands]: the largest of each history
  Tensor of_step_;
};

}  // namespace strata::trainer
