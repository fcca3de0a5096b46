// SPDX-License-Identifier: MIT
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"
#include "kernels/swiglu/swiglu.h"
#include "kernels/swiglu/swiglu_shape.h"

namespace strata::kernels {
namespace {

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const Sizes& sizes : row_shapes()) {
    Sizes doubled = sizes;
    doubled.back() *= 2;
    for (const Activation kind : {Activation::silu, Activation::gelu_tanh}) {
      cases.push_back(
          {SwigluShape{.rows = rows_of(sizes), .width = sizes.back(), .kind = kind},
           "swiglu_" + std::string(name(kind)) + "_" + sizes_text(doubled),
           {random(doubled)},
           0,
           [kind](const Leaves& leaves, Level level) -> Leaves { return {swiglu(leaves[0], kind, level)}; }});
    }
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const SwigluShape& s = *shape.as<SwigluShape>();
  Workload w{shape};
  w.row_elements = s.width;
  w.inputs.leaves = {random({s.rows, 2 * s.width}, options)};
  w.run = [kind = s.kind](const Inputs& in, Level level) -> Leaves { return {swiglu(in.leaves[0], kind, level)}; };
  return w;
}

}  // namespace

OpProof swiglu_proof() {
  return {
      // Level aten stores the activated gate.
      .tolerances = {{"swiglu", 1.7}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {SwigluShape{.rows = 40, .width = 33}},
      .gpu_shapes = {SwigluShape{.rows = 16384, .width = 14336},
                     SwigluShape{.rows = 16384, .width = 14336, .kind = Activation::gelu_tanh}},
      .cpu_shapes = {SwigluShape{.rows = 2048, .width = 1024}},
  };
}

}  // namespace strata::kernels
