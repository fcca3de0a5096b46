// SPDX-License-Identifier: MIT
// Next-token prediction on token files.
#pragma once

#include <memory>
#include <optional>

#include "modules/rotary_tables.h"
#include "modules/sequences.h"
#include "modules/transformer.h"
#include "trainer/config/data_config.h"
#include "trainer/data/text/token_corpus.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {

inline TokenBatch with_each(const TokenBatch& batch, const ReplaceTensor& replaced) {
  const auto& [inputs, targets, document_offsets, positions] = batch;
  return {replaced(inputs), replaced(targets), replaced(document_offsets), replaced(positions)};
}

class LanguageModeling : public Task,
                         public HasIgnoredItems,
                         public PacksDocuments,
                         public ShowsSamples,
                         public SplitsSequences {
 public:
  LanguageModeling(const modules::TransformerConfig& model, const TextDataConfig& data, const TaskSettings& settings);
  // Without data, see make_task_without_data.
  LanguageModeling(const modules::TransformerConfig& model, DocumentUse documents, const TaskSettings& settings);

  void split_sequences(sharding::Communicator& group) override;
  void build_model(const modules::Scope& scope, at::Device device) override;
  void wrap_layers(const modules::WrapLayer& wrap) override { model_->wrap_layers(wrap); }

  MicroBatch training_batch(int64_t first_sample, int64_t count) const override;
  MicroBatch example_batch(int64_t count) const override;
  int64_t items_per_sample() const override { return model_config_.sequence; }
  std::string item_name() const override { return "tokens"; }

  int64_t evaluation_samples() const override { return corpora_->validation.windows(); }
  int64_t evaluation_items(int64_t samples, const Tensor& sums) const override;
  MicroBatch evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const override;
  Tensor evaluation_sums(const MicroBatch& batch) const override;
  std::map<std::string, double> metrics(const std::vector<double>& means) const override;

  Tensor loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const override;

  bool has_ignored_items() const override { return separates_documents() || ignored_positions_.defined(); }
  Tensor items_with_loss(const MicroBatch& batch) const override;
  modules::DocumentLengths document_lengths() const override;

  // Beside each token stand the loss of the token after it, and the token that the model expects there.
  std::vector<std::string> shown_names() const override { return {"tokens", "losses", "predictions"}; }
  Tensor shown_values(const MicroBatch& batch) const override;

  std::string data_fingerprint() const override {
    return corpora_->train.fingerprint() + " " + corpora_->validation.fingerprint();
  }

 private:
  struct Corpora {
    TokenCorpus train, validation;
  };

  bool separates_documents() const { return documents_ == DocumentUse::separate; }
  // Takes whole sequences, and ignores the targets that attention shows.
  TokenBatch without_seen_targets(TokenBatch batch) const;
  // Returns what this rank computes of whole sequences.
  TokenBatch own_part(TokenBatch batch) const;
  // Returns [B * T, D] in the type of the head.
  Tensor hidden_states(const MicroBatch& batch, const Tensor& dropout_key) const;

  const TaskSettings settings_;
  const modules::TransformerConfig model_config_;
  const DocumentUse documents_;
  const Tensor ignored_positions_;  // bool [T], whose targets are ignored; undefined if there are none
  kernels::Level loss_level_ = {};  // set by build_model
  std::optional<Corpora> corpora_;  // empty if the task is without data
  std::unique_ptr<modules::Transformer> model_;
  std::shared_ptr<const modules::SequencePart> part_;    // null if this rank computes whole sequences
  std::shared_ptr<const modules::RotaryTables> rotary_;  // null without rotary positions
};

}  // namespace strata::trainer
