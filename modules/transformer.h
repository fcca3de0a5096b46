// SPDX-License-Identifier: MIT
// A decoder-only language model: GPT-2 or Llama family, from one configuration.
#pragma once

#include <vector>

#include "modules/config/model_config.h"
#include "modules/dropout.h"
#include "modules/layer.h"
#include "modules/norm.h"
#include "modules/scope.h"

namespace strata::modules {

class Transformer {
 public:
  // has_fused_head: the loss multiplies by head_weight() itself (linear_cross_entropy), and logits() is not
  // called.
  Transformer(const TransformerConfig& config, const Scope& scope, bool has_fused_head = false);

  // Replaces each block by the result of `wrap`: recomputation, timing, sharding.
  void wrap_layers(const WrapLayer& wrap);

  // tokens int64 [B, T] -> hidden states [B, T, D] after the final norm.
  Tensor operator()(const Tensor& tokens, const StepContext& context) const;
  // Hidden states [..., D] in the type of the head -> logits [..., V], with the soft cap of the model.
  Tensor logits(const Tensor& hidden) const;
  // Like logits(), but V may be padded to whole vectors (padded_logits.h): the classes that are added have probability
  // 0. Not for a loss with label smoothing.
  Tensor logits_for_loss(const Tensor& hidden) const;

  const Tensor& head_weight() const { return head_weight_; }  // [V, D]: the embedding when tied

 private:
  // The members stand in the order in which the constructor declares their parameters. For sharding, each block is a
  // parameter group, and so is an untied head.
  Tensor token_embedding_, position_embedding_;  // position undefined: rotary positions or alibi
  double embedding_scale_;
  kernels::Level embedding_level_, position_level_;
  Dropout embedding_dropout_;
  std::vector<Layer> blocks_;
  Norm norm_;
  Tensor head_weight_;
  double logit_softcap_;
  kernels::Level head_level_;
};

}  // namespace strata::modules
