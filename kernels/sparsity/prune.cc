// SPDX-License-Identifier: MIT
#include "kernels/sparsity/prune.h"

#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include "kernels/cuda/launch.h"
#include "kernels/runtime/traced.h"
#include "kernels/sparsity/prune_cuda.h"
#include "kernels/sparsity/transposable_mask.h"

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

void check_groups(const Tensor& weight, PruneMask mask) {
  bits_of(weight.scalar_type());
  TORCH_CHECK_VALUE(weight.dim() > 0 && weight.size(-1) % kPruneGroup == 0, "prune: the weight is ", weight.sizes(),
                    ", expected rows of whole groups of ", kPruneGroup, " elements");
  TORCH_CHECK_VALUE(mask == PruneMask::rows || (weight.dim() == 2 && weight.size(0) % kPruneGroup == 0),
                    "prune: the weight is ", weight.sizes(), ", expected a matrix with groups of ", kPruneGroup,
                    " rows for a transposable mask");
}

// Counts how many of the three others in its group each element exceeds. Of two equal
// elements, the first counts as the larger one.
Tensor exceeded_of_three(const Tensor& weight) {
  const Tensor groups = magnitudes(weight).unflatten(-1, {weight.size(-1) / kPruneGroup, kPruneGroup});
  const Tensor exceeded = at::zeros(groups.sizes(), groups.options().dtype(at::kChar));
  for (int64_t first = 0; first < kPruneGroup; ++first) {
    for (int64_t second = first + 1; second < kPruneGroup; ++second) {
      const Tensor first_wins = groups.select(-1, first).ge(groups.select(-1, second));
      exceeded.select(-1, first).add_(first_wins);
      exceeded.select(-1, second).add_(groups.select(-1, first).lt(groups.select(-1, second)));
    }
  }
  return exceeded.view(weight.sizes());
}

Tensor kept_on_cpu(const Tensor& weight, PruneMask mask) {
  if (mask == PruneMask::transposable) return transposable_mask(weight);
  return exceeded_of_three(weight).ge(kPruneGroup / 2);
}

// The kernel reads contiguous groups, each by one load.
Tensor whole_groups(const Tensor& weight) {
  const Tensor whole = weight.contiguous();
  const bool is_aligned = weight.is_meta() || reinterpret_cast<uintptr_t>(whole.const_data_ptr()) % 16 == 0;
  return is_aligned ? whole : whole.clone();
}

// Calls launcher(type, results, weight, sizes, stream) for the whole weight, on a GPU.
template <class Launcher>
Tensor by_kernel(const Tensor& weight, at::ScalarType result_type, const Launcher& launcher) {
  const Tensor whole = whole_groups(weight), results = at::empty(weight.sizes(), weight.options().dtype(result_type));
  const PruneSizes sizes = {row_count(weight), weight.size(-1)};
  launch("prune", whole, sizes.rows, sizes.width, [&](cudaStream_t stream) {
    return launcher(cuda_type("prune", "the weight", whole), results, whole.const_data_ptr(), sizes, stream);
  });
  return results;
}

}  // namespace

Tensor kept_of_four(const Tensor& weight, PruneMask mask) {
  const at::NoGradGuard no_grad;
  check_groups(weight, mask);
  if (!on_gpu(weight)) return kept_on_cpu(weight, mask);
  return by_kernel(weight, at::kBool, [mask](CudaType type, const Tensor& kept, const auto... rest) {
    return launch_kept_of_four(type, mask, kept.mutable_data_ptr<bool>(), rest...);
  });
}

Tensor pruned(const Tensor& weight, PruneMask mask) {
  const at::NoGradGuard no_grad;
  check_groups(weight, mask);
  if (!on_gpu(weight)) return weight.masked_fill(kept_on_cpu(weight, mask).eq(false), 0);
  return by_kernel(weight, weight.scalar_type(), [mask](CudaType type, const Tensor& result, const auto... rest) {
    return launch_prune(type, mask, result.mutable_data_ptr(), rest...);
  });
}

}  // namespace strata::kernels
