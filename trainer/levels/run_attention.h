// SPDX-License-Identifier: MIT
// The attention of a run: what the model computes, and the settings that decide which levels can compute it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "kernels/attention/pattern/pattern.h"
#include "modules/config/model_attention.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// Returns what attention computes in a layer: its pattern, within documents if the run keeps these apart.
inline kernels::Pattern computed_pattern(DocumentUse documents, const kernels::Pattern& layer_pattern) {
  return documents == DocumentUse::separate ? within_documents(layer_pattern) : layer_pattern;
}

struct RunAttention {
  modules::ModelAttention model_attention;
  DocumentUse documents = DocumentUse::joined;
  int64_t sequence_ranks = 1;  // ranks that share a sequence
  bool deterministic = false;

  // The pattern that is computed in a layer.
  kernels::Pattern computed(const kernels::Pattern& layer_pattern) const {
    return computed_pattern(documents, layer_pattern);
  }
  bool is_split() const { return sequence_ranks > 1; }  // the queries of a rank are chunks of a sequence
};

// Nothing: no layer of the model computes op attention. Throws the Error of a wrong pattern.
inline std::optional<RunAttention> attention_of_run(const TrainerConfig& config) {
  std::optional<modules::ModelAttention> model_attention = modules::attention_of(config.model);
  if (!model_attention) return std::nullopt;
  return RunAttention{*std::move(model_attention), documents_of(config.data), config.sharding.sequence,
                      config.run.deterministic};
}

}  // namespace strata::trainer
