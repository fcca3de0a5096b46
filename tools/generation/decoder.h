// SPDX-License-Identifier: MIT
// Decoder: the logits of the next tokens of a batch of prompts, one token in each row at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "modules/attention.h"
#include "modules/config/block_config.h"
#include "modules/config/kernels_config.h"
#include "modules/config/linear_formats_config.h"
#include "modules/config/model_config.h"
#include "modules/rotary_tables.h"
#include "modules/transformer.h"
#include "tools/generation/step_graph.h"

namespace strata::generation {

using at::Tensor;
using Prompts = std::vector<std::vector<int64_t>>;

class Decoder {
 public:
  using Weights = std::function<Tensor(const std::string& name)>;

  // The weights are on the device, and the caches have their type. `formats` comes from precision.linear. On a
  // GPU steps are captured as a CUDA graph, unless `captures` is false or a level compiles in its first calls. Without
  // `kernels` the Decoder chooses the level of each op. The attention of one token to a cache has no levels.
  Decoder(const modules::TransformerConfig& config, const modules::LinearFormatsConfig& formats, const Weights& weights,
          at::Device device, bool captures = true, const std::optional<modules::KernelsConfig>& kernels = {});

  // Computes the prompts one by one, with caches for rows of at most `positions` tokens, and returns the logits [B, V]
  // of their next tokens. A row is the same in any batch, up to the rounding of products.
  Tensor start(const Prompts& prompts, int64_t positions);
  // Takes the next token of each row, int64 [B], and returns the logits [B, V] of the one after it. The next call
  // overwrites them. Logits of a row that is full, or whose token is kNoToken, are meaningless.
  Tensor next(const Tensor& tokens);
  // Forgets what a row has, computes these tokens in its place, and returns the logits [1, V] of the one after them.
  Tensor restart(int64_t row, const std::vector<int64_t>& tokens);

  int64_t positions() const { return most_positions_; }
  int64_t cache_bytes() const;
  const modules::TransformerConfig& config() const { return config_; }

 private:
  Tensor step();
  Tensor logits(const Tensor& tokens, const std::vector<Tensor>& caches, const Tensor& positions) const;

  modules::TransformerConfig config_;
  modules::BlockConfig block_;
  modules::Transformer model_, few_rows_model_;  // with the same weights and other levels
  at::TensorOptions options_;
  bool captures_;
  int64_t most_positions_ = 0;
  std::vector<Tensor> caches_;
  Tensor rotary_;              // fp32 [2, tables, positions or more, D / 2]: cosines, then sines
  Tensor tokens_, positions_;  // int64 [B, 1] of the next step
  StepGraph graph_;            // CUDA graph of step() with these tensors
};

}  // namespace strata::generation
