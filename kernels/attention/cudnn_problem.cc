// SPDX-License-Identifier: MIT
#include "kernels/attention/cudnn_problem.h"

#include <ATen/Context.h>

#include <algorithm>
#include <bit>

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

}  // namespace

CudnnProblem cudnn_problem(const Tensor& qkv, const AttentionOp::Shape& shape, bool backward) {
  const int64_t width = head_width_of(qkv, shape), queries = qkv.size(1), positions = shape.keys.count(queries);
  const auto type = qkv.scalar_type();
  require(type == at::kBFloat16 || type == at::kHalf, kOp, Level::cuda, "qkv is ", type,
          ", expected BFloat16 or Half; level aten takes it");
  require(width % 8 == 0 && width <= 256, kOp, Level::cuda, "qkv is ", qkv.sizes(), " and heads are ", width,
          " wide, expected a multiple of 8 up to 256; level aten takes it");
  require(queries > 1 || !shape.keys.key_value.defined(), kOp, Level::cuda,
          "the part of each row has 1 query, expected 2 or more; level aten takes it");
  const ScoreTerms terms = shape.terms.kinds();
  require(!terms.sinks || positions > 1, kOp, Level::cuda,
          "rows have 1 position, expected 2 or more with sinks; level aten takes it");
  // Other patterns and terms were refused before.
  const Band band = band_of(compile_program(shape.mask.pattern)).value();
  const int64_t behind = band.highest, ahead = -int64_t{band.lowest}, first_query = shape.keys.first_query;
  // The keys that the queries see. The first query is then `before` keys after the first key, and so the last query of
  // a pattern that sees no later keys is at the last key.
  const int64_t first_key = std::max<int64_t>(first_query - behind, 0), before = first_query - first_key;
  const int64_t end_key = std::min(first_query + queries + std::min(ahead, positions), positions);
  const bool at_end = ahead == 0 && shape.keys.key_value.defined();
  const int64_t shift = at_end ? 0 : before;
  // A bound that is farther than the row is long hides no pair.
  const auto bound = [&](int64_t farthest, int64_t value) {
    return farthest < positions ? value : CudnnProblem::kOpen;
  };
  const Tensor& key_value = shape.keys.key_value;
  CudnnProblem problem = {.backward = backward,
                          .device = qkv.get_device(),
                          .half = type == at::kHalf,
                          .deterministic = backward && at::globalContext().deterministicAlgorithms(),
                          .batch = qkv.size(0),
                          .queries = queries,
                          .heads = shape.heads,
                          .key_value_heads = shape.key_value_heads,
                          .width = width,
                          .query_width = qkv.size(2),
                          .key_width = key_value.defined() ? key_value.size(2) : qkv.size(2),
                          .key_rows = positions,
                          .first_key = first_key,
                          .keys = end_key - first_key,
                          .left = bound(behind, behind + 1 - shift),
                          .right = bound(ahead, ahead + shift),
                          .at_end = at_end,
                          .alibi = terms.alibi,
                          .sinks = terms.sinks,
                          .softcap = terms.softcap,
                          .documents = 0};
  if (shape.mask.document_offsets.defined()) {
    problem.documents =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(shape.mask.document_offsets.size(0) - 1)));
  }
  check_workspace(problem);
  return problem;
}

}  // namespace strata::kernels
