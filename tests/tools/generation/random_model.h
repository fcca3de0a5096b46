// SPDX-License-Identifier: MIT
// A small language model with random weights, and its logits without a cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "modules/config/model_config.h"
#include "tools/generation/decoder.h"

namespace strata::generation {

class RandomModel {
 public:
  explicit RandomModel(const modules::TransformerConfig& config);

  Decoder decoder() const;
  // Computes the whole sequence as training does, and returns the logits [V] after its last token.
  Tensor logits_after(const std::vector<int64_t>& tokens) const;

 private:
  modules::TransformerConfig config_;
  std::map<std::string, Tensor> weights_;
};

}  // namespace strata::generation
