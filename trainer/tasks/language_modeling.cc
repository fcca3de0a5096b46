// SPDX-License-Identifier: MIT
#include "trainer/tasks/language_modeling.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <numbers>
#include <utility>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "trainer/config/seen_targets.h"
#include "trainer/data/ignored_label.h"
#include "trainer/tasks/sequence_exchange.h"

namespace strata::trainer {
namespace {

// Returns a bool tensor [T]; undefined if no value is true.
Tensor tensor_of(const std::vector<bool>& values) {
  if (std::ranges::find(values, true) == values.end()) return {};
  const Tensor result = at::empty({static_cast<int64_t>(values.size())}, at::kBool);
  std::ranges::copy(values, result.mutable_data_ptr<bool>());
  return result;
}

}  // namespace

LanguageModeling::LanguageModeling(const modules::TransformerConfig& model, const TextDataConfig& data,
                                   const TaskSettings& settings)
    : LanguageModeling(model, data.documents, settings) {
  const bool separate = separates_documents();
  corpora_.emplace(Corpora{.train = {data.train, model.sequence, model.vocabulary, separate},
                           .validation = {data.validation, model.sequence, model.vocabulary, separate}});
}

LanguageModeling::LanguageModeling(const modules::TransformerConfig& model, DocumentUse documents,
                                   const TaskSettings& settings)
    : settings_(settings),
      model_config_(model),
      documents_(documents),
      ignored_positions_(tensor_of(ignored_positions(model))) {}

void LanguageModeling::split_sequences(sharding::Communicator& group) {
  part_ = std::make_shared<const modules::SequencePart>(
      group.rank(), group.size(), model_config_.sequence,
      [&group](const Tensor& own) { return gather_sequence(own, group); });
}

void LanguageModeling::build_model(const modules::Scope& scope, at::Device device) {
  model_ = std::make_unique<modules::Transformer>(model_config_, scope, settings_.placement.has_fused_head);
  loss_level_ = scope.level(settings_.placement.has_fused_head ? "linear_cross_entropy" : "cross_entropy");
  if (model_config_.has_rotary_positions()) {
    const at::Device place = device.is_meta() ? device : at::Device(at::kCPU);
    const auto [cosine, sine] = modules::rotary_tables(model_config_, model_config_.sequence, place);
    modules::RotaryTables tables = {cosine.to(device), sine.to(device)};
    // Positions of packed documents are known in each batch only.
    if (part_ && !separates_documents()) tables = modules::rows_of(tables, part_->positions(device));
    rotary_ = std::make_shared<const modules::RotaryTables>(std::move(tables));
  }
}

TokenBatch LanguageModeling::without_seen_targets(TokenBatch batch) const {
  if (ignored_positions_.defined()) batch.targets.masked_fill_(ignored_positions_, kIgnoredLabel);
  return batch;
}

TokenBatch LanguageModeling::own_part(TokenBatch batch) const {
  if (!part_) return batch;
  const Tensor positions = part_->positions(batch.inputs.device());
  for (Tensor* tokens : {&batch.inputs, &batch.targets, &batch.positions}) {
    if (tokens->defined()) *tokens = tokens->index_select(1, positions);
  }
  return batch;
}

MicroBatch LanguageModeling::training_batch(int64_t first_sample, int64_t count) const {
  return {own_part(without_seen_targets(corpora_->train.training_batch(settings_.seed, first_sample, count))),
          first_sample % settings_.batch};
}

MicroBatch LanguageModeling::example_batch(int64_t count) const {
  const auto options = at::TensorOptions(at::kMeta);
  const Tensor tokens = at::empty({count, model_config_.sequence}, options.dtype(at::kLong));
  if (!separates_documents()) return own_part({tokens, at::empty_like(tokens)});
  // The data know how many documents a row has at most. It has no more than tokens.
  return own_part({tokens, at::empty_like(tokens), at::empty({tokens.numel() + 1}, options.dtype(at::kInt)),
                   at::empty_like(tokens)});
}

MicroBatch LanguageModeling::evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const {
  const int64_t present = std::clamp<int64_t>(end - first_sample, 0, count);
  return own_part(without_seen_targets(
      corpora_->validation.evaluation_batch(std::min(first_sample, end), present, count - present)));
}

Tensor LanguageModeling::evaluation_sums(const MicroBatch& batch) const {
  const Tensor unit_scale = at::ones({}, batch.as<TokenBatch>().inputs.options().dtype(at::kFloat));
  const Tensor sum = loss(batch, unit_scale, /*dropout_key=*/{}).to(at::kDouble);
  return has_ignored_items() ? at::stack({sum, items_with_loss(batch).to(at::kDouble)}) : sum.reshape({1});
}

int64_t LanguageModeling::evaluation_items(int64_t samples, const Tensor& sums) const {
  if (!has_ignored_items()) return samples * items_per_sample();
  return std::max<int64_t>(static_cast<int64_t>(sums.select(0, 1).item<double>()), 1);
}

Tensor LanguageModeling::items_with_loss(const MicroBatch& batch) const {
  return batch.as<TokenBatch>().targets.ne(kIgnoredLabel).sum().to(at::kFloat);
}

modules::DocumentLengths LanguageModeling::document_lengths() const {
  constexpr int64_t kMost = 64;
  modules::DocumentLengths lengths;
  if (!separates_documents() || !corpora_) return lengths;
  const int64_t windows = corpora_->train.windows(), count = std::min(windows, kMost);
  for (int64_t i = 0; i < count; ++i) lengths.push_back(corpora_->train.document_lengths(i * windows / count));
  return lengths;
}

std::map<std::string, double> LanguageModeling::metrics(const std::vector<double>& means) const {
  const std::optional<double> bytes = corpora_->validation.bytes_per_token();
  if (!bytes) return {};
  return {{"bits_per_byte", means.at(0) / std::numbers::ln2 / *bytes}};
}

Tensor LanguageModeling::hidden_states(const MicroBatch& batch, const Tensor& dropout_key) const {
  modules::StepContext context;
  context.dropout_key = dropout_key;
  context.first_row = batch.first_sample * model_config_.sequence;
  const auto& [tokens, labels, document_offsets, positions] = batch.as<TokenBatch>();
  if (rotary_ && positions.defined()) {
    context.put(std::make_shared<const modules::RotaryTables>(modules::rows_of(*rotary_, positions)));
  } else if (rotary_) {
    context.put(rotary_);
  }
  if (positions.defined()) {
    context.put(std::make_shared<const modules::Documents>(modules::Documents{document_offsets, positions}));
  }
  if (part_) context.put(part_);
  return (*model_)(tokens, context).flatten(0, 1).to(model_->head_weight().scalar_type());
}

Tensor LanguageModeling::shown_values(const MicroBatch& batch) const {
  // A head of linear_cross_entropy may have been chosen because the logits of all rows take too much memory.
  constexpr int64_t kRowsAtOnce = 256, kMostItems = 2048;
  const TokenBatch& tokens = batch.as<TokenBatch>();
  const Tensor hidden = hidden_states(batch, /*dropout_key=*/{}), targets = tokens.targets.flatten();
  std::vector<Tensor> losses, predictions;
  for (int64_t first = 0; first < hidden.size(0); first += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, hidden.size(0) - first);
    const Tensor logits = model_->logits(hidden.narrow(0, first, rows)).to(at::kFloat);
    const Tensor labels = targets.narrow(0, first, rows);
    losses.push_back(at::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::None, kIgnoredLabel)
                         .masked_fill(labels.eq(kIgnoredLabel), std::numeric_limits<double>::quiet_NaN()));
    predictions.push_back(logits.argmax(1));
  }
  const auto rows_of_samples = [&](const Tensor& values) { return values.view_as(tokens.inputs).to(at::kDouble); };
  const Tensor own_values = at::stack(
      {rows_of_samples(tokens.inputs), rows_of_samples(at::cat(losses)), rows_of_samples(at::cat(predictions))}, 1);
  const int64_t items = std::min(model_config_.sequence, kMostItems);
  if (!part_) return own_values.narrow(2, 0, items);
  const Tensor all_values =
      at::zeros({own_values.size(0), own_values.size(1), model_config_.sequence}, own_values.options());
  return all_values.index_copy_(2, part_->positions(own_values.device()), own_values).narrow(2, 0, items);
}

Tensor LanguageModeling::loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const {
  const Tensor targets = batch.as<TokenBatch>().targets.flatten(), hidden = hidden_states(batch, dropout_key);
  if (settings_.placement.has_fused_head) {
    return kernels::linear_cross_entropy(hidden, model_->head_weight(), targets, scale, kIgnoredLabel,
                                         /*label_smoothing=*/0, model_config_.logit_softcap, loss_level_);
  }
  return kernels::cross_entropy(model_->logits_for_loss(hidden), targets, scale, kIgnoredLabel, /*label_smoothing=*/0,
                                loss_level_);
}

}  // namespace strata::trainer
