// SPDX-License-Identifier: MIT
// Small language models with random weights, and their logits without a cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "modules/config/model_config.h"
#include "tools/generation/decoder.h"

namespace strata::generation {

// A llama of 3 layers with 4 heads, a context of 80 tokens and a vocabulary of 31, and what `change` makes of it.
modules::TransformerConfig changed(const std::function<void(modules::TransformerConfig&)>& change);

// Models with all that a cache must take into account, by what they have.
std::vector<std::pair<std::string, modules::TransformerConfig>> test_models();

class RandomModel {
 public:
  explicit RandomModel(const modules::TransformerConfig& config, at::ScalarType type = at::kFloat,
                       const modules::LinearFormatsConfig& formats = {});

  Decoder decoder(at::Device device = at::kCPU, bool captures = true,
                  const std::optional<modules::KernelsConfig>& kernels = {}) const;
  Tensor& weight(const std::string& name) { return weights_.at(name); }
  // Computes the whole sequence as training does, and returns the logits [V] after its last token.
  Tensor logits_after(const std::vector<int64_t>& tokens) const;

 private:
  modules::TransformerConfig config_;
  modules::LinearFormatsConfig formats_;
  std::map<std::string, Tensor> weights_;
};

}  // namespace strata::generation
