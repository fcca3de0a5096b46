// SPDX-License-Identifier: MIT
#include "tools/hf/names.h"

#include <algorithm>
#include <string_view>

#include "base/errors.h"
#include "modules/config/module_name.h"
#include "tools/hf/decoder.h"
#include "trainer/tasks/declared_model.h"

namespace strata::hf {
namespace {

using modules::Family;
using modules::TransformerConfig;

struct Rule {
  std::string_view ours;
  std::vector<std::string_view> theirs;  // several: the parameter is split by rows
  bool transposed = false;               // GPT-2 stores the weights of its Conv1D as [in, out]
};

// Strata's prefix `blocks.3.` is `h.3.` or `layers.3.` in Hugging Face's files; these rules give the rest of the name.
std::vector<Rule> rules(const TransformerConfig& config) {
  if (config.family == Family::gpt2) {
    return {{"embedding", {"transformer.wte"}},
            {"position", {"transformer.wpe"}},
            {"norm", {"transformer.ln_f"}},
            {"head", {"lm_head"}},
            {"norm1", {"ln_1"}},
            {"attention.qkv", {"attn.c_attn"}, true},
            {"attention.output", {"attn.c_proj"}, true},
            {"norm2", {"ln_2"}},
            {"mlp.up", {"mlp.c_fc"}, true},
            {"mlp.down", {"mlp.c_proj"}, true}};
  }
  // Where attention ends in a norm, that norm has the name which others give to the norm before the MLP.
  const bool ends_in_norm = config.norm_placement != modules::NormPlacement::before;
  return {{"embedding", {"model.embed_tokens"}},
          {"norm", {"model.norm"}},
          {"head", {"lm_head"}},
          {"norm1", {"input_layernorm"}},
          {"attention.qkv", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
          {"attention.query_norm", {"self_attn.q_norm"}},
          {"attention.key_norm", {"self_attn.k_norm"}},
          {"attention.output", {"self_attn.o_proj"}},
          {"attention_norm", {"post_attention_layernorm"}},
          {"norm2", {ends_in_norm ? "pre_feedforward_layernorm" : "post_attention_layernorm"}},
          {"mlp.gate_up", {"mlp.gate_proj", "mlp.up_proj"}},
          {"mlp.down", {"mlp.down_proj"}},
          {"mlp_norm", {"post_feedforward_layernorm"}}};
}

// Returns the rows of each part of a parameter that Hugging Face stores as several tensors.
std::vector<int64_t> rows_of_parts(const TransformerConfig& config, size_t parts, int64_t rows) {
  if (parts == 1) return {rows};
  if (parts == 2) return {rows / 2, rows / 2};
  const int64_t queries = config.heads * config.head_width_or_default();
  const int64_t keys = config.key_value_heads_or_default() * config.head_width_or_default();
  return {queries, keys, keys};
}

Parameter describe(const modules::Parameter& parameter, const TransformerConfig& config,
                   const std::vector<Rule>& rules) {
  std::string_view name = parameter.name;
  std::string prefix;
  if (const auto layer = modules::layer_of(name)) {
    prefix = (config.family == Family::gpt2 ? "transformer.h." : "model.layers.") + std::to_string(*layer) + ".";
    name = modules::name_in_layer(name);
  }
  const size_t dot = name.rfind('.');
  const std::string_view kind = name.substr(dot);  // ".weight" or ".bias"
  for (const Rule& rule : rules) {
    if (rule.ours != name.substr(0, dot)) continue;
    Parameter result{parameter.name, parameter.shape, rule.transposed && parameter.shape.size() == 2, {}};
    const auto rows = rows_of_parts(config, rule.theirs.size(), parameter.shape[0]);
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<int64_t> shape = parameter.shape;
      shape[0] = rows[i];
      if (result.transposed) std::reverse(shape.begin(), shape.end());
      result.parts.push_back({prefix + std::string(rule.theirs[i]).append(kind), shape, rows[i]});
    }
    return result;
  }
  throw Error(ExitCode::internal, parameter.name + " has no name in Hugging Face's folders");
}

}  // namespace

std::vector<Parameter> parameters(const TransformerConfig& config) {
  const std::vector<Rule> names = rules(config);
  const bool is_gemma = config.family != Family::gpt2 && decoder_of(config).is_gemma;
  std::vector<Parameter> all;
  for (const auto& group : trainer::declared_groups({.type = config})) {
    for (const auto& parameter : group.parameters) {
      all.push_back(describe(parameter, config, names));
      const bool is_norm = parameter.name.find("norm") != std::string::npos;
      if (is_gemma && is_norm) all.back().added = 1;
    }
  }
  return all;
}

bool is_redundant(const std::string& name, bool tied) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq") || (tied && name == "lm_head.weight");
}

}  // namespace strata::hf
