// SPDX-License-Identifier: MIT
#include "kernels/global_norm/global_norm.h"
#include "kernels/global_norm/global_norm_shape.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const int64_t size : {1, 37, 4099}) {
    OpCase norm_case{GlobalNormShape{.elements = size + 15},
                     "global_norm_" + std::to_string(size),
                     {random({size}), random({3, 5})},
                     0,
                     [](const Leaves& leaves, Level level) -> Leaves { return {global_norm(leaves, level)}; }};
    norm_case.differentiable = false;
    cases.push_back(norm_case);
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  Workload w{shape};
  w.differentiable = false;
  w.split_results = 0;
  w.inputs.leaves = {random({shape.as<GlobalNormShape>()->elements}, options)};
  w.run = [](const Inputs& in, Level level) -> Leaves { return {global_norm({in.leaves[0]}, level)}; };
  return w;
}

}  // namespace

OpProof global_norm_proof() {
  return {
      .tolerances = {{"global_norm"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {GlobalNormShape{.elements = 1000}},
      .gpu_shapes = {GlobalNormShape{.elements = 1'200'000'000}},
      .cpu_shapes = {GlobalNormShape{.elements = 16'000'000}},
  };
}

}  // namespace strata::kernels
