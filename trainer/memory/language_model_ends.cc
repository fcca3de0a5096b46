// SPDX-License-Identifier: MIT
#include "trainer/memory/language_model_ends.h"

#include <algorithm>
#include <optional>

#include "kernels/linear_cross_entropy/head_chunks.h"
#include "modules/config/module_table.h"

namespace strata::trainer {

using kernels::Level;

void LanguageModelEnds::embed() {
  const Part& part = ops_.outside();
  ledger_.at("the embedding");
  ledger_.take(part.stream);
  if (model_.family == modules::Family::gpt2) {
    ledger_.take(part.stream);
    ledger_.need(model_.sequence * model_.width * part.bytes);
    ledger_.give(part.stream);
  }
  ops_.dropout(part, "embedding");
  if (model_.dropout > 0) ledger_.give(part.stream);
}

void LanguageModelEnds::head(int64_t let_go) {
  const Part& part = ops_.outside();
  const int64_t statistics = ops_.statistics(part, "norm"), hidden = ops_.head().stream;
  const int64_t copies = ops_.layers().back().bytes == part.bytes ? 0 : 2 * part.stream;  // of residual and branch
  const bool turns = ops_.head().bytes != part.bytes;
  ledger_.at("the final norm");
  ledger_.take(copies);
  ledger_.take(2 * part.stream + statistics);
  ops_.norm_forward(part, "norm");
  ledger_.give(copies + let_go);
  if (turns) ledger_.take(hidden), ledger_.give(part.stream);
  ledger_.at("the loss");
  const std::optional<Level> fused = config_.kernels.levels.linear_cross_entropy;
  if (fused && *fused != Level::torchscript) {
    fused_loss(*fused);
  } else {  // torchscript has the two one after the other
    loss(fused.value_or(ops_.loss_level()));
  }
  ledger_.give(hidden);  // what the head keeps
  if (turns) ledger_.take(part.stream), ledger_.give(hidden);
  ledger_.at("the backward of the final norm");
  ledger_.take(part.stream);
  ops_.norm_backward(part, "norm");
  ledger_.give(2 * part.stream + statistics);
}

void LanguageModelEnds::loss(Level level) {
  const int64_t rows = ops_.tokens(), logits = ops_.tensor(rows * model_.vocabulary, ops_.head().bytes);
  ledger_.take(logits);
  ops_.cross_entropy(level, rows, model_.vocabulary);
  ledger_.at("the backward of the head");
  ops_.cross_entropy_backward(level, rows, model_.vocabulary);
  ledger_.take(ops_.head().stream);
  ops_.weight_gradient(ops_.head(), "head", model_.vocabulary, model_.width);
  ledger_.give(logits);
}

// Head and loss in one, for some rows at a time: both gradients are made with the logits.
void LanguageModelEnds::fused_loss(Level level) {
  const bool cuda = level == Level::cuda;
  const bool sharded = config_.sharding.ranks_per_copy(config_.run.ranks) > 1;
  const int64_t bytes = ops_.head().bytes, stream = ops_.head().stream;
  const int64_t classes = cuda ? kernels::classes_of_whole_rows(model_.vocabulary) : model_.vocabulary;
  const int64_t rows = std::min(kernels::rows_at_a_time(ops_.tokens(), classes, ops_.on_gpu()), ops_.tokens());
  const int64_t chunk = rows * classes, weight = classes * model_.width;
  const int64_t gradients = stream + 4 * weight;
  const int64_t filled_up = classes > model_.vocabulary ? (weight + classes) * bytes : 0;
  ledger_.take(gradients + filled_up);
  ledger_.take(chunk * bytes);
  if (cuda) {  // the gradient takes the place of the logits; a product that adds is timed on an output of its own
    if (rows < ops_.tokens() && !config_.run.deterministic) ledger_.need(4 * weight);
  } else {  // the gradient beside the logits, then a product in their type beside it
    const int64_t wide = bytes == 2 ? 2 * chunk * 4 : 0;  // ATen's copy of the logits, and log p
    const int64_t product = bytes == 2 ? weight * 2 : 0;
    ledger_.need(chunk * bytes + std::max(level == Level::aten ? wide : 0, product));
  }
  ledger_.give(chunk * bytes + filled_up);
  ledger_.at("the backward of the head");
  ledger_.take(stream);
  const FloatType reduce = config_.precision.reduce_of(modules::head_group(model_));
  if (sharded && !cuda && reduce != FloatType::float32) ledger_.need(4 * weight);  // times that of the loss
  ledger_.give(gradients);
}

void LanguageModelEnds::embed_backward() {
  ledger_.at("the backward of the embedding");
  ledger_.need(model_.vocabulary * model_.width * ops_.outside().bytes);
}

}  // namespace strata::trainer
