// SPDX-License-Identifier: MIT
#include "modules/norm.h"

#include <ATen/ops/cat.h>
#include <c10/util/Exception.h>

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "modules/selective_recompute.h"

namespace strata::modules {

Norm::Norm(const Scope& scope, const Options& options)
    : weight_(scope.parameter({"weight", {options.width}, Initialization::ones})),
      bias_(options.root_mean_square ? Tensor() : scope.parameter({"bias", {options.width}, Initialization::zeros})),
      root_mean_square_(options.root_mean_square),
      gelu_tanh_(options.gelu_tanh),
      epsilon_(options.epsilon),
      level_(scope.level(options.root_mean_square ? "rms_norm" : "layer_norm")) {
  TORCH_CHECK(!(root_mean_square_ && gelu_tanh_), "there is no op that computes gelu_tanh of an RMSNorm");
}

Norm::Norm(const Scope& scope, const BlockConfig& config)
    : Norm(scope,
           {.width = config.width, .epsilon = config.norm_epsilon, .root_mean_square = config.root_mean_square}) {}

Norm::Output Norm::operator()(const ResidualStream& stream) const {
  const auto& [residual, branch] = stream;
  if (!branch.defined()) return {normalize_sum(residual), residual};
  TORCH_CHECK(!gelu_tanh_, "layer_norm_gelu_tanh adds no branch, and one is pending");
  const auto [y, sum] = root_mean_square_ ? kernels::add_rms_norm(residual, branch, weight_, epsilon_, level_)
                                          : kernels::add_layer_norm(residual, branch, weight_, bias_, epsilon_, level_);
  return {y, sum};
}

Tensor Norm::run_branch(const Output& output, const StepContext& context, const Function& branch,
                        const Function& layout) const {
  const auto arranged = [layout](const Tensor& y) { return layout ? layout(y) : y; };
  if (context.find<SelectiveRecompute>() == nullptr) return branch(arranged(output.y));
  const auto again = [norm = *this, arranged](const Tensor& sum) { return arranged(norm.normalize_sum(sum)); };
  return use_recomputed({arranged(output.y), output.residual, again}, branch);
}

Tensor Norm::normalize_sum(const Tensor& sum) const {
  if (root_mean_square_) return kernels::rms_norm(sum, weight_, epsilon_, level_);
  return gelu_tanh_ ? kernels::layer_norm_gelu_tanh(sum, weight_, bias_, epsilon_, level_)
                    : kernels::layer_norm(sum, weight_, bias_, epsilon_, level_);
}

NormOfQueriesAndKeys::NormOfQueriesAndKeys(const Scope& attention, const BlockConfig& config)
    : query_width_((config.query_key_norm == QueryKeyNorm::whole ? config.heads : 1) * config.head_width),
      key_width_((config.query_key_norm == QueryKeyNorm::whole ? config.key_value_heads : 1) * config.head_width),
      query_(attention / "query_norm",
             {.width = query_width_, .epsilon = config.norm_epsilon, .root_mean_square = true}),
      key_(attention / "key_norm", {.width = key_width_, .epsilon = config.norm_epsilon, .root_mean_square = true}),
      queries_(config.heads * config.head_width),
      keys_(config.key_value_heads * config.head_width) {}

Tensor NormOfQueriesAndKeys::operator()(const Tensor& qkv) const {
  const auto normed = [&](const Norm& norm, int64_t width, int64_t first, int64_t columns) {
    const Tensor norm_input = qkv.narrow(-1, first, columns).unflatten(-1, {columns / width, width});
    return norm.normalize_sum(norm_input.contiguous()).flatten(-2);
  };
  return at::cat({normed(query_, query_width_, 0, queries_), normed(key_, key_width_, queries_, keys_),
                  qkv.narrow(-1, queries_ + keys_, keys_)},
                 -1);
}

}  // namespace strata::modules
