// SPDX-License-Identifier: MIT
#include "kernels/proof/agreement.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

namespace strata::kernels {
namespace {

// exp, the sum of the row, its logarithm, the subtractions and autograd's products round once each. Level torchscript
// needed 3.5 roundings on an Intel Xeon with AVX-512, and other processors round differently.
constexpr double kRoundingsOfOperands = 8;

}  // namespace

double epsilon(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kFloat:
      return std::numeric_limits<float>::epsilon();
    case at::kHalf:
      return 0x1p-10;
    case at::kBFloat16:
      return 0x1p-7;
    default:
      TORCH_CHECK(false, "no epsilon of ", dtype);
  }
}

double largest(const at::Tensor& tensor) { return tensor.numel() == 0 ? 0.0 : tensor.abs().max().item<double>(); }

double allowed_error(const Tolerance& tolerance, at::ScalarType dtype, const Measured& measured) {
  // The difference 0.98 - 1 has the absolute error of 0.98, which is larger than a rounding of 0.02. Processors round
  // 0.98 differently, so a multiple of the error of aten, which may be small by luck, is no bound. All levels compute
  // such differences in fp32 or wider.
  const double in_operands = epsilon(dtype == at::kDouble ? at::kDouble : at::kFloat) * measured.operands;
  return std::max({tolerance.c * measured.aten_error, tolerance.k_of(dtype) * epsilon(dtype) * measured.scale,
                   kRoundingsOfOperands * in_operands});
}

}  // namespace strata::kernels
