// SPDX-License-Identifier: MIT
#include "tools/hf/config.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/errors.h"
#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/score_terms.h"
#include "modules/config/layer_patterns.h"
#include "tools/hf/decoder.h"
#include "tools/hf/json_section.h"
#include "tools/hf/timm.h"

namespace strata::hf {
namespace {

using modules::Family;
using modules::TransformerConfig;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

OrderedJson gpt2_config(const TransformerConfig& model) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", model.vocabulary},
          {"n_positions", model.sequence},
          {"n_embd", model.width},
          {"n_layer", model.layers},
          {"n_head", model.heads},
          {"n_inner", model.feed_forward_or_default()},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", model.norm_epsilon},
          {"resid_pdrop", model.dropout},
          {"embd_pdrop", model.dropout},
          {"attn_pdrop", 0.0}};
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
  model.width = json.count("n_embd", kMostWidth);
  model.heads = json.count("n_head", kMostHeads);
  if (json.has("n_inner")) model.feed_forward = json.count("n_inner", kMostFeedForward);
  model.sequence = json.count("n_positions", kMostTokens);
  model.norm_epsilon = json.number("layer_norm_epsilon", configs::kEpsilon);
  return model;
}

constexpr std::array<std::string_view, 22> kHarmless = {
    "architectures", "transformers_version", "_name_or_path", "_commit_hash", "_attn_implementation_autoset",
    "torch_dtype", "dtype", "use_cache", "initializer_range", "attention_dropout", "pretraining_tp",
    "cache_implementation", "output_attentions", "output_hidden_states", "return_dict", "chunk_size_feed_forward",
    "id2label", "label2id",
    // of SmolLM 2, and of copies by Unsloth
    "is_llama_config", "transformers.js_config", "unsloth_fixed", "unsloth_version"};

// No logit depends on these ids, but an export has them again. transformers opens no other file. It counts a negative
// id of padding from the end of the vocabulary, and GPT-2 has no padding in its embedding.
void check_special_tokens(const JsonSection& json, int64_t vocabulary, bool is_gpt2) {
  if (json.has("bos_token_id")) json.integer("bos_token_id");
  if (json.has("eos_token_id")) json.integers("eos_token_id");
  if (!json.has("pad_token_id")) return;
  const int64_t padding = json.integer("pad_token_id");
  if (is_gpt2 || (-vocabulary <= padding && padding < vocabulary)) return;
  throw json.refuse("pad_token_id",
                    "an integer from " + std::to_string(-vocabulary) + " to " + std::to_string(vocabulary - 1));
}

TransformerConfig read_transformers_config(const JsonSection& section) {
  const std::string type = section.text("model_type");
  const Decoder* decoder = find_decoder(type);
  if (type != "gpt2" && decoder == nullptr) {
    throw section.refuse("model_type", "gpt2, llama, mistral, qwen2, qwen3, olmo2, gemma2 or gemma3_text");
  }
  TransformerConfig model = decoder == nullptr ? read_gpt2(section) : read_decoder(section, *decoder);
  model.vocabulary = section.count("vocab_size", kMostTokens);
  section.expect("is_encoder_decoder", false);
  check_special_tokens(section, model.vocabulary, /*is_gpt2=*/decoder == nullptr);
  const bool is_tied = decoder == nullptr || decoder->is_gemma;  // default of files without the key
  model.tied = section.flag("tie_word_embeddings", is_tied);
  if (decoder != nullptr) section.refuse_other_keys(kHarmless);
  if ((model.head_width == 0 && model.width % model.heads != 0) ||
      model.heads % model.key_value_heads_or_default() != 0) {
    throw Error(ExitCode::data, section.path() + ": " + std::to_string(model.heads) +
                                    " heads do not divide the width " + std::to_string(model.width) +
                                    ", or are no multiple of the " +
                                    std::to_string(model.key_value_heads_or_default()) + " key and value heads");
  }
  return model;
}

// The block of GPT-2 has few keys.
void refuse_what_gpt2_lacks(const TransformerConfig& model) {
  const auto expect = [](bool is_right, const std::string& key, const std::string& expected) {
    if (is_right) return;
    throw Error(ExitCode::configuration, "model." + key + ": expected " + expected + ": GPT-2 has no other");
  };
  expect(model.query_width() == model.width, "head_width", "width / heads");
  expect(model.key_value_heads_or_default() == model.heads, "key_value_heads", "as many as heads");
  expect(model.query_key_norm == modules::QueryKeyNorm::none, "query_key_norm", "none");
  expect(model.norm_placement == modules::NormPlacement::before, "norm_placement", "before");
  expect(model.embedding_scale_or_default() == 1, "embedding_scale", "1");
  expect(model.softcap == 0, "softcap", "0");
  expect(model.logit_softcap == 0, "logit_softcap", "0");
  for (const auto& [pattern, layers] : modules::layers_by_pattern(model)) {
    if (pattern.kind == kernels::Pattern::Kind::causal) continue;
    throw Error(ExitCode::configuration, "attention in " + modules::layers_text(layers) + " is " + to_text(pattern) +
                                             ", expected causal: GPT-2 has no other");
  }
}

}  // namespace

std::string write_config(const TransformerConfig& model, const std::string& dtype) {
  if (model.alibi || model.sinks) {
    throw Error(ExitCode::configuration, "the scores of attention have terms (" + to_text(model.score_terms()) +
                                             "), expected none but a softcap: the exported models have no others");
  }
  const bool is_gpt2 = model.family == Family::gpt2;
  if (is_gpt2) refuse_what_gpt2_lacks(model);
  OrderedJson json = is_gpt2 ? gpt2_config(model) : decoder_config(model);
  json["tie_word_embeddings"] = model.tied;
  json["torch_dtype"] = dtype;
  return json.dump(2) + "\n";
}

ImportedModel read_config(const std::string& text, const std::string& path) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    // The message ends with the last word of the file, which may be all of it.
    throw Error(ExitCode::data, path + ": not JSON: " + std::string(error.what()).substr(0, 200));
  }
  const JsonSection section(json, path);
  if (section.has("architecture")) return read_timm_config(section);
  return read_transformers_config(section);
}

}  // namespace strata::hf
