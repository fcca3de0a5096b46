// SPDX-License-Identifier: MIT
#include "kernels/rms_norm/rms_norm_loops.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <vector>

#include "kernels/runtime/vectorized.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMostElements = 1 << 14;
constexpr int64_t kPartialSums = 16;  // independent sums, which a processor adds at once

STRATA_VECTORIZED float sum_of_squares(const float* x, int64_t width) {
  float sums[kPartialSums] = {};
  int64_t column = 0;
  for (; column + kPartialSums <= width; column += kPartialSums) {
    for (int64_t k = 0; k < kPartialSums; ++k) sums[k] += x[column + k] * x[column + k];
  }
  float sum = 0.0f;
  for (; column < width; ++column) sum += x[column] * x[column];
  for (const float part : sums) sum += part;
  return sum;
}

STRATA_VECTORIZED void add(const float* x, const float* branch, int64_t count, float* sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] = x[i] + branch[i];
}

STRATA_VECTORIZED void multiply(const float* x, const float* weight, float rstd, int64_t width, float* y) {
  for (int64_t i = 0; i < width; ++i) y[i] = x[i] * rstd * weight[i];
}

}  // namespace

bool has_rms_norm_loops(const Tensor& x) {
  return c10::InferenceMode::is_enabled() && x.is_cpu() && x.scalar_type() == at::kFloat &&
         x.numel() <= kMostElements && x.is_contiguous();
}

RmsNormOp::Output rms_norm_by_loops(const Tensor& x, const Tensor& branch, const Tensor& given, double eps) {
  const Tensor weight = given.contiguous(), y = at::empty_like(x);
  const Tensor sum = branch.defined() ? at::empty_like(x) : Tensor();
  if (branch.defined()) {
    const Tensor other = branch.contiguous();
    add(x.const_data_ptr<float>(), other.const_data_ptr<float>(), x.numel(), sum.mutable_data_ptr<float>());
  }
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = 1;
  const Tensor rstd = at::empty(shape, x.options());
  const float* input = branch.defined() ? sum.const_data_ptr<float>() : x.const_data_ptr<float>();
  const int64_t width = x.size(-1), rows = x.numel() / width;
  for (int64_t row = 0; row < rows; ++row) {
    const float mean = sum_of_squares(input + row * width, width) / static_cast<float>(width);
    const float factor = 1.0f / std::sqrt(mean + static_cast<float>(eps));
    rstd.mutable_data_ptr<float>()[row] = factor;
    multiply(input + row * width, weight.const_data_ptr<float>(), factor, width,
             y.mutable_data_ptr<float>() + row * width);
  }
  return {y, sum, rstd};
}

}  // namespace strata::kernels
