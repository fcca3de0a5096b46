// SPDX-License-Identifier: MIT
#include "tests/kernels/mutants/attention_mutants.h"

#include <string_view>
#include <utility>

#include "tests/kernels/mutants/defined_cases.h"

namespace strata::kernels {
namespace {

using Mistakes = std::vector<std::pair<std::string_view, std::string_view>>;

void add(std::vector<Mutant>& all, std::string_view function, const Mistakes& mistakes) {
  for (const auto& [right, wrong] : mistakes) all.push_back({"attention/attention", function, right, wrong});
}

// In the formula without terms.
void add_of_scores(std::vector<Mutant>& all) {
  constexpr std::string_view kScale = "float(head_width) ** -0.5",
                             kProduct = "torch.matmul(query, key.transpose(2, 3))";
  constexpr std::string_view kResult = "torch.matmul(torch.softmax(scores, dim=-1), value)";
  constexpr std::string_view kKey = "scores = torch.matmul(query, key.transpose(2, 3))";
  add(all, "attention",
      {{kScale, "float(head_width) ** -0.45"},
       {kScale, "1.02 * float(head_width) ** -0.5"},
       {"(query - key >= first)", "(query - key >= first - 1)"},
       {"(query - key <= second)", "(query - key <= second + 1)"},
       {"(query - key <= second)", "(query - key <= second - 1)"},
       {"(query - key <= second)", "(query - key <= second + 1000)"},
       {"right=True", "right=False"},
       {"query_document.unsqueeze(2) == document.unsqueeze(1)", "query_document.unsqueeze(2) >= document.unsqueeze(1)"},
       {"key = key.repeat_interleave(heads // key.size(1), dim=1)", "key = key.repeat(1, heads // key.size(1), 1, 1)"},
       {"value = both.narrow(1, key_value_heads, key_value_heads).repeat_interleave(group, dim=1)",
        "value = both.narrow(1, key_value_heads, key_value_heads).repeat(1, group, 1, 1)"},
       {kResult, "torch.matmul(torch.softmax(scores, dim=-1) * 1.05, value)"},
       {kResult, "torch.matmul(without_small(torch.softmax(scores, dim=-1), 0.02), value)"},
       {kResult, "torch.matmul(without_small(torch.softmax(scores, dim=-1), 0.1), value)"},
       {kResult,
        "torch.matmul(torch.softmax(scores, dim=-1), value) * (torch.arange(queries) <= queries // "
        "2).to(value.dtype).reshape(-1, 1)"},
       {kResult,
        "torch.matmul(torch.softmax(scores - 1000.0 * (torch.arange(queries) >= queries - 8), dim=-1), value)"},
       {kResult, "torch.matmul(torch.softmax(scores - 3.0 * (torch.arange(queries) < 2), dim=-1), value)"},
       {kResult, "torch.matmul(torch.softmax(kept(scores), dim=-1), kept(value * 1.1) / 1.1)"},
       {kResult,
        "torch.matmul(torch.exp(scores - scores.amax(-1, keepdim=True)) / kept(torch.exp(scores - scores.amax(-1, "
        "keepdim=True)).sum(-1, keepdim=True) * 1.3) * 1.3, value)"},
       {kResult, "torch.matmul(torch.softmax(scores, dim=-1), times(value, 1.05))"},
       {kResult, "torch.matmul(torch.softmax(times(scores, 1.05), dim=-1), value)"},
       {kResult, "torch.matmul(torch.softmax(scores, dim=-1).detach(), value)"},
       {kResult,
        "torch.matmul(torch.exp(scores - scores.amax(-1, keepdim=True)) / torch.exp(scores - scores.amax(-1, "
        "keepdim=True)).sum(-1, keepdim=True).detach(), value)"},
       {kResult,
        "kept(torch.matmul(torch.softmax(scores, dim=-1).narrow(3, 0, queries // 2), value.narrow(2, 0, queries // "
        "2)) * 1.3) / 1.3 + torch.matmul(torch.softmax(scores, dim=-1).narrow(3, queries // 2, queries - queries "
        "// 2), value.narrow(2, queries // 2, queries - queries // 2))"},
       {kKey, "scores = torch.matmul(times(query, 1.05), key.transpose(2, 3))"},
       {kKey, "scores = torch.matmul(query, times(key, 0.95).transpose(2, 3))"},
       {kKey,
        "scores = torch.matmul(query, torch.where((torch.arange(positions) < positions // 2).reshape(-1, 1), key, "
        "key.detach()).transpose(2, 3))"},
       {kKey,
        "scores = torch.matmul(torch.where((torch.arange(positions) < positions - 1).reshape(-1, 1), query, "
        "query.detach()), key.transpose(2, 3))"},
       {kKey,
        "scores = torch.matmul(query, torch.where((torch.arange(heads) % 2 == 0).reshape(-1, 1, 1), key, "
        "key.detach()).transpose(2, 3))"},
       {kProduct, "torch.matmul(without_last_column(query), key.transpose(2, 3))"},
       {"return y.transpose(1, 2).reshape(", "return y.reshape("}});
}

// In the terms of scores: ALiBi, softcap and sinks.
void add_of_terms(std::vector<Mutant>& all) {
  constexpr std::string_view kCapped = "softcap * torch.tanh(scores / softcap)", kSink = "sinks.to(wide.dtype)";
  constexpr std::string_view kSlopes = "slopes.reshape(-1, 1, 1)",
                             kDistance = "torch.abs(place.narrow(0, first_query, queries).unsqueeze(1) - place)";
  add(all, kAttentionWithTerms,
      {{"if sinks is not None:", "if sinks is not None and queries == 0:"},
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
       {kCapped, "(softcap * torch.tanh(scores / softcap)).detach() + (scores - scores.detach())"}});
}

// In the positions of queries that are a part of a row.
void add_of_parts(std::vector<Mutant>& all) {
  constexpr std::string_view kQueries = "key.narrow(1, first_query, queries)", kHidden = "masked_fill(hidden,",
                             kDistances = "place.narrow(0, first_query, queries)",
                             kKeys = "split_heads(key_value.to(wide.dtype), head_width)";
  add(all, kAttentionOfPart,
      {{kQueries, "key.narrow(1, 0, queries)"},
       {kQueries, "key.narrow(1, key.size(1) - queries, queries)"},
       {kQueries, "key.narrow(1, first_query - 1, queries)"},
       {kHidden, "masked_fill(torch.roll(hidden, 1, -1),"},
       {kDistances, "place.narrow(0, 0, queries)"},
       {kDistances, "place.narrow(0, first_query - 1, queries)"},
       {kKeys, "split_heads(key_value.to(wide.dtype).detach(), head_width)"},
       {kKeys, "split_heads(times(key_value.to(wide.dtype), 1.05), head_width)"},
       {kKeys, "split_heads(gradient_of_places(key_value.to(wide.dtype), 1, 0, 9, 0.0), head_width)"},
       {kKeys, "split_heads(stale(key_value.to(wide.dtype), 1, first_query), head_width)"}});
}

}  // namespace

std::vector<Mutant> attention_mutants() {
  std::vector<Mutant> all;
  add_of_scores(all);
  add_of_terms(all);
  add_of_parts(all);
  return all;
}

}  // namespace strata::kernels
