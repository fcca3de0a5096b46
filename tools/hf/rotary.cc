// SPDX-License-Identifier: MIT
#include "tools/hf/rotary.h"

#include <array>
#include <string>
#include <string_view>

namespace strata::hf {
namespace {

using modules::Rotary;
using modules::RotaryScaling;
using modules::RotaryScalingType;

RotaryScaling read_llama3(const JsonSection& json) {
  return {.type = RotaryScalingType::llama3,
          .factor = json.positive("factor"),
          .low_frequency = json.positive("low_freq_factor"),
          .high_frequency = json.positive("high_freq_factor"),
          .original_sequence = json.count("original_max_position_embeddings")};
}

RotaryScaling read_yarn(const JsonSection& json, int64_t sequence) {
  json.expect("truncate", true);
  constexpr const char* kOriginal = "original_max_position_embeddings";
  RotaryScaling scaling = {.type = RotaryScalingType::yarn, .factor = json.positive("factor")};
  scaling.original_sequence = json.has(kOriginal) ? json.count(kOriginal) : sequence;
  if (json.has("beta_fast")) scaling.beta_fast = json.positive("beta_fast");
  if (json.has("beta_slow")) scaling.beta_slow = json.positive("beta_slow");
  if (json.has("attention_factor")) scaling.attention_factor = json.positive("attention_factor");
  return scaling;
}

RotaryScaling read_scaling(const JsonSection& json, int64_t sequence) {
  // Files of some versions have both names of the type.
  constexpr std::array<std::string_view, 3> kHarmless = {"rope_theta", "type", "original_max_position_embeddings"};
  json.expect("partial_rotary_factor", 1.0);
  const char* key = json.has("rope_type") ? "rope_type" : "type";
  const std::string type = json.text(key);
  RotaryScaling scaling;
  if (type == "llama3") {
    scaling = read_llama3(json);
  } else if (type == "yarn") {
    scaling = read_yarn(json, sequence);
  } else if (type == "linear") {
    scaling = {.type = RotaryScalingType::linear, .factor = json.positive("factor")};
  } else if (type != "default") {
    throw json.refuse(key, "default, linear, llama3 or yarn");
  }
  if (scaling.factor < 1) throw json.refuse("factor", "a number from 1");
  json.refuse_other_keys(kHarmless);
  return scaling;
}

// `base` is that of a file without rope_theta.
Rotary read_parameters(const JsonSection& json, double base, int64_t sequence) {
  return {json.has("rope_theta") ? json.positive("rope_theta") : base, read_scaling(json, sequence)};
}

Rotary read_older(const JsonSection& json, double base, int64_t sequence) {
  Rotary rotary = {json.has("rope_theta") ? json.positive("rope_theta") : base};
  if (json.has("rope_scaling")) rotary.scaling = read_scaling(json.section("rope_scaling"), sequence);
  return rotary;
}

}  // namespace

Rotary read_rotary(const JsonSection& json, int64_t sequence) {
  constexpr double kBase = 10'000;
  const Rotary older = read_older(json, kBase, sequence);
  return json.has("rope_parameters") ? read_parameters(json.section("rope_parameters"), kBase, sequence) : older;
}

RotaryPair read_rotary_pair(const JsonSection& json, int64_t sequence) {
  constexpr double kSliding = 10'000, kFull = 1'000'000;
  const Rotary older = read_older(json, kFull, sequence);
  const Rotary sliding = {json.has("rope_local_base_freq") ? json.positive("rope_local_base_freq") : kSliding};
  if (!json.has("rope_parameters")) return {sliding, older};
  const JsonSection both = json.section("rope_parameters");
  const auto of = [&](const char* kind, const Rotary& otherwise) {
    return both.has(kind) ? read_parameters(both.section(kind), otherwise.base, sequence) : otherwise;
  };
  const RotaryPair pair = {of("sliding_attention", sliding), of("full_attention", older)};
  both.refuse_other_keys({});
  return pair;
}

nlohmann::ordered_json rope_scaling(const RotaryScaling& scaling) {
  nlohmann::ordered_json json;
  switch (scaling.type) {
    case RotaryScalingType::none:
      break;
    case RotaryScalingType::llama3:
      json = {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low_frequency},
              {"high_freq_factor", scaling.high_frequency},
              {"original_max_position_embeddings", scaling.original_sequence}};
      break;
    case RotaryScalingType::linear:
      json = {{"rope_type", "linear"}, {"factor", scaling.factor}};
      break;
    case RotaryScalingType::yarn:
      json = {{"rope_type", "yarn"},
              {"factor", scaling.factor},
              {"original_max_position_embeddings", scaling.original_sequence},
              {"beta_fast", scaling.beta_fast},
              {"beta_slow", scaling.beta_slow}};
      if (scaling.attention_factor > 0) json["attention_factor"] = scaling.attention_factor;
      break;
  }
  return json;
}

}  // namespace strata::hf
