// SPDX-License-Identifier: MIT
#include "kernels/runtime/weight_update.h"

#include "kernels/runtime/call.h"

namespace strata::kernels {

void check_update(std::string_view op, Level level, const at::Tensor& master,
                  std::initializer_list<NamedTensor> moments, const at::Tensor& gradient,
                  const at::Tensor& compute_copy, const UpdateScalars& scalars) {
  require(master.is_floating_point(), op, level, "master is ", master.scalar_type(),
          ", expected a floating point type");
  for (const auto& [name, moment] : moments) require_alike(op, level, "master", master, name, moment);
  require(gradient.is_floating_point() && gradient.sizes() == master.sizes() && gradient.device() == master.device(),
          op, level, "gradient is ", gradient.scalar_type(), " ", gradient.sizes(), " on ", gradient.device(),
          ", expected floating point ", master.sizes(), " on ", master.device());
  require(
      !compute_copy.defined() || (compute_copy.sizes() == master.sizes() && compute_copy.device() == master.device()),
      op, level, "compute_copy differs from master, which is ", master.sizes(), " on ", master.device());
  for (const auto& [name, scalar] : {NamedTensor{"learning_rate", scalars.learning_rate},
                                     {"step", scalars.step},
                                     {"gradient_scale", scalars.gradient_scale},
                                     {"skip", scalars.skip}}) {
    require(scalar.scalar_type() == at::kFloat && scalar.dim() == 0 && scalar.device() == master.device(), op, level,
            name, " is ", scalar.scalar_type(), " ", scalar.sizes(), " on ", scalar.device(), ", expected Float [] on ",
            master.device());
  }
}

}  // namespace strata::kernels
