// SPDX-License-Identifier: MIT
#include "trainer/tasks/language_modeling.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <numbers>
#include <optional>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "trainer/data/ignored_label.h"

namespace strata::trainer {
LanguageModeling::LanguageModeling(const modules::TransformerConfig& model, const TextDataConfig& data,
                                   const TaskSettings& settings)
    : LanguageModeling(model, settings) {
  corpora_.emplace(Corpora{.train = {data.train, model.sequence, model.vocabulary},
                           .validation = {data.validation, model.sequence, model.vocabulary}});
}

LanguageModeling::LanguageModeling(const modules::TransformerConfig& model, const TaskSettings& settings)
    : settings_(settings), model_config_(model) {}

void LanguageModeling::build_model(const modules::Scope& scope, at::Device device) {
  model_ = std::make_unique<modules::Transformer>(model_config_, scope, settings_.use.head_and_loss_are_one);
  loss_level_ = scope.level(settings_.use.head_and_loss_are_one ? "linear_cross_entropy" : "cross_entropy");
  if (model_config_.family == modules::Family::llama) {
    const auto [cosine, sine] = modules::rotary_tables(model_config_, model_config_.sequence);
    rotary_ = std::make_shared<const modules::RotaryTables>(modules::RotaryTables{cosine.to(device), sine.to(device)});
  }
}

MicroBatch LanguageModeling::training_batch(int64_t first_sample, int64_t count) const {
  return {corpora_->train.training_batch(settings_.seed, first_sample, count), first_sample % settings_.batch};
}

MicroBatch LanguageModeling::example_batch(int64_t count) const {
  const Tensor tokens = at::empty({count, model_config_.sequence}, at::device(at::kMeta).dtype(at::kLong));
  return TokenBatch{tokens, at::empty_like(tokens)};
}

MicroBatch LanguageModeling::evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const {
  const int64_t there = std::clamp<int64_t>(end - first_sample, 0, count);
  const int64_t missing = count - there;
  const auto [inputs, targets] = corpora_->validation.evaluation_batch(std::min(first_sample, end), there);
  if (missing == 0) return TokenBatch{inputs, targets};
  return TokenBatch{at::constant_pad_nd(inputs, {0, 0, 0, missing}, 0),
                    at::constant_pad_nd(targets, {0, 0, 0, missing}, kIgnoredLabel)};
}

Tensor LanguageModeling::evaluation_sums(const MicroBatch& batch) const {
  const Tensor one = at::ones({}, batch.as<TokenBatch>().inputs.options().dtype(at::kFloat));
  return loss(batch, one, /*dropout_key=*/{}).to(at::kDouble).reshape({1});
}

std::map<std::string, double> LanguageModeling::metrics(const std::vector<double>& means) const {
  const std::optional<double> bytes = corpora_->validation.bytes_per_token();
  if (!bytes) return {};
  return {{"bits_per_byte", means.at(0) / std::numbers::ln2 / *bytes}};
}

Tensor LanguageModeling::loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const {
  modules::StepContext context;
  context.dropout_key = dropout_key;
  context.first_row = batch.first_sample * model_config_.sequence;
  if (rotary_) context.put(rotary_);
  const auto& [tokens, labels] = batch.as<TokenBatch>();
  const Tensor targets = labels.flatten();
  const Tensor hidden = (*model_)(tokens, context).flatten(0, 1).to(model_->head_weight().scalar_type());
  if (settings_.use.head_and_loss_are_one) {
    return kernels::linear_cross_entropy(hidden, model_->head_weight(), targets, scale, kIgnoredLabel,
                                         /*label_smoothing=*/0, loss_level_);
  }
  return kernels::cross_entropy(model_->logits_for_loss(hidden), targets, scale, kIgnoredLabel, /*label_smoothing=*/0,
                                loss_level_);
}

}  // namespace strata::trainer
