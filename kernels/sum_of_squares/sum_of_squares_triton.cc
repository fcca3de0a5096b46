// SPDX-License-Identifier: MIT
// Level triton of sum_of_squares: calls the kernels of sum_of_squares_triton.py with tensors.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/cuda/multiprocessors.h"
#include "kernels/sum_of_squares/sum_of_squares.h"
#include "kernels/sum_of_squares/sum_of_squares_triton_kernels.h"

namespace strata::kernels {
namespace {

// The number of programs for a tensor: eight of 256 threads for each multiprocessor, or fewer, so that a program has at
// least 2048 elements.
int64_t programs_for(const Tensor& gradient) {
  return std::min<int64_t>((gradient.numel() + 2047) / 2048, 8 * multiprocessors());
}

}  // namespace

Tensor sum_of_squares_forward_triton(const std::vector<Tensor>& gradients) {
  int64_t count = 0;
  for (const Tensor& gradient : gradients) count += programs_for(gradient);
  const Tensor partials = at::empty({count}, gradients[0].options().dtype(at::kDouble));
  int64_t first = 0;
  for (const Tensor& gradient : gradients) {
    const int64_t programs = programs_for(gradient);
    launch_sum_of_squares_partials_triton(gradient.contiguous(), partials, gradient.numel(), first, programs);
    first += programs;
  }
  const Tensor result = at::empty({}, partials.options().dtype(at::kFloat));
  launch_sum_of_squares_total_triton(partials, result, count);
  return result;
}

}  // namespace strata::kernels
