// SPDX-License-Identifier: MIT
// Level triton of embedding: calls the kernels of embedding_triton.py with tensors. LibTorch sorts the indices.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>

#include <optional>

#include "kernels/embedding/embedding.h"
#include "kernels/embedding/embedding_triton_kernels.h"

namespace strata::kernels {

Tensor embedding_forward_triton(const Tensor& indices, const Tensor& weight) {
  const int64_t width = weight.size(1);
  std::vector<int64_t> shape = indices.sizes().vec();
  shape.push_back(width);
  const Tensor y = at::empty(shape, weight.options());
  launch_embedding_forward_triton(indices.contiguous(), weight.contiguous(), y, weight.size(0), width, indices.numel());
  return y;
}

Tensor embedding_backward_triton(const Tensor& grad_y, const Tensor& indices, int64_t vocabulary,
                                 const GradientDestination& into) {
  const int64_t width = grad_y.size(-1);
  const auto [sorted, order] =
      at::sort(indices.reshape({-1}), std::optional<bool>(true), /*dim=*/-1, /*descending=*/false);
  const Tensor starts = at::searchsorted(sorted, at::arange(vocabulary + 1, indices.options()));
  // The sums are written directly to the buffer if the kernel supports its dtype.
  const bool direct = into.into.defined() && into.into.is_contiguous() &&
                      (into.into.scalar_type() == grad_y.scalar_type() || into.into.scalar_type() == at::kFloat);
  const Tensor sums = direct ? into.into : at::empty({vocabulary, width}, grad_y.options());
  launch_embedding_backward_triton(grad_y.contiguous(), order, starts, sums, width, direct && into.add, vocabulary);
  return direct ? Tensor() : accumulate(sums, into);
}

}  // namespace strata::kernels
