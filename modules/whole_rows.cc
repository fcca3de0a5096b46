// SPDX-License-Identifier: MIT
#include "modules/whole_rows.h"

#include <ATen/ops/constant_pad_nd.h>

#include <limits>

#include "kernels/cross_entropy/softcap.h"
#include "kernels/linear/linear.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/traced.h"

namespace strata::modules {
namespace {

// A head of fewer classes is a small part of a step.
constexpr int64_t kFewClasses = 4096, kWholeRow = 64;

}  // namespace

int64_t classes_to_add(const Tensor& weight) {
  const int64_t classes = weight.size(0);
  if (!kernels::on_gpu(weight) || classes < kFewClasses) return 0;
  return (kWholeRow - classes % kWholeRow) % kWholeRow;
}

Tensor logits_of_whole_rows(const Tensor& hidden, const Tensor& weight, int64_t more, double softcap,
                            kernels::Level level) {
  const Tensor padded = at::constant_pad_nd(kernels::with_gradient_destination(weight), {0, 0, 0, more});
  const Tensor logits =
      kernels::capped_logits(kernels::linear(hidden, padded, /*bias=*/{}, kernels::Activation::none, level), softcap);
  // This write is hidden from autograd, which is correct: neither linear nor the cap saves its result, and the gradient
  // of these logits is 0.
  logits.detach().narrow(-1, weight.size(0), more).fill_(-std::numeric_limits<float>::infinity());
  return logits;
}

}  // namespace strata::modules
