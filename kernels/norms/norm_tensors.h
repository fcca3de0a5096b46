// SPDX-License-Identifier: MIT
// NormForwardCall and NormBackwardCall: convert tensors to the pointers of the norms' CUDA kernels, for rms_norm and
// layer_norm, and launch the code for the GPU. contiguous_if_defined and number_per_row serve level triton too.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "kernels/cuda/gradient_output.h"
#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/multiprocessors.h"
#include "kernels/cuda/waves.h"
#include "kernels/norms/norm_rows.h"

namespace strata::kernels {

inline const void* data_or_null(const Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

inline Tensor contiguous_if_defined(const Tensor& tensor) { return tensor.defined() ? tensor.contiguous() : tensor; }

// Allocates fp32 [..., 1], one number per row of x.
inline Tensor number_per_row(const Tensor& x) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = 1;
  return at::empty(shape, x.options().dtype(at::kFloat));
}

// The launchers of a forward or a backward, one of each Code.
template <class Arguments>
struct NormLaunchers {
  NormLauncher<Arguments>* hopper;
  NormLauncher<Arguments>* portable;

  void launch(std::string_view kernel, const Tensor& like, const Arguments& arguments) const {
    const auto launcher = is_on_hopper(like) ? hopper : portable;
    kernels::launch(kernel, like, arguments.rows, arguments.width,
                    [&](cudaStream_t stream) { return launcher(arguments, stream); });
  }
};

// The tensors of one forward, kept alive until the kernel is launched.
class NormForwardCall {
 public:
  // `branch` is undefined if nothing is added, `bias` if there is none.
  NormForwardCall(std::string_view op, const Tensor& x, const Tensor& branch, const Tensor& weight, const Tensor& bias,
                  double eps, bool centered)
      : x_(x.contiguous()),
        branch_(contiguous_if_defined(branch)),
        weight_(weight.contiguous()),
        bias_(contiguous_if_defined(bias)),
        y(at::empty(x.sizes(), x.options())),
        sum(branch.defined() ? at::empty(x.sizes(), x.options()) : Tensor()),
        mean(centered ? number_per_row(x) : Tensor()),
        rstd(number_per_row(x)),
        arguments_{.type = cuda_type(op, "x", x),
                   .y = y.data_ptr(),
                   .sum = sum.defined() ? sum.data_ptr() : nullptr,
                   .mean = centered ? mean.data_ptr<float>() : nullptr,
                   .rstd = rstd.data_ptr<float>(),
                   .x = x_.data_ptr(),
                   .branch = data_or_null(branch_),
                   .weight = weight_.data_ptr(),
                   .bias = data_or_null(bias_),
                   .rows = x.numel() / x.size(-1),
                   .width = x.size(-1),
                   .eps = static_cast<float>(eps)} {}

  void launch(const NormLaunchers<NormForward>& launchers, std::string_view kernel) const {
    launchers.launch(kernel, y, arguments_);
  }

 private:
  Tensor x_, branch_, weight_, bias_;

 public:
  Tensor y, sum, mean, rstd;

 private:
  NormForward arguments_;
};

// The tensors of one backward.
class NormBackwardCall {
 public:
  // `grad_sum` may be undefined. `mean` is undefined if the norm is not centered.
  NormBackwardCall(std::string_view op, const Tensor& grad_y, const Tensor& grad_sum, const Tensor& x,
                   const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                   const GradientDestination& weight_into, const GradientDestination& bias_into)
      : grad_y_(grad_y.contiguous()),
        grad_sum_(contiguous_if_defined(grad_sum)),
        x_(x.contiguous()),
        weight_(weight.contiguous()),
        bias_(contiguous_if_defined(bias)),
        weight_target_(op, weight.sizes(), weight.options(), weight_into),
        rows_(x.numel() / x.size(-1)),
        width_(x.size(-1)),
        grad_x(at::empty(x.sizes(), x.options())) {
    const CudaType type = cuda_type(op, "x", x);
    const auto partials = x.options().dtype(at::kFloat);
    const int64_t sets = mean.defined() ? 2 : 1;
    const int waves = waves_for(double(x.nbytes()) * (grad_sum.defined() ? 4 : 3));
    const int gpu_multiprocessors = multiprocessors();
    partials_ = at::empty({sets, norm_backward_partials(rows_, waves, gpu_multiprocessors), width_}, partials);
    if (bias.defined()) bias_target_.emplace(op, bias.sizes(), bias.options(), bias_into);
    arguments_ = {.type = type,
                  .grad_x = grad_x.data_ptr(),
                  .grad_y = grad_y_.data_ptr(),
                  .grad_sum = data_or_null(grad_sum_),
                  .x = x_.data_ptr(),
                  .weight = weight_.data_ptr(),
                  .bias = data_or_null(bias_),
                  .mean = mean.defined() ? mean.data_ptr<float>() : nullptr,
                  .rstd = rstd.data_ptr<float>(),
                  .weight_partials = partials_.data_ptr<float>(),
                  .bias_partials = partials_.data_ptr<float>() + (sets - 1) * partials_.stride(0),
                  .weight_gradient = weight_target_.target(),
                  .bias_gradient = {},
                  .rows = rows_,
                  .width = width_,
                  .waves = waves,
                  .multiprocessors = gpu_multiprocessors};
    if (bias_target_) arguments_.bias_gradient = bias_target_->target();
  }

  void launch(const NormLaunchers<NormBackward>& launchers, std::string_view kernel) const {
    launchers.launch(kernel, grad_x, arguments_);
  }

  Tensor accumulate_weight() const { return weight_target_.accumulate(); }
  Tensor accumulate_bias() const { return bias_target_ ? bias_target_->accumulate() : Tensor(); }

 private:
  Tensor grad_y_, grad_sum_, x_, weight_, bias_, partials_;
  GradientOutput weight_target_;
  std::optional<GradientOutput> bias_target_;
  int64_t rows_, width_;
  NormBackward arguments_;

 public:
  Tensor grad_x;
};

}  // namespace strata::kernels
