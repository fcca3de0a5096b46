// SPDX-License-Identifier: MIT
#include "kernels/activation/activation.h"
#include "kernels/activation/activation_shape.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const Sizes& sizes : row_shapes()) {
    for (const Activation kind : {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu}) {
      cases.push_back(
          {ActivationShape{.rows = rows_of(sizes), .width = sizes.back(), .kind = kind},
           "activation_" + std::string(name(kind)) + "_" + sizes_text(sizes),
           {random(sizes)},
           0,
           [kind](const Leaves& leaves, Level level) -> Leaves { return {activation(leaves[0], kind, level)}; }});
    }
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const ActivationShape& s = *shape.as<ActivationShape>();
  Workload w{shape};
  w.row_elements = s.width;
  w.inputs.leaves = {random({s.rows, s.width}, options)};
  w.run = [kind = s.kind](const Inputs& in, Level level) -> Leaves { return {activation(in.leaves[0], kind, level)}; };
  return w;
}

}  // namespace

OpProof activation_proof() {
  return {
      .tolerances = {{"activation"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {ActivationShape{.rows = 40, .width = 33, .kind = Activation::silu}},
      .gpu_shapes = {ActivationShape{.rows = 65536, .width = 3072, .kind = Activation::gelu},
                     ActivationShape{.rows = 65536, .width = 3072, .kind = Activation::gelu_tanh}},
      .cpu_shapes = {ActivationShape{.rows = 2048, .width = 1024, .kind = Activation::gelu_tanh}},
  };
}

}  // namespace strata::kernels
