// SPDX-License-Identifier: MIT
#include "tests/kernels/mutants/attention_mutants.h"

#include <string_view>

namespace strata::kernels {

std::vector<Mutant> attention_mutants() {
  constexpr std::string_view kScale = "float(head_width) ** -0.5",
                             kProduct = "torch.matmul(query, key.transpose(2, 3))";
  constexpr std::string_view kResult = "torch.matmul(torch.softmax(scores, dim=-1), value)";
  constexpr std::string_view kKey = "scores = torch.matmul(query, key.transpose(2, 3))";
  return mutants_of(
      "attention/attention", "attention",
      {{kScale, "float(head_width) ** -0.45"},
       {kScale, "1.02 * float(head_width) ** -0.5"},
       {"(query - key >= first)", "(query - key >= first - 1)"},
       {"(query - key <= second)", "(query - key <= second + 1)"},
       {"(query - key <= second)", "(query - key <= second - 1)"},
       {"(query - key <= second)", "(query - key <= second + 1000)"},
       {"right=True", "right=False"},
       {"of_query.unsqueeze(2) == document.unsqueeze(1)", "of_query.unsqueeze(2) >= document.unsqueeze(1)"},
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

}  // namespace strata::kernels
