// SPDX-License-Identifier: MIT
#include "kernels/attention/cudnn/cudnn_problem.h"

#include <ATen/Context.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/attention/pattern/program.h"
#include "kernels/attention/split_heads.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

constexpr auto kOp = AttentionOp::kName;

void check_workspace(const CudnnProblem& p) {
  if (!p.backward || !p.deterministic || p.documents == 0) return;
  constexpr int64_t kGiB = int64_t{1} << 30, kMost = 16 * kGiB;
  require(p.backward_workspace() <= kMost, kOp, Level::cuda, "the deterministic backward of ", p.documents,
          " documents in rows of ", p.keys, " positions takes ", p.backward_workspace() / kGiB,
          " GiB in cuDNN, expected at most ", kMost / kGiB, "; level triton is always deterministic and takes none");
}

// A part of a pattern: queries of a row that see the keys of one band, among the first `keys` of the row.
struct PatternPart {
  int64_t first_query, end_query, keys;
  Band band = {};
  bool has_sinks = true;  // if there are any; each query's sink is in one part
};

// Each query is in one part. The first part sees all keys.
std::vector<PatternPart> parts_by_query(int64_t prefix, int64_t first_query, int64_t end_query, int64_t positions) {
  // The last query of the prefix is also causal. So it may be in either part, and no part has this query alone.
  const bool alone = prefix - first_query == 1 || end_query - prefix == 1;
  const int64_t border = std::clamp(alone ? prefix - 1 : prefix, first_query, end_query);
  std::vector<PatternPart> parts;
  if (border < end_query || border == first_query) parts.push_back({border, end_query, positions, Band{.lowest = 0}});
  if (border > first_query) parts.push_back({first_query, border, prefix});
  return parts;
}

// All causal pairs of whole rows, for which cuDNN's backward is fast, and then those above the diagonal. These have two
// bounds, as windows have, although none is farther apart.
std::vector<PatternPart> parts_by_diagonal(int64_t prefix, int64_t positions) {
  const Band above = {.lowest = static_cast<int32_t>(1 - prefix), .highest = -1};
  return {{0, positions, positions, Band{.lowest = 0}}, {0, prefix - 1, prefix, above, /*has_sinks=*/false}};
}

// Other patterns do not come here: attention_cuda.cc asks why_not_cudnn() first.
std::vector<PatternPart> parts_of(const Program& program, int64_t first_query, int64_t end_query, int64_t positions,
                                  bool backward) {
  if (const std::optional<Band> band = band_of(program)) return {{first_query, end_query, positions, *band}};
  const int64_t prefix = std::min<int64_t>(causal_prefix_of(program).value(), positions);
  const bool has_whole_rows = end_query - first_query == positions;
  // With prefix(2) a single pair would be above the diagonal, which cuDNN does not take.
  const bool by_diagonal = backward && has_whole_rows && prefix > 2 && prefix < positions;
  return by_diagonal ? parts_by_diagonal(prefix, positions) : parts_by_query(prefix, first_query, end_query, positions);
}

CudnnProblem problem_of(const PatternPart& part, const Tensor& qkv, const AttentionOp::Arguments& arguments,
                        bool backward) {
  const int64_t first_query = part.first_query, end_query = part.end_query, keys = part.keys;
  const int64_t behind = part.band.highest, ahead = -int64_t{part.band.lowest};
  // The keys that the queries see. The first query is then `before` keys after the first key, and so the last query of
  // a pattern that sees no later keys is at the last key.
  const int64_t first_key = std::max<int64_t>(first_query - behind, 0), before = first_query - first_key;
  const int64_t end_key = std::min(end_query + std::min(ahead, keys), keys);
  const bool at_end = ahead == 0 && before > 0;
  const int64_t shift = at_end ? 0 : before;
  // A bound that is farther than the row is long hides no pair.
  const auto bound = [&](int64_t farthest, int64_t value) { return farthest < keys ? value : CudnnProblem::kOpen; };
  const Tensor& key_value = arguments.keys.key_value;
  const CudnnProblem::Rows query_rows = {qkv.size(2), qkv.size(1)},
                           key_rows = key_value.defined() ? CudnnProblem::Rows{key_value.size(2), key_value.size(1)}
                                                          : query_rows;
  const ScoreTerms terms = arguments.terms.kinds();
  const Tensor& offsets = arguments.mask.document_offsets;
  return {.backward = backward,
          .device = qkv.get_device(),
          .half = qkv.scalar_type() == at::kHalf,
          .deterministic = backward && at::globalContext().deterministicAlgorithms(),
          .batch = qkv.size(0),
          .heads = arguments.heads,
          .key_value_heads = arguments.key_value_heads,
          .width = head_width_of(qkv, arguments),
          .query_rows = query_rows,
          .grad_query_rows = query_rows,
          .first_query = first_query - arguments.keys.first_query,
          .queries = end_query - first_query,
          .key_rows = key_rows,
          .grad_key_rows = key_rows,
          .first_key = first_key,
          .keys = end_key - first_key,
          .left = bound(behind, behind + 1 - shift),
          .right = bound(ahead, ahead + shift),
          .at_end = at_end,
          .alibi = terms.alibi,
          .sinks = terms.sinks && part.has_sinks,
          .softcap = terms.softcap,
          .documents =
              offsets.defined() ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(offsets.size(0) - 1))) : 0};
}

}  // namespace

std::vector<CudnnProblem> cudnn_problems(const Tensor& qkv, const AttentionOp::Arguments& arguments, bool backward) {
  const int64_t width = head_width_of(qkv, arguments), queries = qkv.size(1), positions = arguments.keys.count(queries);
  require(!arguments.terms.sinks.defined() || positions > 1, kOp, Level::cuda,
          "rows have 1 position, expected 2 or more with sinks; level aten takes it");
  const bool is_one_position = positions == 1 && !arguments.keys.key_value.defined();
  const int64_t first_query = arguments.keys.first_query;
  std::vector<CudnnProblem> problems;
  for (const PatternPart& part :
       parts_of(compile_program(arguments.mask.pattern), first_query, first_query + queries, positions, backward)) {
    CudnnProblem problem = problem_of(part, qkv, arguments, backward);
    require(problem.queries != 1 || is_one_position, kOp, Level::cuda, "cuDNN would get 1 query at position ",
            part.first_query, " of each row of ", positions, ", expected 2 or more; level aten takes it");
    check_workspace(problem);
    if (!problems.empty()) {
      problem.grad_query_rows = {problem.heads * width, problem.queries};
      problem.grad_key_rows = {2 * problem.key_value_heads * width, problem.keys};
    }
    problems.push_back(problem);
  }
  return problems;
}

}  // namespace strata::kernels
