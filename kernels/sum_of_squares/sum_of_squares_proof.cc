// SPDX-License-Identifier: MIT
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"
#include "kernels/sum_of_squares/sum_of_squares.h"
#include "kernels/sum_of_squares/sum_of_squares_shape.h"

namespace strata::kernels {
namespace {

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const int64_t size : {1, 37, 4099}) {
    OpCase norm_case{SumOfSquaresShape{.elements = size + 15},
                     "sum_of_squares_" + std::to_string(size),
                     {random({size}), random({3, 5})},
                     0,
                     [](const Leaves& leaves, Level level) -> Leaves { return {sum_of_squares(leaves, level)}; }};
    norm_case.differentiable = false;
    cases.push_back(norm_case);
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  Workload w{shape};
  w.differentiable = false;
  w.split_results = 0;
  w.inputs.leaves = {random({shape.as<SumOfSquaresShape>()->elements}, options)};
  w.run = [](const Inputs& in, Level level) -> Leaves { return {sum_of_squares({in.leaves[0]}, level)}; };
  return w;
}

}  // namespace

OpProof sum_of_squares_proof() {
  return {
      .tolerances = {{"sum_of_squares"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {SumOfSquaresShape{.elements = 1000}},
      .gpu_shapes = {SumOfSquaresShape{.elements = 1'200'000'000}},
      .cpu_shapes = {SumOfSquaresShape{.elements = 16'000'000}},
  };
}

}  // namespace strata::kernels
