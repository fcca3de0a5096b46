// SPDX-License-Identifier: MIT
#include "kernels/linear/few_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>

#include <vector>

#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/few_rows_cuda.h"
#include "kernels/linear/linear_arguments.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

constexpr auto kOp = LinearOp::kName;

bool has_vectors(const Tensor& rows) {
  return rows.is_contiguous() && reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0 &&
         rows.size(-1) * rows.element_size() % 16 == 0;
}

// The tensor, or a copy with vectors.
Tensor with_vectors(const Tensor& tensor) {
  return has_vectors(tensor) ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
}

const void* data_of(const Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }
void* target_of(const Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; }

// A product without an activation and without a norm.
FewRows product_of(const Tensor& x, const Tensor& weight, const Tensor& y) {
  return {.type = cuda_type(kOp, "x", x),
          .y = y.mutable_data_ptr(),
          .pre_activation = nullptr,
          .x = x.const_data_ptr(),
          .weight = weight.const_data_ptr(),
          .bias = nullptr,
          .activation = Activation::none,
          .gated = false,
          .rows = row_count(x),
          .inputs = x.size(-1),
          .outputs = y.size(-1)};
}

void launch_product(const Tensor& x, FewRows arguments, const Tensor& bias) {
  const Tensor shift = bias.defined() ? bias.contiguous() : bias;
  arguments.bias = data_of(shift);
  launch("few_rows_cuda", x, arguments.rows, arguments.inputs,
         [&](cudaStream_t stream) { return launch_few_rows(arguments, stream); });
}

void check(const Tensor& x, const Tensor& weight, const Tensor& bias, bool gated) {
  require(weight.dim() == 2 && (!gated || weight.size(0) % 2 == 0) && x.dim() >= 1 && x.size(-1) == weight.size(1), kOp,
          Level::cuda, "x is ", x.sizes(), " and weight is ", weight.sizes(), ", expected x [..., in] and weight ",
          gated ? "[2 * out, in]" : "[out, in]");
  require(are_few_rows(x, weight), kOp, Level::cuda, "x is ", x.scalar_type(), " ", x.sizes(), " on ", x.device(),
          ", expected at most ", kFewRows, " rows of 16-byte vectors on a Hopper GPU, like weight, in inference mode");
  check_linear_bias(x, weight, bias, Level::cuda);
}

}  // namespace

bool are_few_rows(const Tensor& x, const Tensor& weight) {
  if (!c10::InferenceMode::is_enabled() || !x.is_cuda() || x.numel() == 0 || row_count(x) > kFewRows) return false;
  if (x.scalar_type() == at::kDouble || x.scalar_type() != weight.scalar_type()) return false;
  if (x.device() != weight.device() || !has_vectors(x) || !has_vectors(weight)) return false;
  return is_on_hopper(x);
}

LinearOp::Output linear_of_few_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  const Tensor y = empty_of_width(x, weight.size(0));
  const Tensor pre_activation = needs_input(activation) ? at::empty_like(y) : Tensor();
  FewRows product = product_of(x, weight, y);
  product.activation = activation;
  product.pre_activation = target_of(pre_activation);
  launch_product(x, product, bias);
  return {y, saves_output(activation) ? y : pre_activation};
}

Tensor gated_linear_of_few_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind) {
  check(x, weight, bias, /*gated=*/true);
  const CallScope scope(kOp, Level::cuda, x, [&] { return linear_shape_of(x, weight, bias); });
  const Tensor y = empty_of_width(x, weight.size(0) / 2);
  FewRows product = product_of(x, weight, y);
  product.activation = kind;
  product.gated = true;
  launch_product(x, product, bias);
  return y;
}

bool are_few_normed_rows(const Tensor& x, const Tensor& weight) {
  return are_few_rows(x, weight) && are_few_normed_rows(cuda_type(kOp, "x", x), row_count(x), x.size(-1));
}

ProductOfNorm linear_of_norm(const NormedInput& input, const Tensor& weight, const Tensor& bias, Activation gate) {
  const bool gated = gate != Activation::none;
  check(input.x, weight, bias, gated);
  require(are_few_normed_rows(input.x, weight), kOp, Level::cuda, "x is ", input.x.scalar_type(), " ", input.x.sizes(),
          ", expected at most 43 KB of rows, as 1, 2, 4 or 8, and at most 4 rows of fp32");
  require(input.weight.dim() == 1 && input.weight.size(0) == weight.size(1), kOp, Level::cuda,
          "the weight of the norm is ", input.weight.sizes(), ", expected [", weight.size(1), "]");
  require_same_kind(kOp, Level::cuda, "x", input.x, "the weight of the norm", input.weight);
  const bool adds = input.branch.defined();
  if (adds) require_alike(kOp, Level::cuda, "x", input.x, "branch", input.branch);
  const CallScope scope(kOp, Level::cuda, input.x, [&] { return linear_shape_of(input.x, weight, bias); });
  const Tensor y = empty_of_width(input.x, gated ? weight.size(0) / 2 : weight.size(0));
  const Tensor branch = adds ? with_vectors(input.branch) : Tensor(), norm_weight = with_vectors(input.weight);
  const Tensor sum = adds ? at::empty_like(input.x) : Tensor();
  FewRows product = product_of(input.x, weight, y);
  product.activation = gate;
  product.gated = gated;
  product.branch = data_of(branch);
  product.norm_weight = norm_weight.const_data_ptr();
  product.sum = target_of(sum);
  product.eps = static_cast<float>(input.eps);
  launch_product(input.x, product, bias);
  return {y, adds ? sum : input.x};
}

}  // namespace strata::kernels
