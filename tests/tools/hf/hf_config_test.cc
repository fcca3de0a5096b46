// SPDX-License-Identifier: MIT
// Checks which config.json of transformers is which model: keys that files have in practice, the meaning of absent
// keys, and what is refused, word for word.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "tools/hf/config.h"

namespace strata::hf {
namespace {

using modules::TransformerConfig;
using Json = nlohmann::json;

// A small file of this family, with the keys that its files have.
Json file_of(const std::string& type) {
  Json json = {{"model_type", type},       {"vocab_size", 40},         {"max_position_embeddings", 16},
               {"hidden_size", 24},        {"intermediate_size", 20},  {"num_hidden_layers", 3},
               {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"rms_norm_eps", 1e-6}};
  if (type == "mistral") json["sliding_window"] = 5;
  if (type == "gpt2") {
    json.update({{"n_positions", 16}, {"n_embd", 24}, {"n_layer", 3}, {"n_head", 4}, {"layer_norm_epsilon", 1e-6}});
  }
  const bool is_gemma = type.starts_with("gemma");
  if (type == "qwen3" || is_gemma) json["head_dim"] = 10;
  if (type == "gemma2") json.update({{"attn_logit_softcapping", 50.0}, {"final_logit_softcapping", 30.0}});
  if (is_gemma) json.update({{"query_pre_attn_scalar", 10}, {"sliding_window", 5}});
  return json;
}

Json with(Json json, const Json& changes) {
  json.update(changes);
  return json;
}

TransformerConfig read(const Json& json) {
  return std::get<TransformerConfig>(read_config(json.dump(), "config.json"));
}

std::string refusal_of(const Json& json) {
  try {
    read(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
  return "accepted";
}

TEST(HfConfig, KeysThatSayNothingAboutTheComputationAreAccepted) {
  const Json qwen =
      with(file_of("qwen2"), {{"use_mrope", false}, {"max_window_layers", 24}, {"sliding_window", 32768}});
  EXPECT_EQ(read(qwen).attention, "causal");
  const Json small =
      with(file_of("llama"),
           {{"is_llama_config", true}, {"rope_interleaved", false}, {"transformers.js_config", {{"dtype", "q4"}}}});
  EXPECT_EQ(read(small).layers, 3);
  EXPECT_EQ(read(with(file_of("gemma3_text"), {{"unsloth_fixed", true}, {"final_logit_softcapping", nullptr}})).layers,
            3);
}

TEST(HfConfig, IdsOfSpecialTokensAreThoseThatTransformersOpens) {
  for (const char* type : {"gpt2", "llama"}) {
    const auto of = [&](const char* key, const Json& value) { return refusal_of(with(file_of(type), {{key, value}})); };
    for (const Json& padding : {Json(-1), Json(-40), Json(39), Json(nullptr)}) {
      EXPECT_EQ(of("pad_token_id", padding), "accepted") << type << padding;
    }
    EXPECT_EQ(of("eos_token_id", Json::array({1, 99})), "accepted");
    EXPECT_EQ(of("bos_token_id", -5), "accepted");
    EXPECT_EQ(of("eos_token_id", "</s>"), "config.json: eos_token_id: expected an integer, got \"</s>\"");
    EXPECT_EQ(of("eos_token_id", Json::array({1, 1.5})),
              "config.json: eos_token_id: expected a list of integers, got an array");
    EXPECT_EQ(of("bos_token_id", 18446744073709551615U),
              "config.json: bos_token_id: expected an integer, got 18446744073709551615");
    EXPECT_EQ(of("pad_token_id", Json::array({1})), "config.json: pad_token_id: expected an integer, got an array");
    EXPECT_EQ(of("is_encoder_decoder", false), "accepted");
    EXPECT_EQ(of("is_encoder_decoder", true),
              "config.json: is_encoder_decoder: expected false, because Strata supports no other value, got true");
  }
  for (const int64_t padding : {-41, 40}) {
    const Json change = {{"pad_token_id", padding}};
    EXPECT_EQ(refusal_of(with(file_of("gpt2"), change)), "accepted");
    EXPECT_EQ(refusal_of(with(file_of("llama"), change)),
              "config.json: pad_token_id: expected an integer from -40 to 39, got " + std::to_string(padding));
  }
}

TEST(HfConfig, WhatAbsentKeysWouldMeanIsAskedFor) {
  Json gemma = file_of("gemma3_text"), qwen = file_of("qwen3");
  gemma.erase("sliding_window");
  EXPECT_EQ(refusal_of(gemma), "config.json: sliding_window is missing");
  EXPECT_EQ(refusal_of(with(gemma, {{"sliding_window", nullptr}})), "config.json: sliding_window is missing");
  EXPECT_EQ(refusal_of(with(qwen, {{"use_sliding_window", true}})),
            "config.json: sliding_window: expected a positive integer or null, got nothing");
  qwen.erase("head_dim");
  EXPECT_EQ(refusal_of(qwen), "config.json: head_dim is missing");
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    Json capped = file_of("gemma2");
    capped.erase(key);
    EXPECT_EQ(refusal_of(capped),
              "config.json: " + std::string(key) + ": expected a positive number or null, got nothing");
  }
}

TEST(HfConfig, CapsAreThoseOfTransformers) {
  const TransformerConfig model = read(file_of("gemma2"));
  EXPECT_EQ(model.softcap, 50);
  EXPECT_EQ(model.logit_softcap, 30);
  EXPECT_NE(model_section(model).find(", softcap: 50, "), std::string::npos) << model_section(model);
  EXPECT_NE(model_section(model).find(", logit_softcap: 30, "), std::string::npos) << model_section(model);
  const Json none = {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}};
  const TransformerConfig without = read(with(file_of("gemma2"), none));
  EXPECT_EQ(without.softcap, 0);
  EXPECT_EQ(without.logit_softcap, 0);
  const Json written = Json::parse(write_config(without, "float32"));
  EXPECT_EQ(written["model_type"], "gemma2");
  for (const auto& [key, value] : none.items()) EXPECT_TRUE(written.contains(key) && written[key].is_null()) << key;
}

TEST(HfConfig, WindowsAreThoseOfTransformers) {
  const Json older = file_of("gemma2");
  EXPECT_EQ(read(older).attention_of(0), "causal & window(5)");
  EXPECT_EQ(read(older).attention_of(1), "causal");
  EXPECT_EQ(read(older).attention_of(2), "causal & window(5)");
  const Json gemma = with(file_of("gemma3_text"), {{"sliding_window_pattern", 2}});
  EXPECT_EQ(read(gemma).attention_of(0), "causal & window(5)");
  EXPECT_EQ(read(gemma).attention_of(1), "causal");
  EXPECT_EQ(read(gemma).rotary_of(0).base, 1e4);
  EXPECT_EQ(read(gemma).rotary_of(1).base, 1e6);
  const Json qwen =
      with(file_of("qwen2"), {{"use_sliding_window", true}, {"sliding_window", 5}, {"max_window_layers", 2}});
  EXPECT_EQ(read(qwen).attention_of(1), "causal");
  EXPECT_EQ(read(qwen).attention_of(2), "causal & window(5)");
  EXPECT_EQ(read(with(qwen, {{"sliding_window", nullptr}})).attention_of(2), "causal");
  const Json types = {{"layer_types", {"full_attention", "sliding_attention", "full_attention"}}};
  EXPECT_EQ(read(with(qwen, types)).attention_of(1), "causal & window(5)");
  EXPECT_EQ(
      refusal_of(with(with(qwen, types), {{"use_sliding_window", false}})),
      "config.json: layer_types: expected full_attention, because use_sliding_window is false or sliding_window is "
      "null, got an array");
}

TEST(HfConfig, OfTwoRotarySectionsTheOlderHolds) {
  const Json newer = {{"rope_theta", 77.0}, {"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}}};
  const modules::Rotary one = read(with(file_of("llama"), newer)).rotary_of(0);
  EXPECT_EQ(one.base, 77);
  EXPECT_EQ(one.scaling.factor, 2);
  const Json older = {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}};
  const modules::Rotary other = read(with(with(file_of("llama"), newer), older)).rotary_of(0);
  EXPECT_EQ(other.base, 77);
  EXPECT_EQ(other.scaling.factor, 4);
  EXPECT_EQ(read(with(file_of("llama"), {{"rope_parameters", {{"rope_theta", 5.0}}}})).rotary_of(0).base, 5);
}

TEST(HfConfig, AScalingOfGemmaIsThatOfLayersWithoutAWindow) {
  const Json scaling = {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  const TransformerConfig model = read(with(with(file_of("gemma3_text"), {{"sliding_window_pattern", 2}}), scaling));
  EXPECT_EQ(model.rotary_of(0), (modules::Rotary{1e4}));
  EXPECT_EQ(model.rotary_of(1), (modules::Rotary{1e6, {.type = modules::RotaryScalingType::linear, .factor = 8}}));
}

TEST(HfConfig, WhatIsWrittenIsReadAgain) {
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "olmo2", "gemma2", "gemma3_text"}) {
    const TransformerConfig model = read(file_of(type));
    const std::string text = write_config(model, "float32");
    EXPECT_EQ(Json::parse(text)["model_type"], type);
    EXPECT_EQ(model_section(read(Json::parse(text))), model_section(model));
    // Without these keys transformers has ids of another tokenizer, and no gradient for its padding token.
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      EXPECT_TRUE(Json::parse(text).contains(key) && Json::parse(text)[key].is_null()) << type << " " << key;
    }
  }
}

TEST(HfConfig, AGemmaWithoutWindowsHasTheSizeOfOne) {
  const Json types = {{"layer_types", {"full_attention", "full_attention", "full_attention"}}};
  const TransformerConfig model = read(with(file_of("gemma3_text"), types));
  const Json written = Json::parse(write_config(model, "float32"));
  EXPECT_EQ(written["sliding_window"], 16);
  EXPECT_EQ(model_section(read(written)), model_section(model));
}

// transformers has no other family that computes it, so it is written as one that computes the same.
TEST(HfConfig, HeadsThatDoNotDivideTheWidthMakeALlamaAMistral) {
  const TransformerConfig model =
      read(with(file_of("mistral"), {{"hidden_size", 25}, {"head_dim", 6}, {"sliding_window", nullptr}}));
  const Json written = Json::parse(write_config(model, "float32"));
  EXPECT_EQ(written["model_type"], "mistral");
  EXPECT_TRUE(written["sliding_window"].is_null());
}

std::string export_refusal_of(const TransformerConfig& model) {
  try {
    write_config(model, "float32");
  } catch (const Error& error) {
    return error.what();
  }
  return "written";
}

TEST(HfConfig, AnExportSaysForEachFamilyWhatDiffers) {
  TransformerConfig model = read(file_of("qwen3"));
  model.qkv_biases = true;
  EXPECT_EQ(export_refusal_of(model),
            "no model of transformers has this block:\n"
            "  llama: model.qkv_biases is true, expected false\n"
            "  mistral: model.qkv_biases is true, expected false\n"
            "  qwen2: model.query_key_norm is head, expected none\n"
            "  qwen3: model.qkv_biases is true, expected false\n"
            "  olmo2: model.qkv_biases is true, expected false\n"
            "  gemma2: model.qkv_biases is true, expected false\n"
            "  gemma3_text: model.qkv_biases is true, expected false");
}

TEST(HfConfig, AnExportNamesTheKey) {
  struct Case {
    const char* type;
    void (*change)(TransformerConfig& model);
    const char* expected;
  };
  const std::vector<Case> cases = {
      {"gemma3_text", [](TransformerConfig& model) { model.embedding_scale = 1; },
       "gemma3_text: model.embedding_scale is 1.000000, expected sqrt_width"},
      {"gemma3_text", [](TransformerConfig& model) { model.gate = modules::Gate::silu; },
       "gemma3_text: model.gate is silu, expected gelu_tanh"},
      {"gemma3_text", [](TransformerConfig& model) { model.width = 25; },
       "gemma3_text: model.heads is 4, expected a divisor of width 25"},
      {"gemma3_text", [](TransformerConfig& model) { model.logit_softcap = 30; },
       "gemma3_text: model.logit_softcap is 30, expected 0"},
      {"llama", [](TransformerConfig& model) { model.rotary_fraction = 0.5; },
       "llama: model.rotary_fraction is 0.5, expected 1"},
      {"llama", [](TransformerConfig& model) { model.softcap = 50; }, "llama: model.softcap is 50, expected 0"},
      {"gemma2", [](TransformerConfig& model) { model.sinks = true; },
       "the scores of attention have terms (softcap 50, sinks), expected none but a softcap"},
      {"olmo2", [](TransformerConfig& model) { model.norm_placement = modules::NormPlacement::both; },
       "olmo2: model.norm_placement is both, expected after"},
      {"mistral",
       [](TransformerConfig& model) {
         model.layer_overrides = {{.only = {1, 1}, .attention = "causal"}};
       },
       "mistral: attention in layer 1 is causal, expected causal or causal & window(n), the same in all layers"},
      {"qwen3",
       [](TransformerConfig& model) {
         model.layer_overrides = {{.only = {0, 0}, .attention = "causal & window(2)"},
                                  {.only = {2, 2}, .attention = "causal & window(3)"}};
       },
       "qwen3: attention in layer 2 is causal & window(3), expected causal, or causal & window(n) with the same n"},
      {"qwen3",
       [](TransformerConfig& model) {
         model.layer_overrides = {{.only = {1, 1}, .rotary_base = 7}};
       },
       "qwen3: rotary positions of layer 1 differ, expected the same in all layers"},
  };
  for (const auto& [type, change, expected] : cases) {
    TransformerConfig model = read(file_of(type));
    change(model);
    EXPECT_NE(export_refusal_of(model).find(expected), std::string::npos) << export_refusal_of(model);
  }
}

TEST(HfConfig, AnExportOfGpt2NamesTheKey) {
  TransformerConfig model = {
      .family = modules::Family::gpt2, .layers = 2, .width = 24, .heads = 3, .sequence = 16, .vocabulary = 40};
  EXPECT_EQ(export_refusal_of(model), "written");
  model.logit_softcap = 30;
  EXPECT_EQ(export_refusal_of(model), "model.logit_softcap: expected 0: GPT-2 has no other");
  model.softcap = 50;
  EXPECT_EQ(export_refusal_of(model), "model.softcap: expected 0: GPT-2 has no other");
  model.embedding_scale.reset();
  EXPECT_EQ(export_refusal_of(model), "model.embedding_scale: expected 1: GPT-2 has no other");
  model.norm_placement = modules::NormPlacement::after;
  EXPECT_EQ(export_refusal_of(model), "model.norm_placement: expected before: GPT-2 has no other");
  model.query_key_norm = modules::QueryKeyNorm::head;
  EXPECT_EQ(export_refusal_of(model), "model.query_key_norm: expected none: GPT-2 has no other");
  model.key_value_heads = 1;
  EXPECT_EQ(export_refusal_of(model), "model.key_value_heads: expected as many as heads: GPT-2 has no other");
  model.head_width = 6;
  EXPECT_EQ(export_refusal_of(model), "model.head_width: expected width / heads: GPT-2 has no other");
}

}  // namespace
}  // namespace strata::hf
