// SPDX-License-Identifier: MIT
#include "modules/transformer.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

#include "kernels/cross_entropy/softcap.h"
#include "kernels/embedding/embedding.h"
#include "kernels/linear/linear.h"
#include "modules/attention.h"
#include "modules/padded_logits.h"
#include "modules/sequences.h"
#include "modules/transformer_block.h"

namespace strata::modules {
namespace {

Tensor position_embedding(const TransformerConfig& config, const Scope& scope) {
  if (!config.has_learned_positions()) return {};
  return scope.parameter({"weight", {config.sequence, config.width}});
}

Scope head_of(const TransformerConfig& config, const Scope& model) {
  return config.tied ? model / "head" : model.head("head");
}

// [B, T], or [1, T] if they are the same in all rows.
Tensor positions_of(const Tensor& tokens, const StepContext& context) {
  if (const auto* documents = context.find<Documents>()) return documents->positions;
  if (const auto* cached = context.find<DecodingStep>()) return cached->positions;
  if (const auto* part = context.find<SequencePart>()) return part->positions(tokens.device()).unsqueeze(0);
  return at::arange(tokens.size(1), tokens.options()).unsqueeze(0);
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config, const Scope& scope, bool has_fused_head)
    : token_embedding_((scope / "embedding").parameter({"weight", {config.vocabulary, config.width}})),
      position_embedding_(position_embedding(config, scope / "position")),
      embedding_scale_(config.embedding_scale_or_default()),
      embedding_level_((scope / "embedding").level("embedding")),
      position_level_(config.has_learned_positions() ? (scope / "position").level("embedding") : kernels::Level::aten),
      embedding_dropout_(scope / "embedding", config.dropout, /*site=*/0),
      blocks_(transformer_blocks(scope, block_config(config))),
      norm_(scope / "norm", block_config(config)),
      head_weight_(config.tied ? token_embedding_
                               : head_of(config, scope).parameter({"weight", {config.vocabulary, config.width}})),
      logit_softcap_(config.logit_softcap),
      head_level_(has_fused_head ? kernels::Level::aten : head_of(config, scope).level("linear")) {}

void Transformer::wrap_layers(const WrapLayer& wrap) { wrap_each(blocks_, wrap); }

Tensor Transformer::operator()(const Tensor& tokens, const StepContext& context) const {
  Tensor x = kernels::embedding(tokens, token_embedding_, embedding_level_);
  // The factor has the type of the embedding, as in transformers: in bf16, sqrt(1152) is 34. It stays in host memory.
  if (embedding_scale_ != 1) x = at::mul(x, at::scalar_tensor(embedding_scale_, x.scalar_type()));
  if (position_embedding_.defined()) {
    x = at::add(x, kernels::embedding(positions_of(tokens, context), position_embedding_, position_level_));
  }
  ResidualStream stream{embedding_dropout_(x, context), {}};
  for (const Layer& block : blocks_) stream = block(stream, context);
  return norm_(cast_stream(stream, norm_.type())).y;
}

Tensor Transformer::logits(const Tensor& hidden) const {
  return kernels::capped_logits(
      kernels::linear(hidden, head_weight_, /*bias=*/{}, kernels::Activation::none, head_level_), logit_softcap_);
}

Tensor Transformer::logits_for_loss(const Tensor& hidden) const {
  const int64_t padding = padding_classes(head_weight_);
  return padding == 0 ? logits(hidden) : padded_logits(hidden, head_weight_, padding, logit_softcap_, head_level_);
}

}  // namespace strata::modules
