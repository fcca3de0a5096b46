// SPDX-License-Identifier: MIT
// What a step of a language model takes in front of its blocks and behind them.
#pragma once

#include <cstdint>

#include "modules/config/model_config.h"
#include "trainer/config/trainer_config.h"
#include "trainer/memory/memory_ledger.h"
#include "trainer/memory/op_memory.h"

namespace strata::trainer {

class LanguageModelEnds {
 public:
  LanguageModelEnds(const TrainerConfig& config, const modules::TransformerConfig& model, OpMemory& ops,
                    MemoryLedger& ledger)
      : config_(config), model_(model), ops_(ops), ledger_(ledger) {}

  // Of one micro-batch: inputs and targets.
  int64_t batch() const { return 2 * ops_.tensor(ops_.tokens(), 8); }
  // Leaves the stream.
  void embed();
  // Comes with what layers keep and `let_go`, which they put out and nobody keeps; leaves with the first and the
  // gradient of the stream.
  void head(int64_t let_go);
  // Comes with the gradient of the stream.
  void embed_backward();

 private:
  void loss(kernels::Level level);
  void fused_loss(kernels::Level level);

  const TrainerConfig& config_;
  const modules::TransformerConfig& model_;
  OpMemory& ops_;
  MemoryLedger& ledger_;
};

}  // namespace strata::trainer
