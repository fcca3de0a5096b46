// SPDX-License-Identifier: MIT
#include "kernels/linear/few_rows.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/linear/few_rows_cuda.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

constexpr auto kOp = LinearOp::kName;

bool has_vectors(const Tensor& rows) {
  return rows.is_contiguous() && reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0 &&
         rows.size(-1) * rows.element_size() % 16 == 0;
}

// [..., in] -> [..., outputs]
Tensor result_of(const Tensor& x, int64_t outputs) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = outputs;
  return at::empty(shape, x.options());
}

// y, or y and pre_activation, of the shape of the result.
void launch_product(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation, bool gated,
                    const Tensor& y, const Tensor& pre_activation = {}) {
  const Tensor shift = bias.defined() ? bias.contiguous() : bias;
  const FewRows arguments = {.type = cuda_type(kOp, "x", x),
                             .y = y.mutable_data_ptr(),
                             .pre_activation = pre_activation.defined() ? pre_activation.mutable_data_ptr() : nullptr,
                             .x = x.const_data_ptr(),
                             .weight = weight.const_data_ptr(),
                             .bias = shift.defined() ? shift.const_data_ptr() : nullptr,
                             .activation = activation,
                             .gated = gated,
                             .rows = row_count(x),
                             .inputs = x.size(-1),
                             .outputs = y.size(-1)};
  launch("few_rows_cuda", x, arguments.rows, arguments.inputs,
         [&](cudaStream_t stream) { return launch_few_rows(arguments, stream); });
}

}  // namespace

bool are_few_rows(const Tensor& x, const Tensor& weight) {
  if (!x.is_cuda() || x.numel() == 0 || row_count(x) > kFewRows) return false;
  if (x.scalar_type() == at::kDouble || x.scalar_type() != weight.scalar_type()) return false;
  return has_vectors(x) && has_vectors(weight) && at::cuda::getDeviceProperties(x.device().index())->major == 9;
}

LinearOp::Output linear_of_few_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  const Tensor y = result_of(x, weight.size(0));
  const Tensor pre_activation = needs_input(activation) ? at::empty_like(y) : Tensor();
  launch_product(x, weight, bias, activation, /*gated=*/false, y, pre_activation);
  return {y, activation == Activation::relu ? y : pre_activation};
}

Tensor gated_linear_of_few_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind) {
  const int64_t outputs = weight.size(0) / 2;
  require(weight.dim() == 2 && weight.size(0) % 2 == 0 && x.size(-1) == weight.size(1), kOp, Level::cuda, "x is ",
          x.sizes(), " and weight is ", weight.sizes(), ", expected x [..., in] and weight [2 * out, in]");
  require(are_few_rows(x, weight), kOp, Level::cuda, "x is ", x.scalar_type(), " ", x.sizes(), " on ", x.device(),
          ", expected at most ", kFewRows, " rows of 16-byte vectors on a Hopper GPU, like weight");
  const CallScope scope(kOp, Level::cuda, x, [&] {
    return LinearShape{.rows = row_count(x), .inputs = x.size(-1), .outputs = 2 * outputs, .bias = bias.defined()};
  });
  const Tensor y = result_of(x, outputs);
  launch_product(x, weight, bias, kind, /*gated=*/true, y);
  return y;
}

}  // namespace strata::kernels
