// SPDX-License-Identifier: MIT
// A decoder of language: the section `model:` with `type: transformer`, in the style of GPT-2 or of Llama.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/checks.h"
#include "configs/limits.h"
#include "configs/range.h"
#include "kernels/attention/score_terms.h"
#include "modules/config/kernels_config.h"
#include "modules/config/model_attention.h"
#include "modules/config/parameter_group.h"
#include "modules/config/rotary_config.h"

namespace strata::modules {

// gpt2: layer norm, learned positions, gelu (tanh form), biases. llama: rms norm, rotary positions, swiglu, no biases.
enum class Family { gpt2, llama };
constexpr std::array<std::string_view, 2> names(Family) { return {"gpt2", "llama"}; }
constexpr bool is_llama(Family family) {
  switch (family) {
    case Family::gpt2:
      return false;
    case Family::llama:
      return true;
  }
  return false;  // unreachable: the switch is complete
}

// The RMSNorm of queries and keys: over each head, or over all heads together.
enum class QueryKeyNorm { none, head, whole };
constexpr std::array<std::string_view, 3> names(QueryKeyNorm) { return {"none", "head", "whole"}; }

// The activation of the gate in the MLP of a llama.
enum class Gate { silu, gelu_tanh };
constexpr std::array<std::string_view, 2> names(Gate) { return {"silu", "gelu_tanh"}; }

// Where the norms of a block stand: before each branch, at its end, or in both places.
enum class NormPlacement { before, after, both };
constexpr std::array<std::string_view, 3> names(NormPlacement) { return {"before", "after", "both"}; }

// An entry of `layers:`: what is different in some layers of a language model.
struct LayerConfig {
  configs::Range only = {};
  std::optional<std::string> attention = {};  // absent: as in the model
  std::optional<double> rotary_base = {};     // absent: base and scaling of the model
  RotaryScaling rotary_scaling = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("only", only, kOnlyLayers);
    fields.add_optional("attention", attention,
                        "which keys each query sees in these layers, instead of model.attention");
    fields.add_optional(
        "rotary_base", rotary_base,
        "base of the rotary positions of these layers, instead of model.rotary_base; they then have the "
        "rotary_scaling of this entry, and not that of the model",
        kRotaryBases);
    fields.section("rotary_scaling", rotary_scaling, "scaling of the rotary positions of these layers");
  }
};

struct TransformerConfig {
  static constexpr std::string_view kItem = "token";  // the unit of the loss's mean and of the FLOPs
  static constexpr bool kHasBlocks = true;            // the linear layers of blocks take number formats and sparsity
  static constexpr bool kIsGraph = false;             // true: its data are graphs, and shapes of ops follow from them
  static constexpr bool kCanFuseHead = true;          // head and loss can be one op, linear_cross_entropy

  Family family = Family::llama;
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_width = 0;
  bool qkv_biases = false;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  int64_t feed_forward = 0;
  Gate gate = Gate::silu;
  int64_t sequence = 0;
  std::string attention = "causal";
  std::vector<LayerConfig> layer_overrides = {};  // `layers:` of the run; later entries win
  bool alibi = false;
  double softcap = 0;
  bool sinks = false;
  int64_t vocabulary = 0;
  bool tied = true;
  std::optional<double> embedding_scale = 1;  // absent: sqrt(width)
  double logit_softcap = 0;
  double dropout = 0;
  NormPlacement norm_placement = NormPlacement::before;
  double norm_epsilon = 1e-5;
  double rotary_base = 10000;
  double rotary_fraction = 1;
  RotaryScaling rotary_scaling = {};

  int64_t items_per_sample() const { return sequence; }
  int64_t head_width_or_default() const { return head_width == 0 ? width / heads : head_width; }
  int64_t query_width() const { return heads * head_width_or_default(); }  // of all queries of a token
  // ALiBi takes the place of the positions of the family.
  bool has_learned_positions() const { return !is_llama(family) && !alibi; }
  bool has_rotary_positions() const { return is_llama(family) && !alibi; }
  kernels::ScoreTerms score_terms() const { return {alibi, softcap, sinks}; }
  const std::string& attention_of(int64_t layer) const {
    const std::string* result = &attention;
    for (const LayerConfig& line : layer_overrides) {
      if (line.only.contains(layer) && line.attention) result = &*line.attention;
    }
    return *result;
  }
  Rotary rotary_of(int64_t layer) const {
    Rotary result{rotary_base, rotary_scaling, rotary_fraction};
    for (const LayerConfig& line : layer_overrides) {
      if (!line.only.contains(layer) || !line.rotary_base) continue;
      result = {*line.rotary_base, line.rotary_scaling, rotary_fraction};
    }
    return result;
  }
  int64_t key_value_heads_or_default() const { return key_value_heads == 0 ? heads : key_value_heads; }
  int64_t feed_forward_or_default() const { return feed_forward == 0 ? 4 * width : feed_forward; }
  double embedding_scale_or_default() const { return embedding_scale.value_or(std::sqrt(static_cast<double>(width))); }

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("family", family,
                   "gpt2: LayerNorm, learned positions, GELU; llama: RMSNorm, rotary positions, SwiGLU");
    fields.require("layers", layers, "number of transformer blocks", configs::between(1, 10000));
    fields.require("width", width, "width of the hidden states", configs::between(1, 1e6));
    fields.require("heads", heads, "number of attention heads; it must divide width, unless head_width is set",
                   configs::between(1, 1e5));
    fields.add("key_value_heads", key_value_heads,
               "number of key and value heads (grouped-query attention); it must divide heads; 0: as many as heads",
               configs::between(0, 1e5));
    fields.add("head_width", head_width, "width of a head; 0: width / heads", configs::between(0, 1e5));
    fields.add(
        "qkv_biases", qkv_biases,
        "the projections of queries, keys and values have biases, as in Qwen2 (llama; in gpt2 all projections have)");
    fields.add("query_key_norm", query_key_norm,
               "RMSNorm of queries and keys before rotary positions; head: over each head, as in Qwen3 and Gemma 3; "
               "whole: over all heads together, as in OLMo 2");
    fields.add("feed_forward", feed_forward, "inner width of the MLP; 0: four times width (gpt2 only)",
               configs::between(0, 1e7));
    fields.add("gate", gate, "activation of the gate of the MLP (llama); gelu_tanh: as in Gemma");
    fields.require("sequence", sequence, "context length, which is also the length of a training sample",
                   configs::between(1, 1e8), "tokens");
    fields.add("attention", attention,
               "which keys each query sees: an expression such as causal & window(256), of the words in "
               "docs/attention.md; training takes patterns by which no token sees the ones after it, except inside of "
               "a prefix");
    fields.add(
        "alibi", alibi,
        "scores of attention fall with the distance, by a slope for each head (ALiBi); it takes the place of the "
        "positions of the family, learned or rotary");
    fields.add("softcap", softcap,
               "scores of attention become softcap x tanh(score / softcap), before the mask; 0: they do not",
               configs::between(0, kernels::kMostSoftcap));
    fields.add("sinks", sinks,
               "each query head has a learned score that takes part in the softmax of attention and has no value");
    fields.require("vocabulary", vocabulary, "number of tokens in the vocabulary", configs::between(2, 1e8));
    fields.add("tied", tied, "the output layer shares the weight of the token embedding");
    fields.add_or_word("embedding_scale", embedding_scale, "sqrt_width",
                       "factor of the token embeddings in the hidden states, not in the output layer, rounded to the "
                       "type of the embedding; sqrt_width: as in Gemma",
                       /*unit=*/"", configs::between(1e-6, 1e6));
    fields.add("logit_softcap", logit_softcap,
               "logits become logit_softcap x tanh(logit / logit_softcap), as in Gemma 2; 0: they do not",
               configs::between(0, kernels::kMostSoftcap));
    fields.add("dropout", dropout,
               "dropout probability after the embedding and at the end of both residual branches; 0: no dropout",
               configs::kBelowOne);
    fields.add("norm_placement", norm_placement,
               "norms of attention and MLP; before: of their inputs; after: of their outputs, before these are added "
               "to the residual, as in OLMo 2; both: as in Gemma 2 and 3");
    fields.add("norm_epsilon", norm_epsilon, "epsilon of the norms, added to the variance", configs::kEpsilon);
    fields.add("rotary_base", rotary_base, "base of the rotary positions (llama)", kRotaryBases);
    fields.add("rotary_fraction", rotary_fraction,
               "fraction of the features of each query and key head that rotary positions turn, as in GLM-4; their "
               "number is rounded down and must be even (llama)",
               configs::kFraction);
    fields.section("rotary_scaling", rotary_scaling, "scaling of rotary positions for longer contexts (llama)");
  }
};

// Returns a warning if rotary positions are scaled for a context that no sample of the model is as long as, or "".
std::string unreached_scaling(const TransformerConfig& model);

// Checks rules between fields. `checks` must stand at the section of the model.
void check(const TransformerConfig& model, configs::Checks& checks);

// The lengths of documents that attention keeps apart, a list for each of some samples, from which means are taken.
// Empty: each sample is one document.
using DocumentLengths = std::vector<std::vector<int64_t>>;

// FLOPs of a token, as flops_per_item() in model_config.h counts them.
double flops_per_item(const TransformerConfig& model, const std::vector<ParameterGroup>& groups,
                      const DocumentLengths& documents = {});

// Throws the Error of a wrong pattern.
std::optional<ModelAttention> attention_of(const TransformerConfig& model);

}  // namespace strata::modules
