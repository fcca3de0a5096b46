// SPDX-License-Identifier: MIT
// AmaxHistory: the largest magnitudes of the operands of linear layers in the last steps, from which the scales of
// `scaling: delayed` follow.
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
// read and raise single numbers of the tensors here, so no step waits, and a captured step changes them too. What this
// object takes does not depend on the number of ranks.
class AmaxHistory {
 public:
  // `modules` are the modules of the model. `all` has the ranks of the run and must outlive this object.
  AmaxHistory(const modules::LinearFormatsConfig& formats, const std::vector<modules::DeclaredModule>& modules,
              sharding::Communicator& all, at::Device device);

  bool is_on() const { return largest_.numel() > 0; }  // without `scaling: delayed` all tensors are empty
  int64_t bytes() const;                               // bytes of all tensors

  // Returns the numbers of a module, which its forward and backward read and raise. Throws a c10::Error if it has none.
  kernels::DelayedScales of(const std::string& module) const;

  // Call it once a step if is_on(): puts what all ranks have recorded since the last call into the histories, in place
  // of the oldest numbers. `updates` (fp32, 0-dim, up to 2^24) counts the updates of the weights, with the one of this
  // step. If `skipped` (fp32, 0-dim) is 1, the histories stay as they are, as the weights do. Collective.
  void end_step(const Tensor& updates, const Tensor& skipped);

  // The histories of the three operands of a module, a view: fp32 [3 * steps], operand by operand. The number of update
  // u (1, 2, ...) is at place (u - 1) % steps of each. 0: there was none yet.
  struct OfModule {
    std::string module;
    Tensor values;
  };
  std::vector<OfModule> histories() const;
  int64_t steps() const { return history_.size(1); }
  // All histories, fp32 [operands, steps], contiguous. It is always the same tensor.
  const Tensor& values() const { return history_; }
  // Call it after rank 0 has filled the histories from a checkpoint. Collective.
  void share();

  // Returns the largest numbers of the histories of each module: fp32 [3], a view.
  std::map<std::string, Tensor> largest_by_module() const;

 private:
  static constexpr int64_t kOperands = 3;
  void find_largest();

  sharding::Communicator& all_;
  std::map<std::string, int64_t> first_operand_;  // by the name of the module
  Tensor history_;
  Tensor largest_;    // fp32 [operands]: of each history
  Tensor step_amax_;  // fp32 [operands]: largest magnitudes that this rank has recorded in this step
  Tensor places_;     // fp32 [steps]: 0, 1, 2 ...
};

}  // namespace strata::trainer
