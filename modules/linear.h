// SPDX-License-Identifier: MIT
// A linear layer with an optional bias and an optional activation as epilogue.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/activation/activation.h"
#include "kernels/linear/few_rows.h"
#include "kernels/linear/fp8_layer.h"
#include "kernels/linear/linear.h"
#include "kernels/quantize/delayed_scale.h"
#include "kernels/quantize/number_format.h"
#include "kernels/sparsity/prune_group.h"
#include "modules/scope.h"

namespace strata::modules {

// y = activation(x weight^T + bias), x [..., in], weight [out, in], by op linear. With a number format in
// precision.linear it calls quantized_linear() instead, and while `sparsity` prunes the weight, sparse_linear(). The
// activation is then an op of its own.
class Linear {
 public:
  struct Options {
    int64_t outputs, inputs;
    bool has_bias = true;
    // Initialization of the weight; the bias starts at 0. uniform: weight and bias are between -1 / sqrt(inputs) and 1
    // / sqrt(inputs), as in torch.nn.Linear and PyG's Linear.
    Initialization initialization = Initialization::normal;
    kernels::Activation activation = kernels::Activation::none;
  };
  Linear(const Scope& scope, const Options& options);

  at::ScalarType type() const { return weight_.scalar_type(); }

  // The arguments of fp8_linear() if operator() is a call of it, otherwise nothing.
  std::optional<kernels::Fp8Layer> fp8_layer() const;

  Tensor operator()(const Tensor& x) const;
  kernels::ActivatedProduct with_pre_activation(const Tensor& x) const;
  // True if gated() may be called, in a step of generation. The product holds gate and then up, and gated() returns
  // kind(gate) * up by one kernel.
  bool can_fuse_gate(const Tensor& x) const { return is_plain() && kernels::multiplies_few_rows(level_, x, weight_); }
  Tensor gated(const Tensor& x, kernels::Activation kind) const {
    return kernels::gated_linear_of_few_rows(x, weight_, bias_, kind);
  }
  // True if norm_and_multiply() may be called, which normalizes the input by the same kernel. It returns the product,
  // or with a gate what gated() returns.
  bool can_fuse_norm(const Tensor& x) const {
    return is_plain() && activation_ == kernels::Activation::none && kernels::product_can_normalize(level_, x, weight_);
  }
  kernels::ProductOfNorm norm_and_multiply(const kernels::NormedInput& input,
                                           kernels::Activation gate = kernels::Activation::none) const {
    return kernels::linear_of_norm(input, weight_, bias_, gate);
  }
  // Recomputes y from pre_activation. The bits are the same unless the forward's epilogue applied the activation to an
  // unrounded sum.
  Tensor activated(const Tensor& pre_activation) const {
    return kernels::activation(pre_activation, activation_, is_plain() ? level_ : activation_level_);
  }

 private:
  bool is_pruned_now() const { return prune_mask_ && (prunes_ == nullptr || *prunes_); }
  bool is_plain() const { return !formats_ && !is_pruned_now(); }  // multiplies x and the weight themselves
  Tensor changed_product(const Tensor& x) const;                   // if not plain, without the activation

  Tensor weight_, bias_;
  kernels::Activation activation_;
  kernels::Level level_;
  std::optional<kernels::ProductFormats> formats_;  // absent: products of unrounded operands
  kernels::DelayedScales scales_;
  std::optional<kernels::PruneMask> prune_mask_;  // absent: no sparsity, as where there are formats
  std::shared_ptr<const bool> prunes_;            // null: always, if it has sparsity
  kernels::Level activation_level_;               // if the activation is an op of its own
};

}  // namespace strata::modules
