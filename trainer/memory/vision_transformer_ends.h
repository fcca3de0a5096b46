// SPDX-License-Identifier: MIT
// What a step of a vision transformer takes in front of its blocks and behind them.
#pragma once

#include <cstdint>

#include "modules/config/model_config.h"
#include "trainer/config/trainer_config.h"
#include "trainer/memory/memory_ledger.h"
#include "trainer/memory/op_memory.h"

namespace strata::trainer {

class VisionTransformerEnds {
 public:
  VisionTransformerEnds(const TrainerConfig& config, const modules::VisionTransformerConfig& model, OpMemory& ops,
                        MemoryLedger& ledger);

  // Of one micro-batch: pixels of a byte, labels, and how images are mixed.
  int64_t batch() const;
  // Leaves the stream, and what is let go by the backward of the embedding and by the head.
  void embed();
  // Comes with what layers keep and `let_go`, which they put out and nobody keeps; leaves with the first and the
  // gradient of the stream.
  void head(int64_t let_go);
  // Comes with the gradient of the stream.
  void embed_backward();

 private:
  void loss();

  const modules::VisionTransformerConfig& model_;
  OpMemory& ops_;
  MemoryLedger& ledger_;
  const bool mixes_;        // images in pairs
  const bool are_patches_;  // images lie in memory as their patches do
  const int64_t values_;    // of the images
  // Of numbers of the images in fp32; of those in the type of the embedding; of the embedded patches.
  const int64_t images_, patches_, embedded_;
};

}  // namespace strata::trainer
