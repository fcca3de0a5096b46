// SPDX-License-Identifier: MIT
// Looks at the inputs and outputs of every op of LibTorch that runs: which one makes the first value that is not
// finite?
#pragma once

#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/replay/tensor_facts.h"
#include "trainer/ledger/computed_outputs.h"

namespace strata::tools {

struct CheckedOp {
  std::string name;  // "forward aten::mm"
  TensorFacts inputs, outputs;
  // A number among the arguments is not finite, as in the fill of a mask. The op is then told to make such values.
  bool told = false;

  // It made a NaN without a NaN, or an infinite value of finite ones.
  bool makes_nonfinite() const;
};

class OpCheck {
 public:
  OpCheck() = default;
  ~OpCheck() { end(); }
  OpCheck(const OpCheck&) = delete;
  OpCheck& operator=(const OpCheck&) = delete;

  // Until end(), looks at the ops of the calling thread and of autograd's threads that work for it. An op is reported
  // after the ops that it calls. Views and ops that only allocate are left out. Only one object at a time may be
  // between begin() and end().
  void begin();
  void end();

  const std::vector<CheckedOp>& ops() const { return ops_; }
  // Returns the name of the first op from index `first` on that makes a value that is not finite; empty if none does.
  std::string first_maker(size_t first = 0) const;

 private:
  struct Began;
  static std::unique_ptr<at::ObserverContext> op_begins(const at::RecordFunction& function);
  static void op_ends(const at::RecordFunction& function, at::ObserverContext* context);
  void look_at_inputs(const at::RecordFunction& function, CheckedOp& op);
  const std::vector<bool>& only_written(const at::RecordFunction& function);

  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;        // valid between begin() and end()
  std::unordered_map<std::string, std::vector<bool>> only_written_;  // by the full name of an op
  trainer::ComputedOutputs outputs_;
  std::vector<CheckedOp> ops_;
};

}  // namespace strata::tools
