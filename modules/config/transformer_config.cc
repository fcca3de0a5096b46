// SPDX-License-Identifier: MIT
#include "modules/config/transformer_config.h"

#include "base/errors.h"
#include "kernels/attention/pattern/blind_query.h"
#include "kernels/attention/pattern/pair_counter.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "modules/config/divisors.h"
#include "modules/config/layer_patterns.h"

namespace strata::modules {
namespace {

// As wide as a stream may be, so that numbers of parameters and of their bytes fit in 64 bits.
constexpr int64_t kMostOfAllHeads = 1'000'000;

void check_attention(const TransformerConfig& model, configs::Checks& checks) {
  if (checks.can_check({"width", "heads", "head_width"})) {
    const bool is_odd =
        checks.can_check({"family", "alibi"}) && model.has_rotary_positions() && model.head_width_or_default() % 2 != 0;
    if (model.head_width != 0) {
      if (model.query_width() > kMostOfAllHeads) {
        checks.fail("head_width", "expected heads * head_width of at most " + std::to_string(kMostOfAllHeads) +
                                      ", got " + std::to_string(model.query_width()));
      } else if (is_odd) {
        checks.fail("head_width",
                    "rotary positions turn pairs: expected an even width, got " + std::to_string(model.head_width));
      }
    } else if (model.width % model.heads != 0) {
      checks.fail("heads", not_divided("width", model.width, "heads", model.heads) + "; or set head_width");
    } else if (is_odd) {
      checks.fail("heads", "rotary positions turn pairs: width " + std::to_string(model.width) + " / heads " +
                               std::to_string(model.heads) + " = " + std::to_string(model.head_width_or_default()) +
                               " must be even");
    }
  }
  if (checks.can_check({"softcap"}) && !kernels::is_softcap(model.softcap)) {
    checks.fail("softcap", "expected 0, which is none, or at least 0.001, because fp32 loses scores below");
  }
  if (checks.can_check({"heads", "key_value_heads"}) && model.heads % model.key_value_heads_or_default() != 0) {
    checks.fail("key_value_heads", not_divided("heads", model.heads, "key_value_heads", model.key_value_heads));
  }
  if (checks.can_check({"family", "qkv_biases"}) && model.family == Family::gpt2 && model.qkv_biases) {
    checks.fail("qkv_biases", "changes nothing in the gpt2 family, whose projections all have biases");
  }
}

// Checks the expression at `key`. `where` ends each message.
void check_pattern(const TransformerConfig& model, const std::string& key, const std::string& text,
                   const std::string& where, configs::Checks& checks) {
  if (!checks.can_check({key})) return;
  try {
    const kernels::Pattern pattern = kernels::parse_pattern(text);
    if (has_word(pattern, kernels::Pattern::Kind::documents)) {
      checks.fail(key,
                  "documents are kept apart by data.documents: separate, which adds & documents to the expression; "
                  "expected an expression without them" +
                      where);
    } else if (checks.can_check({"sequence", "sinks"}) && !model.sinks) {
      kernels::check_every_query_sees_a_key(pattern, model.sequence);
    }
  } catch (const Error& error) {
    checks.fail(key, error.what() + where);
  }
}

void check_patterns(const TransformerConfig& model, configs::Checks& checks) {
  check_pattern(model, "attention", model.attention, "", checks);
  for (size_t i = 0; i < model.layer_overrides.size(); ++i) {
    const LayerConfig& entry = model.layer_overrides[i];
    const configs::Range& only = entry.only;
    const std::string line = "/layers." + std::to_string(i) + ".", range = line + "only";
    if (!checks.can_check({range})) continue;
    if (checks.can_check({"layers"}) && only.last >= model.layers) {
      checks.fail(range, "expected layers below model.layers " + std::to_string(model.layers) +
                             ", counted from 0, got " + to_text(only));
    }
    const bool changes_nothing = !entry.attention && !entry.rotary_base && entry.rotary_scaling == RotaryScaling{};
    if (changes_nothing && checks.can_check({line + "attention", line + "rotary_base", line + "rotary_scaling"})) {
      checks.fail(range, "changes nothing: expected attention or rotary_base in this entry");
    }
    const std::string layers = (only.first == only.last ? "layer " : "layers ") + to_text(only);
    if (entry.attention) {
      check_pattern(model, line + "attention", *entry.attention, "; this is the pattern of " + layers, checks);
    }
  }
}

// Returns "" if the model has rotary positions.
std::string why_not_rotary(const TransformerConfig& model) {
  if (model.family == Family::gpt2) return "the gpt2 family has learned positions";
  return model.alibi ? "alibi takes the place of rotary positions" : "";
}

void check_rotary_fraction(const TransformerConfig& model, const std::string& why_not, configs::Checks& checks) {
  if (model.rotary_fraction == 1 || !checks.can_check({"rotary_fraction"})) return;
  if (!why_not.empty()) {
    checks.fail("rotary_fraction", "expected none, because " + why_not);
  } else if (checks.can_check({"width", "heads", "head_width"})) {
    const int64_t width = model.head_width_or_default(), rotated = model.rotary_of(0).rotated_width(width);
    const bool is_refused = width % 2 != 0 || (model.head_width == 0 && model.width % model.heads != 0);
    if (is_refused || (rotated > 0 && rotated % 2 == 0)) return;
    checks.fail("rotary_fraction", "rotary positions turn pairs: expected an even number, at least 2, of the " +
                                       std::to_string(width) + " features of a head, got " + std::to_string(rotated));
  }
}

void check_rotary_of_layers(const TransformerConfig& model, configs::Checks& checks) {
  const std::string why_not = why_not_rotary(model);
  check_rotary({model.rotary_base, model.rotary_scaling}, why_not, "", checks);
  check_rotary_fraction(model, why_not, checks);
  for (size_t i = 0; i < model.layer_overrides.size(); ++i) {
    const LayerConfig& layer = model.layer_overrides[i];
    const std::string line = "/layers." + std::to_string(i) + ".";
    if (!checks.can_check({line + "rotary_base", line + "rotary_scaling"})) continue;
    if (!why_not.empty() && layer.rotary_base) {
      checks.fail(line + "rotary_base", "expected none, because " + why_not);
    } else if (!layer.rotary_base && layer.rotary_scaling != RotaryScaling{}) {
      checks.fail(line + "rotary_scaling", "changes nothing without rotary_base in this entry");
    } else if (layer.rotary_base) {
      check_rotary({*layer.rotary_base, layer.rotary_scaling}, why_not, line, checks);
    }
  }
}

double pairs_of_document(const kernels::Pattern& pattern, int64_t begin, int64_t end) {
  const auto length = static_cast<double>(end - begin);
  if (pattern.kind == kernels::Pattern::Kind::causal) return length * length / 2;
  return static_cast<double>(count_pairs(pattern, kernels::Rectangle{begin, end, begin, end}));
}

// Returns the mean number of keys that a query sees in its document.
double seen_keys(const kernels::Pattern& pattern, int64_t positions, const DocumentLengths& documents) {
  if (documents.empty()) return pairs_of_document(pattern, 0, positions) / static_cast<double>(positions);
  double pairs = 0;
  for (const std::vector<int64_t>& sample_lengths : documents) {
    int64_t begin = 0;
    for (const int64_t length : sample_lengths) {
      pairs += pairs_of_document(pattern, begin, begin + length);
      begin += length;
    }
  }
  return pairs / static_cast<double>(positions * static_cast<int64_t>(documents.size()));
}

}  // namespace

void check(const TransformerConfig& model, configs::Checks& checks) {
  check_attention(model, checks);
  check_patterns(model, checks);
  if (checks.can_check({"logit_softcap"}) && !kernels::is_softcap(model.logit_softcap)) {
    checks.fail("logit_softcap", "expected 0, which is none, or at least 0.001, because fp32 loses logits below");
  }
  if (checks.can_check({"family", "feed_forward"}) && model.family == Family::llama && model.feed_forward == 0) {
    checks.fail("feed_forward", "expected a width, because the llama family has no usual one, got none");
  }
  if (checks.can_check({"family", "gate"}) && model.family == Family::gpt2 && model.gate != Gate::silu) {
    checks.fail("gate", "changes nothing in the gpt2 family, whose MLP has no gate");
  }
  if (checks.can_check({"family", "alibi", "rotary_base"}) && !model.has_rotary_positions() &&
      model.rotary_base != TransformerConfig{}.rotary_base) {
    checks.fail("rotary_base", "expected none, because " + why_not_rotary(model));
  }
  if (checks.can_check({"family", "alibi"})) check_rotary_of_layers(model, checks);
}

double flops_per_item(const TransformerConfig& model, const std::vector<ParameterGroup>& groups,
                      const DocumentLengths& documents) {
  const double head = static_cast<double>(model.vocabulary) * static_cast<double>(model.width);
  const double matrices = elements_of_matrices(groups, Role::layer) + head;
  double keys = 0;  // keys of a query, summed over all layers
  for (const auto& [pattern, layers] : layers_by_pattern(model)) {
    keys += seen_keys(pattern, model.sequence, documents) * static_cast<double>(layers.size());
  }
  return 6 * matrices + 12 * static_cast<double>(model.query_width()) * keys;
}

std::string unreached_scaling(const TransformerConfig& model) {
  for (int64_t layer = 0; layer < model.layers && model.has_rotary_positions(); ++layer) {
    const RotaryScaling scaling = model.rotary_of(layer).scaling;
    const bool has_context = scaling.type == RotaryScalingType::llama3 || scaling.type == RotaryScalingType::yarn;
    if (!has_context || scaling.original_sequence <= model.sequence) continue;
    return "rotary_scaling.original_sequence " + std::to_string(scaling.original_sequence) +
           " is more than model.sequence " + std::to_string(model.sequence) +
           ", so rotary positions are scaled although no sample is longer than the context before the scaling; this is "
           "right only for weights that were trained with the scaling";
  }
  return "";
}

std::optional<ModelAttention> attention_of(const TransformerConfig& model) {
  return ModelAttention{.layers = model.layers,
                        .head_width = model.head_width_or_default(),
                        .positions = model.sequence,
                        .terms = model.score_terms(),
                        .patterns = layers_by_pattern(model),
                        .rotary = layers_by_rotary(model)};
}

}  // namespace strata::modules
