// SPDX-License-Identifier: MIT
#include "tools/hf/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/text/word_of.h"
#include "configs/value.h"
#include "modules/config/layer_patterns.h"
#include "tools/hf/rotary.h"

namespace strata::hf {
namespace {

using kernels::Pattern;
using modules::Gate;
using modules::NormPlacement;
using modules::QueryKeyNorm;
using modules::TransformerConfig;
using Windows = Decoder::Windows;
using OrderedJson = nlohmann::ordered_json;

constexpr std::array<Decoder, 7> kDecoders = {{
    {.type = "llama", .architecture = "LlamaForCausalLM", .heads_divide_width = true},
    {.type = "mistral", .architecture = "MistralForCausalLM", .windows = Windows::all_layers},
    {.type = "qwen2", .architecture = "Qwen2ForCausalLM", .windows = Windows::some_layers, .qkv_biases = true},
    {.type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .windows = Windows::some_layers,
     .query_key_norm = QueryKeyNorm::head},
    {.type = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .query_key_norm = QueryKeyNorm::whole,
     .norm_placement = NormPlacement::after},
    {.type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .windows = Windows::some_layers,
     .heads_divide_width = true,
     .norm_placement = NormPlacement::both,
     .is_gemma = true,
     .has_softcaps = true,
     .window_period = 2},
    {.type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .windows = Windows::some_layers,
     .heads_divide_width = true,
     .query_key_norm = QueryKeyNorm::head,
     .norm_placement = NormPlacement::both,
     .is_gemma = true,
     .has_rotary_by_windows = true,
     .window_period = 6},
}};

std::string differs(const std::string& key, const std::string& value, const std::string& expected) {
  return "model." + key + " is " + value + ", expected " + expected;
}

// Returns n of `causal & window(n)`, 0 of `causal`, and nothing of other patterns.
std::optional<int64_t> window_of(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::causal) return 0;
  if (pattern.kind != Pattern::Kind::both || pattern.parts.size() != 2) return std::nullopt;
  const bool first = pattern.parts[0].kind == Pattern::Kind::causal;
  const Pattern &causal = pattern.parts[first ? 0 : 1], &window = pattern.parts[first ? 1 : 0];
  if (causal.kind != Pattern::Kind::causal || window.kind != Pattern::Kind::window) return std::nullopt;
  return window.n;
}

std::string expected_patterns(Windows windows) {
  switch (windows) {
    case Windows::none:
      return "causal";
    case Windows::all_layers:
      return "causal or causal & window(n), the same in all layers";
    case Windows::some_layers:
      return "causal, or causal & window(n) with the same n";
  }
  return {};
}

// The window of each layer, 0 without one.
std::vector<int64_t> windows_of(const TransformerConfig& model) {
  std::vector<int64_t> windows(static_cast<size_t>(model.layers));
  for (const auto& [pattern, layers] : modules::layers_by_pattern(model)) {
    for (const int64_t layer : layers) windows[static_cast<size_t>(layer)] = window_of(pattern).value_or(0);
  }
  return windows;
}

std::string problem_of_patterns(const TransformerConfig& model, Windows windows) {
  std::optional<int64_t> shared;  // the window that other layers must have too
  for (const auto& [pattern, layers] : modules::layers_by_pattern(model)) {
    const std::optional<int64_t> window = window_of(pattern);
    const bool is_known = window && (*window == 0 || windows != Windows::none);
    const bool is_free = window == 0 && windows != Windows::all_layers;
    if (!is_known || (!is_free && shared && window != shared)) {
      return "attention in " + modules::layers_text(layers) + " is " + to_text(pattern) + ", expected " +
             expected_patterns(windows);
    }
    if (!is_free) shared = window;
  }
  return "";
}

// The rotary positions of layers with a window, and of layers without one. If all layers are of one kind, the other
// kind has the same.
RotaryPair rotary_pair_of(const TransformerConfig& model) {
  const std::vector<int64_t> windows = windows_of(model);
  RotaryPair pair = {model.rotary_of(0), model.rotary_of(0)};
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    (windows[static_cast<size_t>(layer)] != 0 ? pair.sliding : pair.full) = model.rotary_of(layer);
  }
  return pair;
}

std::string problem_of_rotary(const TransformerConfig& model, bool by_windows) {
  const RotaryPair pair = rotary_pair_of(model);
  const std::vector<int64_t> windows = windows_of(model);
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const bool slides = windows[static_cast<size_t>(layer)] != 0;
    const modules::Rotary expected = !by_windows ? model.rotary_of(0) : slides ? pair.sliding : pair.full;
    if (model.rotary_of(layer) == expected) continue;
    return "rotary positions of layer " + std::to_string(layer) + " differ, expected the same in all layers" +
           (by_windows ? " with a window, and the same in all others" : "");
  }
  return "";
}

std::string problem_of(const Decoder& decoder, const TransformerConfig& model) {
  const Gate gate = decoder.is_gemma ? Gate::gelu_tanh : Gate::silu;
  const double scale = decoder.is_gemma ? std::sqrt(static_cast<double>(model.width)) : 1;
  if (model.qkv_biases != decoder.qkv_biases) {
    return differs("qkv_biases", model.qkv_biases ? "true" : "false", decoder.qkv_biases ? "true" : "false");
  }
  if (model.query_key_norm != decoder.query_key_norm) {
    return differs("query_key_norm", word_of(model.query_key_norm), word_of(decoder.query_key_norm));
  }
  if (model.norm_placement != decoder.norm_placement) {
    return differs("norm_placement", word_of(model.norm_placement), word_of(decoder.norm_placement));
  }
  if (decoder.heads_divide_width && model.width % model.heads != 0) {
    return differs("heads", std::to_string(model.heads), "a divisor of width " + std::to_string(model.width));
  }
  if (model.gate != gate) return differs("gate", word_of(model.gate), word_of(gate));
  if (model.embedding_scale_or_default() != scale) {
    return differs("embedding_scale", std::to_string(model.embedding_scale_or_default()),
                   decoder.is_gemma ? "sqrt_width" : "1");
  }
  for (const auto& [key, cap] : {std::pair{"softcap", model.softcap}, {"logit_softcap", model.logit_softcap}}) {
    if (cap != 0 && !decoder.has_softcaps) return differs(key, configs::to_text(cap), "0");
  }
  if (model.rotary_fraction != 1) return differs("rotary_fraction", configs::to_text(model.rotary_fraction), "1");
  const std::string problem = problem_of_patterns(model, decoder.windows);
  return problem.empty() ? problem_of_rotary(model, decoder.has_rotary_by_windows) : problem;
}

OrderedJson number_or_null(double number) { return number == 0 ? OrderedJson(nullptr) : OrderedJson(number); }

void add_windows(const TransformerConfig& model, const Decoder& decoder, OrderedJson& json) {
  const std::vector<int64_t> windows = windows_of(model);
  const auto first = std::ranges::find_if(windows, [](int64_t window) { return window != 0; });
  const bool has_windows = first != windows.end();
  if (decoder.windows == Windows::none) return;
  json["sliding_window"] = has_windows ? OrderedJson(*first) : OrderedJson(nullptr);
  if (decoder.is_gemma && !has_windows) json["sliding_window"] = model.sequence;  // Gemma needs a number
  if (decoder.windows == Windows::all_layers) return;
  OrderedJson types = OrderedJson::array();
  for (const int64_t window : windows) types.push_back(window == 0 ? "full_attention" : "sliding_attention");
  json["layer_types"] = types;
  if (decoder.is_gemma) return;
  json["use_sliding_window"] = has_windows;
  json["max_window_layers"] = first - windows.begin();
}

void add_rotary(const TransformerConfig& model, const Decoder& decoder, OrderedJson& json) {
  const RotaryPair pair = rotary_pair_of(model);
  const bool by_windows = decoder.has_rotary_by_windows;
  if (!by_windows || pair.sliding.scaling == modules::RotaryScaling{}) {
    const modules::Rotary rotary = by_windows ? pair.full : model.rotary_of(0);
    json["rope_theta"] = rotary.base;
    if (by_windows) json["rope_local_base_freq"] = pair.sliding.base;
    const OrderedJson scaling = rope_scaling(rotary.scaling);
    if (!scaling.is_null()) json["rope_scaling"] = scaling;
    return;
  }
  // Versions up to 4 do not scale the layers with a window.
  for (const auto& [kind, rotary] : {std::pair{"sliding_attention", pair.sliding}, {"full_attention", pair.full}}) {
    OrderedJson parameters = rope_scaling(rotary.scaling);
    if (parameters.is_null()) parameters["rope_type"] = "default";
    parameters["rope_theta"] = rotary.base;
    json["rope_parameters"][kind] = parameters;
  }
}

}  // namespace

const Decoder* find_decoder(std::string_view type) {
  const auto found = std::ranges::find(kDecoders, type, &Decoder::type);
  return found == kDecoders.end() ? nullptr : &*found;
}

const Decoder& decoder_of(const TransformerConfig& model) {
  std::string problems;
  for (const Decoder& decoder : kDecoders) {
    const std::string problem = problem_of(decoder, model);
    if (problem.empty()) return decoder;
    problems += "\n  " + std::string(decoder.type) + ": " + problem;
  }
  throw Error(ExitCode::configuration, "no model of transformers has this block:" + problems);
}

OrderedJson decoder_config(const TransformerConfig& model) {
  const Decoder& decoder = decoder_of(model);
  OrderedJson json = {{"architectures", {decoder.architecture}},
                      {"model_type", decoder.type},
                      {"vocab_size", model.vocabulary},
                      {"max_position_embeddings", model.sequence},
                      {"hidden_size", model.width},
                      {"intermediate_size", model.feed_forward_or_default()},
                      {"num_hidden_layers", model.layers},
                      {"num_attention_heads", model.heads},
                      {"num_key_value_heads", model.key_value_heads_or_default()},
                      {"head_dim", model.head_width_or_default()},
                      {"rms_norm_eps", model.norm_epsilon}};
  if (decoder.is_gemma) {
    json["hidden_activation"] = "gelu_pytorch_tanh";
    json["query_pre_attn_scalar"] = model.head_width_or_default();
  } else {
    json["hidden_act"] = "silu";
  }
  if (decoder.has_softcaps) {
    json["attn_logit_softcapping"] = number_or_null(model.softcap);
    json["final_logit_softcapping"] = number_or_null(model.logit_softcap);
  }
  // Classes of transformers have ids of their own where a file has none. A token of such an id would have no gradient
  // there, or end a text.
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) json[key] = nullptr;
  if (!decoder.qkv_biases) json["attention_bias"] = false;
  if (decoder.type == "llama") json["mlp_bias"] = false;
  add_windows(model, decoder, json);
  add_rotary(model, decoder, json);
  return json;
}

}  // namespace strata::hf
