// SPDX-License-Identifier: MIT
#include "trainer/layout/coding.h"

#include <algorithm>
#include <cstdio>

#include "trainer/layout/group_layout.h"

namespace strata::trainer {
namespace {

// The scale must follow from the values at hand, and be one number for the tensor.
bool has_one_scale(const modules::LinearFormatsConfig& formats) {
  using modules::LinearScaling;
  return formats.format == modules::LinearFormat::fp8 &&
         formats.scaling.value_or(LinearScaling::current) == LinearScaling::current;
}

bool is_coded(const modules::LinearFormatsConfig& formats, const modules::Parameter& parameter) {
  return parameter.is_linear_weight && formats.of(parameter.name.substr(0, parameter.name.rfind('.')));
}

}  // namespace

std::optional<sharding::CodedLayout> coded_layout(const BufferRules& rules, const modules::ParameterGroup& group) {
  const modules::LinearFormatsConfig& formats = rules.precision.linear;
  if (rules.sharding.gather_format != sharding::GatherFormat::codes || rules.shards() == 1 ||
      group.role != modules::Role::layer || !has_one_scale(formats)) {
    return {};
  }
  const sharding::FlatLayout flat = layout_of(group, rules.shards());
  std::vector<bool> coded;
  for (const auto& entry : flat.entries()) {
    const auto parameter = std::ranges::find(group.parameters, entry.name, &modules::Parameter::name);
    coded.push_back(is_coded(formats, *parameter));
  }
  const sharding::CodedLayout layout(flat, coded);
  const bool saves = layout.slot_elements(bytes_of(rules.precision.compute_of(group.name))) < flat.elements();
  return saves ? std::optional(layout) : std::nullopt;
}

int64_t coded_weights(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table) {
  int64_t sum = 0;
  for (const modules::ParameterGroup& group : table) {
    if (const auto layout = coded_layout(rules, group)) sum += layout->coded_entries();
  }
  return sum;
}

int64_t bytes_of_scales(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table) {
  return 4 * (1 + sharding::kScaleStride) * coded_weights(rules, table);
}

namespace {

// Why no weight travels as codes.
std::string why_no_codes(const BufferRules& rules) {
  const modules::LinearFormatsConfig& formats = rules.precision.linear;
  if (rules.shards() == 1) return "each rank has all parameters, so none are gathered";
  if (!has_one_scale(formats)) {
    return "precision.linear is " + formats.text() + ", and only fp8 with scaling: current travels so";
  }
  return "too few weights of each layer are in fp8 for codes to save anything";
}

}  // namespace

std::string coding_report(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table) {
  if (rules.sharding.gather_format != sharding::GatherFormat::codes) return "";
  int64_t layers = 0, weights = 0, bytes = 0, without = 0;
  for (const modules::ParameterGroup& group : table) {
    const auto layout = coded_layout(rules, group);
    if (!layout) continue;
    const int64_t width = bytes_of(rules.precision.compute_of(group.name));
    ++layers;
    weights += layout->coded_entries();
    bytes += width * layout->slot_elements(width);
    without += width * layout_of(group, rules.shards()).elements();
  }
  if (layers == 0) {
    return "warning: sharding.gather_format: codes changes nothing: " + why_no_codes(rules) +
           "; leave it out, or see docs/formats.md\n";
  }
  char text[160];
  std::snprintf(text, sizeof text,
                "all-gathers: %lld weights of %lld layers travel as codes of 8 bits, %.2f instead of %.2f MiB\n",
                static_cast<long long>(weights), static_cast<long long>(layers), static_cast<double>(bytes) / (1 << 20),
                static_cast<double>(without) / (1 << 20));
  return text;
}

}  // namespace strata::trainer
