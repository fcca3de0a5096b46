// SPDX-License-Identifier: MIT
#include "tools/replay/op_check.h"

#include <ATen/core/function_schema.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace strata::tools {
namespace {

// The object that looks. The callbacks of LibTorch are plain functions.
OpCheck* looking = nullptr;

// These ops overwrite their first argument and do not read it.
bool overwrites_first(const std::string& name) {
  for (const char* op : {"aten::copy_", "aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_"}) {
    if (name == op) return true;
  }
  return false;
}

}  // namespace

struct OpCheck::Began : at::ObserverContext {
  CheckedOp op;
};

bool CheckedOp::makes_nonfinite() const {
  if (told || outputs.finite() || inputs.nan > 0) return false;
  return outputs.nan > 0 || inputs.infinite == 0;
}

void OpCheck::begin() {
  TORCH_CHECK(looking == nullptr, "another object looks at ops already");
  looking = this;
  callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(op_begins, op_ends)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
}

void OpCheck::end() {
  if (callback_ == at::INVALID_CALLBACK_HANDLE) return;
  at::removeCallback(callback_);
  callback_ = at::INVALID_CALLBACK_HANDLE;
  looking = nullptr;
}

std::string OpCheck::first_maker(size_t first) const {
  const auto found = std::find_if(ops_.begin() + static_cast<std::ptrdiff_t>(std::min(first, ops_.size())), ops_.end(),
                                  [](const CheckedOp& op) { return op.makes_nonfinite(); });
  return found == ops_.end() ? "" : found->name;
}

// The inputs are looked at before the op runs, because an op in place changes them.
std::unique_ptr<at::ObserverContext> OpCheck::op_begins(const at::RecordFunction& function) {
  if (looking == nullptr || !function.operator_name()) return nullptr;
  const bool in_backward = torch::autograd::get_current_graph_task_id() >= 0;
  auto began = std::make_unique<Began>();
  began->op.name = (in_backward ? "backward " : "forward ") + std::string(function.name());
  looking->look_at_inputs(function, began->op);
  return began;
}

void OpCheck::op_ends(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* const began = static_cast<Began*>(context);
  if (looking == nullptr || began == nullptr) return;
  const std::vector<at::Tensor> outputs = looking->outputs_.of(function);
  if (outputs.empty()) return;
  for (const at::Tensor& output : outputs) began->op.outputs = began->op.outputs + facts_of(output);
  looking->ops_.push_back(std::move(began->op));
}

void OpCheck::look_at_inputs(const at::RecordFunction& function, CheckedOp& op) {
  const std::vector<bool>& skipped = only_written(function);
  const auto inputs = function.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const c10::IValue& input = inputs[i];
    if (i < skipped.size() && skipped[i]) continue;
    if (input.isTensor()) op.inputs = op.inputs + facts_of(input.toTensor());
    if (input.isDouble() && !std::isfinite(input.toDouble())) op.told = true;
    if (!input.isTensorList()) continue;
    for (const at::Tensor& tensor : input.toTensorVector()) op.inputs = op.inputs + facts_of(tensor);
  }
}

// The memory of an output may hold anything before the op has written it.
const std::vector<bool>& OpCheck::only_written(const at::RecordFunction& function) {
  const c10::OperatorName name = *function.operator_name();
  const auto [place, is_new] = only_written_.try_emplace(name.name + "." + name.overload_name);
  if (!is_new) return place->second;
  const std::optional<c10::FunctionSchema> schema = function.operator_schema();
  if (!schema) return place->second;
  for (const c10::Argument& argument : schema->arguments()) place->second.push_back(argument.is_out());
  if (overwrites_first(name.name) && !place->second.empty()) place->second.front() = true;
  return place->second;
}

}  // namespace strata::tools
