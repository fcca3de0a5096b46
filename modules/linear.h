// SPDX-License-Identifier: MIT
// A linear layer with an optional bias and an optional activation as epilogue.
#pragma once

#include <cstdint>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "modules/scope.h"

namespace strata::modules {

// y = activation(x weight^T + bias), x [..., in], weight [out, in].
class Linear {
 public:
  struct Options {
    int64_t outputs, inputs;
    bool has_bias = true;
    // First values of the weight; the bias starts at 0. uniform: between -1 / sqrt(inputs) and 1 / sqrt(inputs), the
    // bias too, as torch.nn.Linear and PyG's Linear start.
    Initialization initialization = Initialization::normal;
    kernels::Activation activation = kernels::Activation::none;
  };
  Linear(const Scope& scope, const Options& options);

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
