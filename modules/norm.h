// SPDX-License-Identifier: MIT
// The norm before a branch, LayerNorm or RMSNorm, which adds the pending branch of the stream in the same pass; and the
// norms of queries and keys.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/linear/few_rows.h"
#include "modules/config/block_config.h"
#include "modules/layer.h"
#include "modules/scope.h"

namespace strata::modules {

class Norm {
 public:
  struct Output {
    Tensor y;         // norm(residual + branch)
    Tensor residual;  // residual + branch
  };

  struct Options {
    int64_t width;
    double epsilon;
    bool root_mean_square = false;  // RMSNorm without a bias
    // True: y is gelu_tanh of the LayerNorm, by op layer_norm_gelu_tanh, which adds no pending branch.
    bool gelu_tanh = false;
  };
  Norm(const Scope& scope, const Options& options);
  Norm(const Scope& scope, const BlockConfig& config);

  at::ScalarType type() const { return weight_.scalar_type(); }

  Output operator()(const ResidualStream& stream) const;
  using Function = std::function<Tensor(const Tensor& x)>;
  // Returns branch(layout(y)). With SelectiveRecompute, the input of `branch` is recomputed in the backward, so that
  // only the sum stays in memory. `layout` copies y into the layout that `branch` reads; without it, that is y itself.
  Tensor run_branch(const Output& output, const StepContext& context, const Function& branch,
                    const Function& layout = {}) const;
  // An RMSNorm may be left to the product that reads it: modules/linear.h.
  bool may_be_left_to_product() const { return root_mean_square_ && kernels::norm_can_be_left_to_product(level_); }
  kernels::NormedInput left_to_product(const ResidualStream& stream) const {
    return {stream.residual, stream.branch, weight_, epsilon_};
  }
  // Normalizes a tensor without adding a branch. From Output::residual it computes y again, with the same bits, because
  // every level normalizes the rounded sum.
  Tensor normalize_sum(const Tensor& sum) const;

 private:
  Tensor weight_, bias_;  // bias undefined: RMSNorm
  bool root_mean_square_, gelu_tanh_;
  double epsilon_;
  kernels::Level level_;
};

// RMSNorm of queries and keys, over all heads together, or over each head of a model without rotary positions (with
// them, op rms_norm_rotary computes it). There is no kernel for parts of a row, so queries and keys are copied,
// normalized and joined with the values: they are moved three times, and values once. Backward keeps the copies.
class NormOfQueriesAndKeys {
 public:
  NormOfQueriesAndKeys(const Scope& attention, const BlockConfig& config);

  Tensor operator()(const Tensor& qkv) const;  // [B, T, (H + 2K) * D] -> a new tensor of this shape

 private:
  int64_t query_width_, key_width_;  // over which the norms go
  Norm query_, key_;
  int64_t queries_, keys_;  // columns of each in a row of qkv
};

}  // namespace strata::modules
