// SPDX-License-Identifier: MIT
#include "kernels/proof/agreement.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <limits>

namespace strata::kernels {
namespace {

// c covers another order of the same sums; k is a handful of roundings, more for long sums. LibTorch's attention in
// fp32 on GPUs is off by 10.1 roundings. neighbor_attention is off by 18, because the weights of a hub's 550 edges
// share the rounding of one logarithm.
constexpr std::array kTolerances = {
    Tolerance{"linear", 4, 4},
    Tolerance{"layer_norm", 4, 8},
    Tolerance{"add_layer_norm", 4, 8},
    Tolerance{"rms_norm", 4, 8},
    Tolerance{"add_rms_norm", 4, 8},
    Tolerance{"activation", 4, 4},
    Tolerance{"swiglu", 4, 4},
    Tolerance{"rotary", 4, 2},
    Tolerance{"attention", 4, 12},
    Tolerance{"embedding", 2, 4},
    Tolerance{"dropout", 2, 2},
    Tolerance{"cross_entropy", 4, 8},
    Tolerance{"adamw", 4, 4},
    Tolerance{"global_norm", 2, 2},
    Tolerance{"linear_cross_entropy", 4, 8},
    Tolerance{"add_dropout", 2, 2},
    Tolerance{"neighbor_aggregate", 4, 16, 2},
    Tolerance{"neighbor_attention", 4, 24, 4},
    Tolerance{"layer_norm_gelu_tanh", 4, 8},
};

// exp, the sum of the row, its logarithm, the subtractions and autograd's products round once each. Level torchscript
// needed 3.5 roundings on an Intel Xeon with AVX-512, and other processors round differently.
constexpr double kRoundingsOfOperands = 8;

}  // namespace

Tolerance tolerance(std::string_view op) {
  const auto* found =
      std::find_if(kTolerances.begin(), kTolerances.end(), [&](const auto& row) { return row.op == op; });
  TORCH_CHECK(found != kTolerances.end(), "no tolerance for op ", op);
  return *found;
}

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
