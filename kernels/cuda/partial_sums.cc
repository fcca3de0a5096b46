// SPDX-License-Identifier: MIT
#include "kernels/cuda/partial_sums.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/cuda/gradient_output.h"
#include "kernels/cuda/multiprocessors.h"
#include "kernels/cuda/partial_sums_triton_kernels.h"

namespace strata::kernels {

int64_t partial_sum_programs(int64_t rows, int64_t width) {
  constexpr int64_t kElements = 8192, kMostBlocks = 8;  // blocks per multiprocessor
  return std::min(rows, multiprocessors() * std::clamp<int64_t>(kElements / width, 1, kMostBlocks));
}

Tensor sum_partials(const Tensor& partials, const Tensor& like, const GradientDestination& into) {
  const bool direct = is_written_directly(into);
  const Tensor sums = direct ? into.into : at::empty({partials.size(1)}, like.options());
  launch_sum_partials_triton(partials, sums, partials.size(0), partials.size(1), direct && into.add);
  return direct ? Tensor() : accumulate(sums, into);
}

}  // namespace strata::kernels
