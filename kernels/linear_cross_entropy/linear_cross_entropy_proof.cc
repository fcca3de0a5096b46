// SPDX-License-Identifier: MIT
#include <ATen/ops/randint.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "kernels/linear_cross_entropy/head_chunks.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy_shape.h"
#include "kernels/proof/loss_inputs.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

// The gradient of the logits is rounded to the dtype before the factor of the loss's own gradient is known. The formula
// knows the factor. A row of a gradient has the rounding of few logits' gradients, so its errors are not independent.
const std::vector<double> kFactors = {1, 4, 4};

OpCase linear_cross_entropy_case(const std::string& prefix, const Tensor& hidden, const Tensor& weight,
                                 const Tensor& targets, double smoothing, double softcap = 0) {
  const LinearCrossEntropyShape shape{.rows = hidden.size(0), .inputs = hidden.size(1), .classes = weight.size(0)};
  OpCase result{shape,
                "linear_cross_entropy_" + loss_case_name(prefix, shape.rows, shape.classes, smoothing),
                {hidden, weight},
                1,
                [targets, smoothing, softcap](const Leaves& leaves, Level level) -> Leaves {
                  const auto device = leaves[0].device();
                  const Tensor loss =
                      linear_cross_entropy(leaves[0], leaves[1], copied_to(device, targets), number(kLossScale, device),
                                           kIgnored, smoothing, softcap, level);
                  // Logits are rounded to the type of the inputs, so the loss is not more exact.
                  return {loss.to(leaves[0].scalar_type())};
                }};
  // A gradient of linear_cross_entropy is a sum of differences as cross_entropy's times weights or inputs. A sum of n
  // terms, added one after another, is off by about sqrt(n) / 4 roundings. Up to sqrt(n) roundings are allowed, and at
  // least 8.
  const auto sum_growth = [](int64_t terms) { return std::max(1.0, std::sqrt(static_cast<double>(terms)) / 8); };
  result.factors = kFactors;
  result.operands = {kLossScale, kLossScale * largest(weight) * sum_growth(weight.size(0)),
                     kLossScale * largest(hidden) * sum_growth(hidden.size(0))};
  return result;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const auto& [rows, classes] : kLossSizes) {
    for (const double smoothing : {0.0, kSmoothing}) {
      const int64_t width = rows == 1 ? 7 : 24;  // rows of gradients are not whole vectors
      const Tensor hidden = random({rows, width}), weight = random({classes, width}).mul_(0.5);
      cases.push_back(linear_cross_entropy_case("", hidden, weight, loss_targets(rows, classes), smoothing));
      // An evaluation needs no gradient, so no weight has a place for one.
      const Tensor evaluated = loss_targets(rows, classes);
      cases.push_back(linear_cross_entropy_case("evaluated_", hidden, weight, evaluated, smoothing));
      cases.back().differentiable = false;
      cases.back().weights = 0;
      cases.push_back(linear_cross_entropy_case("capped_", hidden, weight, evaluated, smoothing, kLogitSoftcap));
      if (rows == 0) continue;
      cases.push_back(linear_cross_entropy_case("ignored_", hidden, weight, ignored_targets(rows), smoothing));
      // These are logits of some hundreds, whose exp overflows. The products are integers below 2^8, times 8, so no
      // type rounds them.
      const Tensor integers = at::randint(-2, 3, {rows, 24}, at::kDouble);
      const Tensor eights = at::randint(-2, 3, {classes, 24}, at::kDouble).mul_(8.0);
      const Tensor targets = likely_targets(integers.matmul(eights.t()));
      cases.push_back(linear_cross_entropy_case("large_", integers, eights, targets, smoothing));
    }
  }
  return cases;
}

// With more than 2^16 classes a chunk on a CPU has 128 rows, the fewest that there are: chunks of 128 and of 72 rows.
// On GPUs level cuda fills the classes up to a multiple of 64. Narrow inputs save time, because products of bf16 take
// minutes on CPUs without instructions for them.
std::vector<OpCase> large_cases() {
  constexpr int64_t kRows = 200, kInputs = 8, kClasses = 65'601;
  TORCH_CHECK(rows_at_a_time(kRows, kClasses, /*on_gpu=*/false) == 128 && padded_classes(kClasses) > kClasses);
  const Tensor hidden = random({kRows, kInputs}), weight = random({kClasses, kInputs});
  return {linear_cross_entropy_case("chunks_", hidden, weight, loss_targets(kRows, kClasses), kSmoothing),
          linear_cross_entropy_case("capped_chunks_", hidden, weight, loss_targets(kRows, kClasses), 0, kLogitSoftcap)};
}

Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const LinearCrossEntropyShape& s = *shape.as<LinearCrossEntropyShape>();
  Workload w{shape};
  w.split_constants = 1;
  w.split_results = 0;
  w.row_elements = std::max(s.inputs, s.classes);
  w.timed_whole = true;
  w.factors = kFactors;
  w.inputs.leaves = {random({s.rows, s.inputs}, options),
                     random({s.classes, s.inputs}, options).div_(std::sqrt(double(s.inputs)))};
  w.inputs.constants = {random_indices(s.rows, s.classes, options),
                        number(1.0 / double(std::max<int64_t>(s.rows, 1)), options)};
  w.run = [](const Inputs& in, Level level) -> Leaves {
    const Tensor loss = linear_cross_entropy(in.leaves[0], in.leaves[1], in.constants[0], in.constants[1], kIgnored,
                                             /*label_smoothing=*/0, /*softcap=*/0, level);
    // Logits are rounded to the type of the inputs, so the loss is not more exact.
    return {loss.to(in.leaves[0].scalar_type())};
  };
  return w;
}

}  // namespace

OpProof linear_cross_entropy_proof() {
  return {
      .tolerances = {{"linear_cross_entropy"}},
      .cases = cases,
      .workload = workload,
      .small_shapes = {LinearCrossEntropyShape{.rows = 40, .inputs = 33, .classes = 24}},
      .gpu_shapes = {LinearCrossEntropyShape{.rows = 65536, .inputs = 768, .classes = 50304},
                     LinearCrossEntropyShape{.rows = 16384, .inputs = 4096, .classes = 128256}},
      .cpu_shapes = {LinearCrossEntropyShape{.rows = 512, .inputs = 256, .classes = 4096}},
      .large_cases = large_cases,
  };
}

}  // namespace strata::kernels
