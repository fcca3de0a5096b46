// SPDX-License-Identifier: MIT
#include "trainer/ledger/computed_outputs.h"

#include <ATen/core/function_schema.h>

#include <algorithm>
#include <optional>

namespace strata::trainer {
namespace {

// True for ops that allocate memory without setting it. What such memory holds differs from run to run.
bool leaves_values_open(const std::string& name) {
  for (const char* part : {"::empty", "::new_empty", "::resize", "::set_"}) {
    if (name.find(part) != name.npos) return true;
  }
  return false;
}

// True for forwards of attention, whose other outputs may hold memory that no kernel has set: padding on GPUs, and
// seeds without dropout. If one of these outputs is wrong, the gradients show it.
bool only_first_is_set(const std::string& name) {
  return name.starts_with("aten::") && name.find("attention") != name.npos && name.find("backward") == name.npos;
}

}  // namespace

std::vector<at::Tensor> ComputedOutputs::of(const at::RecordFunction& function) {
  std::vector<at::Tensor> tensors;
  if (!computes(function)) return tensors;
  const bool only_first = only_first_is_set(function.name());
  for (const c10::IValue& output : function.outputs()) {
    if (output.isTensor()) tensors.push_back(output.toTensor());
    if (only_first) break;
    if (!output.isTensorList()) continue;
    for (const at::Tensor& tensor : output.toTensorVector()) tensors.push_back(tensor);
  }
  return tensors;
}

bool ComputedOutputs::computes(const at::RecordFunction& function) {
  const std::optional<c10::OperatorName> name = function.operator_name();
  if (!name) return false;
  const std::string full = name->name + "." + name->overload_name;
  const auto known = computes_.find(full);
  if (known != computes_.end()) return known->second;
  const std::optional<c10::FunctionSchema> schema = function.operator_schema();
  const bool is_view = schema && std::ranges::any_of(schema->returns(), [](const c10::Argument& returned) {
                         return returned.alias_info() != nullptr && !returned.alias_info()->isWrite();
                       });
  return computes_[full] = !is_view && !leaves_values_open(name->name);
}

}  // namespace strata::trainer
