// SPDX-License-Identifier: MIT
#include <algorithm>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_shape.h"
#include "kernels/proof/loss_inputs.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

// Levels store the gradient of the logits before the factor of the loss's own gradient is known, and round the product
// again. The formula knows the factor.
const std::vector<double> kFactors = {1, 1.7};

// If the target's probability is near 1, the gradient is the difference of two numbers near 1, and the loss is the
// logarithm of a number near 1. Neither can be more exact than the rounding of 1.
OpCase cross_entropy_case(const std::string& prefix, const Tensor& logits, const Tensor& targets, double smoothing) {
  const CrossEntropyShape shape{.rows = logits.size(0), .classes = logits.size(1)};
  OpCase result{shape,
                "cross_entropy_" + loss_case_name(prefix, shape.rows, shape.classes, smoothing),
                {logits},
                0,
                [targets, smoothing](const Leaves& leaves, Level level) -> Leaves {
                  const auto device = leaves[0].device();
                  return {cross_entropy(leaves[0], copied_to(device, targets), number(kLossScale, device), kIgnored,
                                        smoothing, level)};
                }};
  result.factors = kFactors;
  result.operands = {kLossScale, kLossScale};
  return result;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const auto& [rows, classes] : kLossSizes) {
    for (const double smoothing : {0.0, kSmoothing}) {
      const Tensor logits = random({rows, classes}).mul_(3.0);
      cases.push_back(cross_entropy_case("", logits, loss_targets(rows, classes), smoothing));
      // An evaluation needs no gradient, and levels have kernels for it.
      cases.push_back(cross_entropy_case("evaluated_", logits, loss_targets(rows, classes), smoothing));
      cases.back().differentiable = false;
      // These are logits of some hundreds, whose exp overflows. In half of the rows the target has the largest logit
      // and a probability near 1.
      if (rows == 0) continue;
      const Tensor large = random({rows, classes}).mul_(60.0);
      cases.push_back(cross_entropy_case("large_", large, likely_targets(large), smoothing));
      cases.push_back(cross_entropy_case("ignored_", logits, ignored_targets(rows), smoothing));
    }
  }
  return cases;
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const CrossEntropyShape& s = *shape.as<CrossEntropyShape>();
  Workload w{shape};
  w.split_constants = 1;
  w.split_results = 0;
  w.row_elements = s.classes;
  w.factors = kFactors;
  w.inputs.leaves = {random({s.rows, s.classes}, options).mul_(3.0)};
  w.inputs.constants = {random_indices(s.rows, s.classes, options),
                        number(1.0 / double(std::max<int64_t>(s.rows, 1)), options)};
  w.run = [](const Inputs& in, Level level) -> Leaves {
    return {cross_entropy(in.leaves[0], in.constants[0], in.constants[1], kIgnored, /*label_smoothing=*/0, level)};
  };
  return w;
}

}  // namespace

OpProof cross_entropy_proof() {
  return {
      .tolerances = {{"cross_entropy"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {CrossEntropyShape{.rows = 40, .classes = 33}},
      .gpu_shapes = {CrossEntropyShape{.rows = 65536, .classes = 50304},
                     CrossEntropyShape{.rows = 16384, .classes = 128256}},
      .cpu_shapes = {CrossEntropyShape{.rows = 512, .classes = 4096}},
  };
}

}  // namespace strata::kernels
