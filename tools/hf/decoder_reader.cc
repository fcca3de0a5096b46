// SPDX-License-Identifier: MIT
// Reads config.json of a dense decoder.
#include <string>
#include <vector>

#include "kernels/attention/score_terms.h"
#include "modules/config/layer_patterns.h"
#include "tools/hf/decoder.h"
#include "tools/hf/rotary.h"

namespace strata::hf {
namespace {

using modules::TransformerConfig;
using Windows = Decoder::Windows;

// Absent, the window has a size in transformers that few files mean. So its key is expected.
bool has_window(const JsonSection& json, const Decoder& decoder) {
  const bool is_named = json.names("sliding_window");
  if (decoder.windows == Windows::none) return false;
  if (decoder.is_gemma) return true;
  if (decoder.windows == Windows::some_layers && !json.flag("use_sliding_window", false)) return false;
  if (!is_named) throw json.refuse("sliding_window", "a positive integer or null");
  return json.has("sliding_window");
}

// Which layers have a window, by the rules of transformers for files without layer_types.
std::vector<bool> layers_with_window(const JsonSection& json, const Decoder& decoder, int64_t layers) {
  const auto count = static_cast<size_t>(layers);
  const bool uses = has_window(json, decoder);
  if (decoder.windows != Windows::some_layers) return std::vector<bool>(count, uses);
  const int64_t first = json.has("max_window_layers") ? json.count_or_zero("max_window_layers") : 28;
  int64_t period = decoder.window_period;
  for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"}) {
    if (decoder.has_rotary_by_windows && json.has(key)) period = json.count(key);
  }
  std::vector<bool> slides(count);
  if (!json.has("layer_types")) {
    for (int64_t i = 0; i < layers; ++i) {
      slides[static_cast<size_t>(i)] = uses && (period > 0 ? (i + 1) % period != 0 : i >= first);
    }
    return slides;
  }
  const std::vector<std::string> types = json.texts("layer_types");
  if (types.size() != count) throw json.refuse("layer_types", "one for each of " + std::to_string(layers) + " layers");
  for (size_t i = 0; i < count; ++i) {
    slides[i] = types[i] == "sliding_attention";
    if (!slides[i] && types[i] != "full_attention") {
      throw json.refuse("layer_types", "full_attention or sliding_attention for each layer");
    }
    if (slides[i] && !uses) {
      throw json.refuse("layer_types", "full_attention, because use_sliding_window is false or sliding_window is null");
    }
  }
  return slides;
}

// Most layers have model.attention and the rotary positions of the model, and `layers:` has the others.
void set_layers(const JsonSection& json, const Decoder& decoder, TransformerConfig& model) {
  const std::vector<bool> slides = layers_with_window(json, decoder, model.layers);
  std::vector<int64_t> sliding, full;
  for (int64_t i = 0; i < model.layers; ++i) (slides[static_cast<size_t>(i)] ? sliding : full).push_back(i);
  const std::string window =
      sliding.empty() ? "" : "causal & window(" + std::to_string(json.count("sliding_window")) + ")";
  RotaryPair rotary;
  if (decoder.has_rotary_by_windows) {
    rotary = read_rotary_pair(json, model.sequence);
  } else {
    rotary.full = rotary.sliding = read_rotary(json, model.sequence);
  }
  const bool most_slide = sliding.size() > full.size();
  model.attention = most_slide ? window : "causal";
  const modules::Rotary& common_rotary = most_slide ? rotary.sliding : rotary.full;
  const modules::Rotary& other_rotary = most_slide ? rotary.full : rotary.sliding;
  model.rotary_base = common_rotary.base;
  model.rotary_scaling = common_rotary.scaling;
  for (const configs::Range& range : modules::ranges_of(most_slide ? full : sliding)) {
    modules::LayerConfig layer = {.only = range, .attention = most_slide ? "causal" : window};
    if (other_rotary != common_rotary) {
      layer.rotary_base = other_rotary.base;
      layer.rotary_scaling = other_rotary.scaling;
    }
    model.layer_overrides.push_back(layer);
  }
}

// The width of a head is a key of its own where it is not width / heads. Absent, it is another number in the families
// that normalize each head, and in Gemma.
void read_heads(const JsonSection& json, const Decoder& decoder, TransformerConfig& model) {
  const bool is_needed = decoder.query_key_norm == modules::QueryKeyNorm::head || decoder.is_gemma;
  model.heads = json.count("num_attention_heads", kMostHeads);
  if (json.has("num_key_value_heads")) model.key_value_heads = json.count("num_key_value_heads", kMostHeads);
  const int64_t width = is_needed || json.has("head_dim") ? json.count("head_dim", kMostHeads) : 0;
  if (width * model.heads != model.width) model.head_width = width;
}

// Absent, a cap has a value in transformers. null is none.
double read_softcap(const JsonSection& json, const char* key) {
  if (!json.names(key)) throw json.refuse(key, "a positive number or null");
  const double cap = json.has(key) ? json.positive(key) : 0;
  if (!kernels::is_softcap(cap)) throw json.refuse(key, "a number from 0.001 to 1000000, or null");
  return cap;
}

}  // namespace

TransformerConfig read_decoder(const JsonSection& json, const Decoder& decoder) {
  json.expect(decoder.is_gemma ? "hidden_activation" : "hidden_act", decoder.is_gemma ? "gelu_pytorch_tanh" : "silu");
  json.expect("attention_bias", false);
  json.expect("mlp_bias", false);
  json.expect("use_mrope", false);
  json.expect("rope_interleaved", false);
  TransformerConfig model;
  model.layers = json.count("num_hidden_layers", kMostLayers);
  model.width = json.count("hidden_size", kMostWidth);
  read_heads(json, decoder, model);
  model.feed_forward = json.count("intermediate_size", kMostFeedForward);
  model.sequence = json.count("max_position_embeddings", kMostTokens);
  model.norm_epsilon = json.number("rms_norm_eps", configs::kEpsilon);
  model.qkv_biases = decoder.qkv_biases;
  model.query_key_norm = decoder.query_key_norm;
  model.norm_placement = decoder.norm_placement;
  if (decoder.is_gemma) {
    model.gate = modules::Gate::gelu_tanh;
    model.embedding_scale.reset();  // sqrt(width)
    json.expect("use_bidirectional_attention", false);
    json.positive("query_pre_attn_scalar");
    json.expect("query_pre_attn_scalar", model.head_width_or_default());
    json.expect("hidden_act", "gelu_pytorch_tanh");  // older files have it too
  }
  if (decoder.has_softcaps) {
    model.softcap = read_softcap(json, "attn_logit_softcapping");
    model.logit_softcap = read_softcap(json, "final_logit_softcapping");
  }
  set_layers(json, decoder, model);
  return model;
}

}  // namespace strata::hf
