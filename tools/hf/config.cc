// SPDX-License-Identifier: MIT
#include "tools/hf/config.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/errors.h"
#include "configs/value.h"
#include "kernels/attention/pattern/pattern.h"
#include "modules/config/layer_patterns.h"
#include "tools/hf/json_section.h"
#include "tools/hf/timm.h"

namespace strata::hf {
namespace {

using modules::Family;
using modules::RotaryScalingType;
using modules::TransformerConfig;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kMostLayers = 10'000;  // the limit of `model:`

OrderedJson gpt2_config(const TransformerConfig& model) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", model.vocabulary},
          {"n_positions", model.sequence},
          {"n_embd", model.width},
          {"n_layer", model.layers},
          {"n_head", model.heads},
          {"n_inner", model.feed_forward_width()},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", model.norm_epsilon},
          {"resid_pdrop", model.dropout},
          {"embd_pdrop", model.dropout},
          {"attn_pdrop", 0.0}};
}

OrderedJson llama_config(const TransformerConfig& model) {
  OrderedJson json = {{"architectures", {"LlamaForCausalLM"}},
                      {"model_type", "llama"},
                      {"vocab_size", model.vocabulary},
                      {"max_position_embeddings", model.sequence},
                      {"hidden_size", model.width},
                      {"intermediate_size", model.feed_forward_width()},
                      {"num_hidden_layers", model.layers},
                      {"num_attention_heads", model.heads},
                      {"num_key_value_heads", model.key_value_head_count()},
                      {"head_dim", model.width_of_head()},
                      {"hidden_act", "silu"},
                      {"attention_bias", false},
                      {"mlp_bias", false},
                      {"rms_norm_eps", model.norm_epsilon},
                      {"rope_theta", model.rotary_base}};
  const auto& scaling = model.rotary_scaling;
  if (scaling.type == RotaryScalingType::llama3) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", scaling.factor},
                            {"low_freq_factor", scaling.low_frequency},
                            {"high_freq_factor", scaling.high_frequency},
                            {"original_max_position_embeddings", scaling.original_sequence}};
  }
  return json;
}

TransformerConfig read_gpt2(const JsonSection& json) {
  if (json.has("activation_function") && json.text("activation_function") != "gelu_pytorch_tanh") {
    json.expect("activation_function", "gelu_new");
  }
  json.expect("scale_attn_weights", true);
  json.expect("scale_attn_by_inverse_layer_idx", false);
  json.expect("add_cross_attention", false);
  TransformerConfig model;
  model.family = Family::gpt2;
  model.layers = json.count("n_layer", kMostLayers);
  model.width = json.count("n_embd");
  model.heads = json.count("n_head");
  if (json.has("n_inner")) model.feed_forward = json.count("n_inner");
  model.sequence = json.count("n_positions");
  model.norm_epsilon = json.positive("layer_norm_epsilon");
  return model;
}

// transformers up to version 4 writes rope_theta and rope_scaling; from version 5 on, both are in rope_parameters.
void read_rotary(const JsonSection& json, TransformerConfig& model) {
  const bool together = json.has("rope_parameters");
  if (together || json.has("rope_theta")) {
    model.rotary_base = (together ? json.section("rope_parameters") : json).positive("rope_theta");
  }
  if (!together && !json.has("rope_scaling")) return;
  const JsonSection scaling = json.section(together ? "rope_parameters" : "rope_scaling");
  const char* key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string type = scaling.text(key);
  if (type == "default") return;
  if (type != "llama3") throw scaling.refuse(key, "default or llama3");
  model.rotary_scaling.type = RotaryScalingType::llama3;
  model.rotary_scaling.factor = scaling.positive("factor");
  model.rotary_scaling.low_frequency = scaling.positive("low_freq_factor");
  model.rotary_scaling.high_frequency = scaling.positive("high_freq_factor");
  model.rotary_scaling.original_sequence = scaling.count("original_max_position_embeddings");
}

// The width of a head is a key of its own where it is not width / heads.
void read_heads(const JsonSection& json, TransformerConfig& model) {
  model.heads = json.count("num_attention_heads");
  if (json.has("num_key_value_heads")) model.key_value_heads = json.count("num_key_value_heads");
  const int64_t width = json.has("head_dim") ? json.count("head_dim") : 0;
  if (width * model.heads != model.width) model.head_width = width;
}

TransformerConfig read_llama(const JsonSection& json) {
  json.expect("hidden_act", "silu");
  json.expect("attention_bias", false);
  json.expect("mlp_bias", false);
  TransformerConfig model;
  model.family = Family::llama;
  model.layers = json.count("num_hidden_layers", kMostLayers);
  model.width = json.count("hidden_size");
  model.feed_forward = json.count("intermediate_size");
  model.sequence = json.count("max_position_embeddings");
  model.norm_epsilon = json.positive("rms_norm_eps");
  read_heads(json, model);
  read_rotary(json, model);
  return model;
}

TransformerConfig read_transformers_config(const JsonSection& section) {
  const std::string type = section.text("model_type");
  if (type != "gpt2" && type != "llama") throw section.refuse("model_type", "gpt2 or llama");
  TransformerConfig model = type == "gpt2" ? read_gpt2(section) : read_llama(section);
  model.vocabulary = section.count("vocab_size");
  model.tied = section.flag("tie_word_embeddings", /*otherwise=*/type == "gpt2");
  if ((model.head_width == 0 && model.width % model.heads != 0) || model.heads % model.key_value_head_count() != 0) {
    throw Error(ExitCode::storage, section.path() + ": " + std::to_string(model.heads) +
                                       " heads do not divide the width " + std::to_string(model.width) +
                                       ", or are no multiple of the " + std::to_string(model.key_value_head_count()) +
                                       " key and value heads");
  }
  return model;
}

void refuse_what_no_export_has(const TransformerConfig& model) {
  const auto refuse = [](const std::string& key, const std::string& value, const std::string& expected) {
    throw Error(ExitCode::configuration, "model." + key + " is " + value + ", expected " + expected);
  };
  if (model.family == Family::gpt2 && model.width_of_heads() != model.width) {
    refuse("head_width", std::to_string(model.head_width), "none: in GPT-2 heads are as wide as width / heads");
  }
  if (model.qkv_biases) refuse("qkv_biases", "true", "false: in Llama no projection has biases");
  if (model.query_key_norm != modules::QueryKeyNorm::none) {
    refuse("query_key_norm", "set", "none: Llama and GPT-2 have no such norms");
  }
  if (modules::layers_by_rotary(model).size() > 1 || model.rotary_scaling.type == RotaryScalingType::linear ||
      model.rotary_scaling.type == RotaryScalingType::yarn) {
    refuse("rotary_scaling", "linear or yarn, or layers differ", "none or llama3 in all layers");
  }
  if (model.gate != modules::Gate::silu) refuse("gate", "gelu_tanh", "silu: the exported models have no other");
  if (model.embedding_scale != 1.0) refuse("embedding_scale", "not 1", "1: the exported models have no factor");
  if (model.norm_placement != modules::NormPlacement::before) {
    refuse("norm_placement", "after or both", "before: the exported models have norms there only");
  }
}

}  // namespace

std::string write_config(const TransformerConfig& model) {
  refuse_what_no_export_has(model);
  for (const auto& [pattern, layers] : modules::layers_by_pattern(model)) {
    if (pattern.kind == kernels::Pattern::Kind::causal) continue;
    throw Error(ExitCode::configuration, "attention in " + modules::layers_text(layers) + " is " + to_text(pattern) +
                                             ", expected causal: the exported models have no other");
  }
  OrderedJson json = model.family == Family::gpt2 ? gpt2_config(model) : llama_config(model);
  json["tie_word_embeddings"] = model.tied;
  json["torch_dtype"] = "float32";
  return json.dump(2) + "\n";
}

ImportedModel read_config(const std::string& text, const std::string& path) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    // The message ends with the last word of the file, which may be all of it.
    throw Error(ExitCode::storage, path + ": not JSON: " + std::string(error.what()).substr(0, 200));
  }
  const JsonSection section(json, path);
  if (section.has("architecture")) return read_timm_config(section);
  return read_transformers_config(section);
}

std::string model_section(const TransformerConfig& model) {
  std::ostringstream text;
  text << "model: {type: transformer, family: " << names(model.family)[static_cast<size_t>(model.family)]
       << ", layers: " << model.layers << ", width: " << model.width << ", heads: " << model.heads;
  if (model.key_value_heads != 0) text << ", key_value_heads: " << model.key_value_heads;
  if (model.head_width != 0) text << ", head_width: " << model.head_width;
  text << ", feed_forward: " << model.feed_forward << ", sequence: " << model.sequence
       << ", vocabulary: " << model.vocabulary << ", tied: " << (model.tied ? "true" : "false")
       << ", norm_epsilon: " << configs::text_of(model.norm_epsilon);
  if (model.family == Family::llama) text << ", rotary_base: " << configs::text_of(model.rotary_base);
  const auto& scaling = model.rotary_scaling;
  if (scaling.type == RotaryScalingType::llama3) {
    text << ", rotary_scaling: {type: llama3, factor: " << configs::text_of(scaling.factor)
         << ", low_frequency: " << configs::text_of(scaling.low_frequency)
         << ", high_frequency: " << configs::text_of(scaling.high_frequency)
         << ", original_sequence: " << scaling.original_sequence << "}";
  }
  text << "}\n";
  return text.str();
}

}  // namespace strata::hf
