// SPDX-License-Identifier: MIT
#include "kernels/linear/prune.h"

#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include "kernels/linear/prune_group.h"

namespace strata::kernels {
namespace {

// An IEEE 754 type without its sign bit: such integers are ordered as the magnitudes. A NaN is above infinity.
struct MagnitudeBits {
  at::ScalarType integer;
  int32_t all, infinity;
};

MagnitudeBits bits_of(at::ScalarType type) {
  TORCH_CHECK_VALUE(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, "prune: the weight is ", type,
                    ", expected Float, BFloat16 or Half");
  if (type == at::kFloat) return {at::kInt, 0x7fffffff, 0x7f800000};
  return {at::kShort, 0x7fff, type == at::kHalf ? 0x7c00 : 0x7f80};
}

// Integers with the order of the magnitudes, in which all NaN are equal.
Tensor magnitudes(const Tensor& weight) {
  const MagnitudeBits bits = bits_of(weight.scalar_type());
  return at::bitwise_and(weight.contiguous().view(bits.integer), bits.all).clamp_max_(bits.infinity + 1);
}

// Counts how many of the three others in its group each element exceeds. Of two equal
// elements, the first counts as the larger one.
Tensor exceeded_of_three(const Tensor& weight) {
  TORCH_CHECK_VALUE(weight.dim() > 0 && weight.size(-1) % kPruneGroup == 0, "prune: the weight is ", weight.sizes(),
                    ", expected rows of whole groups of ", kPruneGroup, " elements");
  const Tensor groups = magnitudes(weight).unflatten(-1, {weight.size(-1) / kPruneGroup, kPruneGroup});
  const Tensor exceeded = at::zeros(groups.sizes(), groups.options().dtype(at::kChar));
  for (int64_t first = 0; first < kPruneGroup; ++first) {
    for (int64_t second = first + 1; second < kPruneGroup; ++second) {
      const Tensor first_wins = groups.select(-1, first).ge(groups.select(-1, second));
      exceeded.select(-1, first).add_(first_wins);
      exceeded.select(-1, second).add_(first_wins.logical_not());
    }
  }
  return exceeded.view(weight.sizes());
}

}  // namespace

Tensor kept_of_four(const Tensor& weight) {
  const at::NoGradGuard no_grad;
  return exceeded_of_three(weight).ge(kPruneGroup / 2);
}

Tensor pruned(const Tensor& weight) {
  const at::NoGradGuard no_grad;
  return weight.masked_fill(exceeded_of_three(weight).lt(kPruneGroup / 2), 0);
}

}  // namespace strata::kernels
