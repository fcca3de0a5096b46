// SPDX-License-Identifier: MIT
// Names and shapes of timm's parameters, which follow from the model that Strata's constructors declare.
#include <array>
#include <string_view>
#include <utility>

#include "tools/hf/timm.h"
#include "trainer/tasks/declared_model.h"

namespace strata::hf {
namespace {

using modules::VisionTransformerConfig;

std::string replaced(std::string name, std::string_view from, std::string_view to) {
  const size_t at = name.find(from);
  return at == std::string::npos ? name : name.replace(at, from.size(), to);
}

std::string timm_name(std::string name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames = {
      {{"patch_embedding.", "patch_embed.proj."},
       {"class_token.weight", "cls_token"},
       {"position.weight", "pos_embed"},
       {".attention.qkv.", ".attn.qkv."},
       {".attention.output.", ".attn.proj."},
       {".attention_scale.weight", ".ls1.gamma"},
       {".mlp.up.", ".mlp.fc1."},
       {".mlp.down.", ".mlp.fc2."},
       {".mlp_scale.weight", ".ls2.gamma"}}};
  for (const auto& [ours, theirs] : kNames) name = replaced(std::move(name), ours, theirs);
  return name;
}

std::vector<int64_t> timm_shape(const modules::Parameter& parameter, const VisionTransformerConfig& config) {
  if (parameter.name == "patch_embedding.weight") return {config.width, config.channels, config.patch, config.patch};
  if (parameter.name == "class_token.weight") return {1, 1, config.width};
  if (parameter.name == "position.weight") return {1, config.tokens(), config.width};
  return parameter.shape;
}

}  // namespace

std::vector<Parameter> parameters(const VisionTransformerConfig& config) {
  std::vector<Parameter> all;
  for (const auto& group : trainer::declared_groups({.type = config})) {
    for (const auto& parameter : group.parameters) {
      const FileTensor part = {timm_name(parameter.name), timm_shape(parameter, config), parameter.shape[0]};
      all.push_back({parameter.name, parameter.shape, /*transposed=*/false, {part}});
    }
  }
  return all;
}

}  // namespace strata::hf
