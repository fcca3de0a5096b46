// SPDX-License-Identifier: MIT
// N rows, V classes
#include "tests/kernels/loss_cases.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/proof/agreement.h"

namespace strata::kernels {
namespace {

using Leaves = std::vector<Tensor>;

constexpr int64_t kIgnored = -100;
constexpr double kLossScale = 0.125, kSmoothing = 0.1;

struct Shape {
  int64_t rows, classes;
};

// A copy on the CPU too, so that a call takes the same memory on every device.
Tensor copied_to(c10::Device device, const Tensor& tensor) {
  return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

std::string name_of(const Shape& shape, double smoothing) {
  return std::to_string(shape.rows) + "x" + std::to_string(shape.classes) + (smoothing == 0 ? "" : "_smoothed");
}

// If the target's probability is near 1, the gradient is the difference of two numbers near 1, and the loss is the
// logarithm of a number near 1. Neither can be more exact than the rounding of 1.
OpCase cross_entropy_case(const std::string& name, const Tensor& logits, const Tensor& targets, double smoothing) {
  OpCase result{"cross_entropy",
                "cross_entropy_" + name,
                {logits},
                0,
                [targets, smoothing](const Leaves& leaves, Level level) -> Leaves {
                  const auto device = leaves[0].device();
                  const Tensor scale = at::scalar_tensor(kLossScale, at::kFloat).to(device);
                  return {cross_entropy(leaves[0], copied_to(device, targets), scale, kIgnored, smoothing, level)};
                }};
  result.operands = {kLossScale, kLossScale};
  return result;
}

OpCase linear_cross_entropy_case(const std::string& name, const Tensor& hidden, const Tensor& weight,
                                 const Tensor& targets, double smoothing) {
  OpCase result{"linear_cross_entropy",
                "linear_cross_entropy_" + name,
                {hidden, weight},
                1,
                [targets, smoothing](const Leaves& leaves, Level level) -> Leaves {
                  const auto device = leaves[0].device();
                  const Tensor scale = at::scalar_tensor(kLossScale, at::kFloat).to(device);
                  const Tensor loss = linear_cross_entropy(leaves[0], leaves[1], copied_to(device, targets), scale,
                                                           kIgnored, smoothing, level);
                  // Logits are rounded to the type of the inputs, so the loss is not more exact.
                  return {loss.to(leaves[0].scalar_type())};
                }};
  // A gradient of linear_cross_entropy is a sum of such differences times weights or inputs. A sum of n terms, added
  // one after another, is off by about sqrt(n) / 4 roundings. Up to sqrt(n) roundings are allowed, and at least 8.
  const auto of_sum = [](int64_t terms) { return std::max(1.0, std::sqrt(static_cast<double>(terms)) / 8); };
  result.operands = {kLossScale, kLossScale * largest(weight) * of_sum(weight.size(0)),
                     kLossScale * largest(hidden) * of_sum(hidden.size(0))};
  return result;
}

Tensor random_targets(const Shape& shape) {
  const Tensor targets = at::randint(0, shape.classes, {shape.rows}, at::kLong);
  if (shape.rows > 2) targets[2].fill_(kIgnored);
  return targets;
}

// Returns targets of which half are the classes with the largest logits.
Tensor likely_targets(const Shape& shape, const Tensor& logits) {
  const Tensor targets = random_targets(shape);
  targets.slice(0, 0, shape.rows, /*step=*/4).copy_(logits.argmax(1).slice(0, 0, shape.rows, /*step=*/4));
  targets.slice(0, 1, shape.rows, /*step=*/4).copy_(logits.argmax(1).slice(0, 1, shape.rows, /*step=*/4));
  return targets;
}

}  // namespace

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{9, 5}, Shape{40, 257}, Shape{1, 11}, Shape{0, 7}}) {
    for (const double smoothing : {0.0, kSmoothing}) {
      const std::string name = name_of(shape, smoothing);
      const Tensor targets = random_targets(shape);
      const Tensor logits = at::randn({shape.rows, shape.classes}, at::kDouble).mul_(3.0);
      cases.push_back(cross_entropy_case(name, logits, targets, smoothing));
      const int64_t width = shape.rows == 1 ? 7 : 24;  // rows of gradients are not whole vectors
      const Tensor hidden = at::randn({shape.rows, width}, at::kDouble);
      const Tensor weight = at::randn({shape.classes, width}, at::kDouble).mul_(0.5);
      cases.push_back(linear_cross_entropy_case(name, hidden, weight, targets, smoothing));
    }
  }
  return cases;
}

std::vector<OpCase> large_logit_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{9, 5}, Shape{40, 257}, Shape{1, 11}}) {
    for (const double smoothing : {0.0, kSmoothing}) {
      const std::string name = "large_" + name_of(shape, smoothing);
      const Tensor logits = at::randn({shape.rows, shape.classes}, at::kDouble).mul_(60.0);
      cases.push_back(cross_entropy_case(name, logits, likely_targets(shape, logits), smoothing));
      // The products are integers below 2^8, times 8, so no type rounds them.
      const Tensor hidden = at::randint(-2, 3, {shape.rows, 24}, at::kDouble);
      const Tensor weight = at::randint(-2, 3, {shape.classes, 24}, at::kDouble).mul_(8.0);
      const Tensor targets = likely_targets(shape, hidden.matmul(weight.t()));
      cases.push_back(linear_cross_entropy_case(name, hidden, weight, targets, smoothing));
    }
  }
  return cases;
}

}  // namespace strata::kernels
