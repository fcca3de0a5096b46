// SPDX-License-Identifier: MIT
#include "modules/padded_logits.h"

#include <ATen/ops/constant_pad_nd.h>

#include <limits>

#include "kernels/cross_entropy/softcap.h"
#include "kernels/linear/linear.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/traced.h"

namespace strata::modules {
namespace {

// A head of fewer classes is a small part of a step.
constexpr int64_t kFewClasses = 4096, kClassMultiple = 64;

}  // namespace

int64_t padding_classes(const Tensor& weight) {
  const int64_t classes = weight.size(0);
  if (!kernels::on_gpu(weight) || classes < kFewClasses) return 0;
  return (kClassMultiple - classes % kClassMultiple) % kClassMultiple;
}

Tensor padded_logits(const Tensor& hidden, const Tensor& weight, int64_t padding, double softcap,
                     kernels::Level level) {
  const Tensor padded = at::constant_pad_nd(kernels::with_gradient_destination(weight), {0, 0, 0, padding});
  const Tensor logits =
      kernels::capped_logits(kernels::linear(hidden, padded, /*bias=*/{}, kernels::Activation::none, level), softcap);
  // This write is hidden from autograd, which is correct: neither linear nor the cap saves its result, and the gradient
  // of these logits is 0.
  logits.detach().narrow(-1, weight.size(0), padding).fill_(-std::numeric_limits<float>::infinity());
  return logits;
}

}  // namespace strata::modules
