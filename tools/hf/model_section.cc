// SPDX-License-Identifier: MIT
// Writes the model of an import as YAML.
#include <sstream>

#include "base/text/word_of.h"
#include "configs/value.h"
#include "tools/hf/config.h"

namespace strata::hf {
namespace {

using modules::Family;
using modules::RotaryScaling;
using modules::RotaryScalingType;
using modules::TransformerConfig;

// Returns ", rotary_scaling: {...}" with the keys that differ from their defaults, or nothing.
std::string scaling_text(const RotaryScaling& scaling) {
  if (scaling.type == RotaryScalingType::none) return "";
  const RotaryScaling usual;
  std::string text = ", rotary_scaling: {type: " + word_of(scaling.type);
  const auto add = [&](const char* key, auto value, auto otherwise) {
    if (value != otherwise) text += std::string(", ") + key + ": " + configs::to_text(value);
  };
  add("factor", scaling.factor, usual.factor);
  add("low_frequency", scaling.low_frequency, usual.low_frequency);
  add("high_frequency", scaling.high_frequency, usual.high_frequency);
  add("original_sequence", scaling.original_sequence, usual.original_sequence);
  add("beta_fast", scaling.beta_fast, usual.beta_fast);
  add("beta_slow", scaling.beta_slow, usual.beta_slow);
  add("attention_factor", scaling.attention_factor, usual.attention_factor);
  return text + "}";
}

std::string layers_section(const TransformerConfig& model) {
  std::string text;
  for (const modules::LayerConfig& layer : model.layer_overrides) {
    text += std::string(text.empty() ? "layers: [" : ", ") + "{only: " + configs::to_text(layer.only);
    if (layer.attention) text += ", attention: " + *layer.attention;
    if (layer.rotary_base) text += ", rotary_base: " + configs::to_text(*layer.rotary_base);
    text += scaling_text(layer.rotary_scaling) + "}";
  }
  return text.empty() ? "" : text + "]\n";
}

}  // namespace

std::string model_section(const TransformerConfig& model) {
  std::ostringstream text;
  text << "model: {type: transformer, family: " << word_of(model.family) << ", layers: " << model.layers
       << ", width: " << model.width << ", heads: " << model.heads;
  if (model.key_value_heads != 0) text << ", key_value_heads: " << model.key_value_heads;
  if (model.head_width != 0) text << ", head_width: " << model.head_width;
  if (model.qkv_biases) text << ", qkv_biases: true";
  if (model.query_key_norm != modules::QueryKeyNorm::none) {
    text << ", query_key_norm: " << word_of(model.query_key_norm);
  }
  text << ", feed_forward: " << model.feed_forward;
  if (model.gate != modules::Gate::silu) text << ", gate: " << word_of(model.gate);
  text << ", sequence: " << model.sequence;
  if (model.attention != "causal") text << ", attention: " << model.attention;
  if (model.softcap != 0) text << ", softcap: " << configs::to_text(model.softcap);
  text << ", vocabulary: " << model.vocabulary << ", tied: " << (model.tied ? "true" : "false");
  if (!model.embedding_scale) text << ", embedding_scale: sqrt_width";
  if (model.logit_softcap != 0) text << ", logit_softcap: " << configs::to_text(model.logit_softcap);
  if (model.norm_placement != modules::NormPlacement::before) {
    text << ", norm_placement: " << word_of(model.norm_placement);
  }
  text << ", norm_epsilon: " << configs::to_text(model.norm_epsilon);
  if (model.family == Family::llama) text << ", rotary_base: " << configs::to_text(model.rotary_base);
  text << scaling_text(model.rotary_scaling) << "}\n" << layers_section(model);
  return text.str();
}

}  // namespace strata::hf
