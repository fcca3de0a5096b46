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
      {"if sinks is not None:", "if sinks is not None and positions == 0:"},
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

}  // namespace strata::kernels
