// SPDX-License-Identifier: MIT
// A linear layer with an optional bias and an optional activation as epilogue.
#pragma once

#include <string>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "modules/config/kernel_selection.h"
#include "modules/parameters.h"

namespace strata::modules {

// y = activation(x weight^T + bias), x [..., in], weight [out, in].
class Linear {
 public:
  Linear(const ParameterLookup& parameter, const std::string& name, bool has_bias, kernels::Activation activation,
         const KernelsConfig& kernels)
      : weight_(parameter(name + ".weight")),
        bias_(has_bias ? parameter(name + ".bias") : Tensor()),
        activation_(activation),
        level_(kernels_for(kernels, name).linear) {}

  at::ScalarType type() const { return weight_.scalar_type(); }

  Tensor operator()(const Tensor& x) const { return kernels::linear(x, weight_, bias_, activation_, level_); }
  kernels::ActivatedProduct with_pre_activation(const Tensor& x) const {
    return kernels::linear_and_pre_activation(x, weight_, bias_, activation_, level_);
  }
  // y of a pre_activation, bit for bit where the activation is not taken of an unrounded sum.
  Tensor activated(const Tensor& pre_activation) const {
    return kernels::activation(pre_activation, activation_, level_);
  }

 private:
  Tensor weight_, bias_;
  kernels::Activation activation_;
  kernels::Level level_;
};

}  // namespace strata::modules
