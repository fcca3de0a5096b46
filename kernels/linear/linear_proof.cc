// SPDX-License-Identifier: MIT
#include <ATen/ops/randint.h>

#include <algorithm>
#include <cmath>

#include "kernels/linear/linear.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

// Sets small integers, whose sums of products are exact in fp32, with one half in each sum. No sum is 0, so the side of
// relu's kink does not depend on rounding.
void use_integers_off_zero(Leaves& leaves) {
  for (Tensor& leaf : leaves) leaf = at::randint(-2, 3, leaf.sizes(), at::kDouble);
  leaves[0].select(-1, 0).fill_(1.0);
  leaves[1].select(-1, 0).add_(0.5);
}

// A row of a gradient is a product of few rounded numbers, so the errors of its elements are not independent.
std::vector<double> factors_of(const Leaves& leaves) {
  std::vector<double> factors(1 + leaves.size(), 1.2);
  factors[0] = 1;
  return factors;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const Activation kind : {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    for (const bool has_bias : {false, true}) {
      for (const Sizes& sizes : {Sizes{2, 3, 8}, Sizes{7, 33}, Sizes{1, 16}, Sizes{0, 16}, Sizes{64, 72}}) {
        const int64_t in = sizes.back(), out = 21;
        Leaves leaves = {random(sizes), random({out, in}).div_(std::sqrt(double(in)))};
        if (has_bias) leaves.push_back(random({out}));
        if (kind == Activation::relu) use_integers_off_zero(leaves);
        const LinearShape shape{
            .rows = rows_of(sizes), .inputs = in, .outputs = out, .activation = kind, .bias = has_bias};
        OpCase linear_case{
            shape, "linear_" + std::string(name(kind)) + (has_bias ? "_bias_" : "_") + sizes_text(sizes), leaves,
            leaves.size() - 1, [kind](const Leaves& leaves, Level level) -> Leaves {
              return {linear(leaves[0], leaves[1], leaves.size() > 2 ? leaves[2] : Tensor(), kind, level)};
            }};
        linear_case.factors = factors_of(leaves);
        cases.push_back(linear_case);
      }
    }
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const LinearShape& s = *shape.as<LinearShape>();
  Workload w{shape};
  w.row_elements = std::max(s.inputs, s.outputs);
  w.inputs.leaves = {random({s.rows, s.inputs}, options),
                     random({s.outputs, s.inputs}, options).div_(std::sqrt(double(s.inputs)))};
  if (s.bias) w.inputs.leaves.push_back(random({s.outputs}, options));
  w.factors = factors_of(w.inputs.leaves);
  w.run = [kind = s.activation](const Inputs& in, Level level) -> Leaves {
    return {linear(in.leaves[0], in.leaves[1], in.leaves.size() > 2 ? in.leaves[2] : Tensor(), kind, level)};
  };
  return w;
}

}  // namespace

OpProof linear_proof() {
  constexpr Activation kGelu = Activation::gelu_tanh;
  return {
      .tolerances = {{"linear"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {LinearShape{.rows = 40, .inputs = 33, .outputs = 24, .activation = kGelu, .bias = true}},
      .gpu_shapes = {LinearShape{.rows = 65536, .inputs = 768, .outputs = 3072, .activation = kGelu, .bias = true},
                     LinearShape{.rows = 8192, .inputs = 4096, .outputs = 28672}},
      .cpu_shapes = {LinearShape{.rows = 512, .inputs = 512, .outputs = 1024, .activation = kGelu, .bias = true}},
  };
}

}  // namespace strata::kernels
