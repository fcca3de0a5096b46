// SPDX-License-Identifier: MIT
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

// Adds a case of each op on rows `x`, with weight and bias. If the rows have an offset, x - mean(x) is a difference of
// numbers of that size. Their sum with a branch is left out, because it is rounded before it is normalized.
void add_cases(const std::string& prefix, const Tensor& x, bool has_bias, double offset, std::vector<OpCase>& cases) {
  LayerNormShape shape{.rows = rows_of(x.sizes()), .width = x.size(-1), .bias = has_bias};
  Leaves leaves = {x, random_weight(x.size(-1))};
  if (has_bias) leaves.push_back(random({x.size(-1)}));
  const std::string suffix = (has_bias ? "_bias_" : "_") + prefix + sizes_text(x.sizes().vec());
  const auto add = [&](OpCase op_case) {
    if (offset != 0) op_case.operands.assign(op_case.outputs + op_case.leaves.size(), offset);
    cases.push_back(std::move(op_case));
  };
  add({shape, "layer_norm" + suffix, leaves, leaves.size() - 1, [](const Leaves& leaves, Level level) -> Leaves {
         const Tensor bias = leaves.size() > 2 ? leaves[2] : Tensor();
         return {layer_norm(leaves[0], leaves[1], bias, kNormEpsilon, level)};
       }});
  shape.gelu_tanh = true;
  add({shape, "layer_norm_gelu_tanh" + suffix, leaves, leaves.size() - 1,
       [](const Leaves& leaves, Level level) -> Leaves {
         const Tensor bias = leaves.size() > 2 ? leaves[2] : Tensor();
         return {layer_norm_gelu_tanh(leaves[0], leaves[1], bias, kNormEpsilon, level)};
       }});
  if (offset != 0) return;
  leaves.insert(leaves.begin(), random(x.sizes()));
  shape.gelu_tanh = false;
  shape.adds = true;
  add({shape, "add_layer_norm" + suffix, leaves, leaves.size() - 2,
       [](const Leaves& leaves, Level level) -> Leaves {
         const Tensor bias = leaves.size() > 3 ? leaves[3] : Tensor();
         const auto [y, sum] = add_layer_norm(leaves[0], leaves[1], leaves[2], bias, kNormEpsilon, level);
         return {y, sum};
       },
       true, 2});
}

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const Sizes& sizes : row_shapes()) {
    for (const bool has_bias : {false, true}) add_cases("", random(sizes), has_bias, /*offset=*/0, cases);
  }
  for (const Sizes& sizes : unusual_row_shapes()) {
    add_cases("offset_", offset_rows(sizes), /*has_bias=*/true, kOffset, cases);
    add_cases("zero_", zero_rows(sizes), /*has_bias=*/true, /*offset=*/0, cases);
    add_cases("outlier_", outlier_rows(sizes), /*has_bias=*/true, /*offset=*/0, cases);
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const LayerNormShape& s = *shape.as<LayerNormShape>();
  Workload w{shape};
  w.split_leaves = w.split_results = s.adds ? 2 : 1;
  w.row_elements = s.width;
  for (size_t i = 0; i < w.split_leaves; ++i) w.inputs.leaves.push_back(random({s.rows, s.width}, options));
  w.inputs.leaves.push_back(random_weight(s.width, options));
  if (s.bias) w.inputs.leaves.push_back(random({s.width}, options));
  w.run = [adds = s.adds, gelu_tanh = s.gelu_tanh](const Inputs& in, Level level) -> Leaves {
    const Leaves& x = in.leaves;
    const size_t at = adds ? 2 : 1;
    const Tensor &weight = x[at], bias = x.size() > at + 1 ? x[at + 1] : Tensor();
    if (gelu_tanh) return {layer_norm_gelu_tanh(x[0], weight, bias, kNormEpsilon, level)};
    if (!adds) return {layer_norm(x[0], weight, bias, kNormEpsilon, level)};
    const auto [y, sum] = add_layer_norm(x[0], x[1], weight, bias, kNormEpsilon, level);
    return {y, sum};
  };
  return w;
}

}  // namespace

OpProof layer_norm_proof() {
  OpProof proof = {
      // Level aten stores the input of gelu.
      .tolerances = {{"layer_norm"}, {"add_layer_norm"}, {"layer_norm_gelu_tanh", 1.8}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {LayerNormShape{.rows = 40, .width = 33, .bias = true},
                       LayerNormShape{.rows = 40, .width = 33, .adds = true},
                       LayerNormShape{.rows = 40, .width = 33, .bias = true, .gelu_tanh = true}},
      .gpu_shapes = {},
      .cpu_shapes = {},
  };
  for (const bool adds : {false, true}) {
    proof.gpu_shapes.push_back(LayerNormShape{.rows = 65536, .width = 768, .bias = true, .adds = adds});
    proof.gpu_shapes.push_back(LayerNormShape{.rows = 32768, .width = 1600, .bias = true, .adds = adds});
    proof.cpu_shapes.push_back(LayerNormShape{.rows = 2048, .width = 1024, .bias = true, .adds = adds});
  }
  proof.gpu_shapes.push_back(LayerNormShape{.rows = 65536, .width = 1000, .bias = true, .gelu_tanh = true});
  proof.cpu_shapes.push_back(LayerNormShape{.rows = 2048, .width = 1024, .bias = true, .gelu_tanh = true});
  return proof;
}

}  // namespace strata::kernels
