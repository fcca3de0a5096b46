// SPDX-License-Identifier: MIT
#include "tests/kernels/traced_run.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/level_matrix.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/random_inputs.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

std::string text(const std::string& name, const Tensor& tensor) {
  std::ostringstream text;
  text << name << ": ";
  if (tensor.defined()) {
    text << tensor.scalar_type() << " " << tensor.sizes() << " strides " << tensor.strides();
  } else {
    text << "none";
  }
  return text.str();
}

// Sizes of a small model, on which blocks and tiles are full, and the large cases of the proofs.
std::vector<OpCase> large_cases() {
  std::vector<OpCase> cases = large_op_cases();
  cases.push_back(
      {LinearShape{.rows = 1200, .inputs = 256, .outputs = 512, .activation = Activation::gelu_tanh, .bias = true},
       "linear_gelu_tanh_bias_4x300x256",
       {at::randn({4, 300, 256}), at::randn({512, 256}), at::randn({512})},
       2,
       [](const Leaves& leaves, Level level) -> Leaves {
         return {linear(leaves[0], leaves[1], leaves[2], Activation::gelu_tanh, level)};
       }});
  for (const int64_t key_value_heads : {2, 8}) {
    cases.push_back(
        {AttentionShape{.batch = 2, .positions = 800, .heads = 8, .key_value_heads = key_value_heads, .head_width = 64},
         "attention_causal_2x800x8x" + std::to_string(key_value_heads) + "x64",
         {at::randn({2, 800, (8 + 2 * key_value_heads) * 64})},
         0,
         [key_value_heads](const Leaves& leaves, Level level) -> Leaves {
           return {attention(leaves[0], 8, key_value_heads, {{.kind = Pattern::Kind::causal}}, {}, level)};
         }});
  }
  return cases;
}

}  // namespace

CountedRun counted_run(const OpCase& op_case, Level level, at::ScalarType dtype, c10::Device device,
                       const Meter& meter) {
  Leaves leaves;
  for (const Tensor& leaf : op_case.leaves) {
    leaves.push_back(leaf.to(device, dtype, /*non_blocking=*/false, /*copy=*/true));
    leaves.back().requires_grad_(op_case.differentiable);
  }
  CountedRun run;
  meter.reset_peak();
  const int64_t before = meter.current_bytes();
  Leaves outputs = op_case.run(leaves, level);
  run.kept = meter.current_bytes() - before;
  for (size_t i = 0; i < outputs.size(); ++i) {
    run.tensors.push_back(text("output " + std::to_string(i), outputs[i]));
  }
  if (op_case.differentiable) {
    Leaves gradients;
    for (const Tensor& output : outputs) gradients.push_back(at::ones(output.sizes(), output.options()));
    torch::autograd::backward(outputs, gradients);
    for (size_t i = 0; i < leaves.size(); ++i) {
      run.tensors.push_back(text("gradient of leaf " + std::to_string(i), leaves[i].grad()));
    }
  }
  run.most = meter.peak_bytes() - before;
  return run;
}

CountedRun traced_run(const OpCase& op_case, Level level, at::ScalarType dtype, c10::DeviceType device) {
  Tracing tracing(device);
  return counted_run(
      op_case, level, dtype, at::kMeta,
      {[&] { return tracing.current_bytes(); }, [&] { return tracing.peak_bytes(); }, [&] { tracing.reset_peak(); }});
}

const std::vector<OpCase>& traced_cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> cases = op_cases();
    for (OpCase& op_case : large_cases()) cases.push_back(std::move(op_case));
    return cases;
  }();
  return all;
}

std::string run_name(const testing::TestParamInfo<TracedRun>& info) {
  const auto& [op_case, level, dtype] = info.param;
  return traced_cases()[op_case].name + "_" + std::string(name(level)) + (dtype == at::kFloat ? "_fp32" : "_bf16");
}

std::vector<TracedRun> traced_runs(const std::vector<Level>& levels, const std::vector<c10::DeviceType>& devices) {
  std::set<std::pair<std::string_view, Level>> exist;
  for (const LevelRow& row : level_matrix()) {
    const bool is_asked_for = std::find(devices.begin(), devices.end(), row.device) != devices.end();
    if (row.forward && is_asked_for) exist.insert({row.op, row.level});
  }
  std::vector<TracedRun> all;
  for (size_t i = 0; i < traced_cases().size(); ++i) {
    for (const Level level : levels) {
      if (exist.count({traced_cases()[i].op(), level}) == 0) continue;
      for (const auto dtype : {at::kFloat, at::kBFloat16}) all.push_back({i, level, dtype});
    }
  }
  return all;
}

}  // namespace strata::kernels
