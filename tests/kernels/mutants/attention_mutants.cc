// SPDX-License-Identifier: MIT
#include "tests/kernels/mutants/term_mutants.h"

#include <string_view>
#include <utility>

#include "tests/kernels/mutants/defined_cases.h"

namespace strata::kernels {

std::vector<Mutant> term_mutants() {
  constexpr std::string_view kCapped = "softcap * torch.tanh(scores / softcap)", kSink = "sinks.to(wide.dtype)";
  constexpr std::string_view kSlopes = "slopes.reshape(-1, 1, 1)",
                             kDistance = "torch.abs(place.narrow(0, first_query, queries).unsqueeze(1) - place)";
  const std::vector<std::pair<std::string_view, std::string_view>> mistakes = {
      {"if sinks is not None:", "if sinks is not None and queries == 0:"},
      {kSink, "torch.roll(sinks.to(wide.dtype), 1)"},
      {kSink, "sinks.to(wide.dtype).narrow(0, 0, key_value_heads).repeat_interleave(group)"},
      {kSink, "(sinks.to(wide.dtype) * float(head_width) ** -0.5)"},
      {kSink, "(softcap * torch.tanh(sinks.to(wide.dtype) / softcap))"},
      {kSink, "times(sinks.to(wide.dtype), 0.9)"},
      {kSink, "gradient_of_places(sinks.to(wide.dtype), 0, 1, 1, 0.5)"},
      {"value.new_zeros", "value.new_ones"},
      {kSlopes, "torch.roll(slopes, 1).reshape(-1, 1, 1)"},
      {kSlopes, "slopes.reshape(-1, 1, 1) * 1.05"},
      {"-4.0 * (2.0 * (head - power) + 1.0)", "-4.0 * (2.0 * (head - power) + 2.0)"},
      {kDistance, "(place.unsqueeze(1) - place)"},
      {kDistance, "(torch.abs(place.unsqueeze(1) - place) + 1)"},
      {kCapped, "softcap * torch.tanh(scores * float(head_width) ** 0.5 / softcap) * float(head_width) ** -0.5"},
      {kCapped, "softcap * torch.tanh(scores / (1.05 * softcap))"},
      {kCapped, "torch.tanh(scores / softcap)"},
      {kCapped, "(softcap * torch.tanh(scores / softcap)).detach() + (scores - scores.detach())"}};
  std::vector<Mutant> all;
  for (const auto& [right, wrong] : mistakes) all.push_back({"attention/attention", kAttentionWithTerms, right, wrong});
  return all;
}

std::vector<Mutant> part_mutants() {
  constexpr std::string_view kQueries = "key.narrow(1, first_query, queries)", kHidden = "masked_fill(hidden,",
                             kDistances = "place.narrow(0, first_query, queries)",
                             kKeys = "split_heads(key_value.to(wide.dtype), head_width)";
  const std::vector<std::pair<std::string_view, std::string_view>> mistakes = {
      {kQueries, "key.narrow(1, 0, queries)"},
      {kQueries, "key.narrow(1, key.size(1) - queries, queries)"},
      {kQueries, "key.narrow(1, first_query - 1, queries)"},
      {kHidden, "masked_fill(torch.roll(hidden, 1, -1),"},
      {kDistances, "place.narrow(0, 0, queries)"},
      {kDistances, "place.narrow(0, first_query - 1, queries)"},
      {kKeys, "split_heads(key_value.to(wide.dtype).detach(), head_width)"},
      {kKeys, "split_heads(times(key_value.to(wide.dtype), 1.05), head_width)"},
      {kKeys, "split_heads(gradient_of_places(key_value.to(wide.dtype), 1, 0, 9, 0.0), head_width)"},
      {kKeys, "split_heads(stale(key_value.to(wide.dtype), 1, first_query), head_width)"}};
  std::vector<Mutant> all;
  for (const auto& [right, wrong] : mistakes) all.push_back({"attention/attention", kAttentionOfPart, right, wrong});
  return all;
}

}  // namespace strata::kernels
