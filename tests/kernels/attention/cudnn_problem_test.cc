// SPDX-License-Identifier: MIT
// The calls of cuDNN for a pattern compute each visible pair once and no other pair.
#include "kernels/attention/cudnn/cudnn_problem.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/visible.h"

namespace strata::kernels {
namespace {

constexpr int64_t kBatch = 3, kHeads = 3, kKeyValueHeads = 1, kWidth = 8;

// The queries first_query, first_query + 1, ... of rows of `positions`, which are all of them or a part.
struct Call {
  Pattern pattern;
  int64_t positions, first_query, queries;
  bool is_part;

  std::vector<CudnnProblem> problems(bool backward, const AttentionTerms& terms = {}) const {
    const auto options = at::TensorOptions(at::kBFloat16);
    const int64_t query_columns = kHeads * kWidth, key_columns = 2 * kKeyValueHeads * kWidth;
    const Tensor qkv = at::empty({kBatch, queries, query_columns + (is_part ? 0 : key_columns)}, options);
    const Tensor key_value = is_part ? at::empty({kBatch, positions, key_columns}, options) : Tensor();
    return cudnn_problems(qkv, {kHeads, kKeyValueHeads, {pattern}, terms, {key_value, first_query}}, backward);
  }
};

// As CudnnProblem explains the bounds: `query` and `key` are numbers within the call.
bool sees(const CudnnProblem& p, int64_t query, int64_t key) {
  const int64_t ahead = p.at_end != 0 ? (query - p.queries) - (key - p.keys) : query - key;
  return (p.left == CudnnProblem::kOpen || ahead < p.left) && (p.right == CudnnProblem::kOpen || -ahead <= p.right);
}

// Counts how often each pair is computed: [queries * positions].
std::vector<int> computed(const Call& call, const std::vector<CudnnProblem>& problems) {
  std::vector<int> times(call.queries * call.positions);
  for (const CudnnProblem& p : problems) {
    for (int64_t query = 0; query < p.queries; ++query) {
      for (int64_t key = 0; key < p.keys; ++key) {
        times.at((p.first_query + query) * call.positions + p.first_key + key) += sees(p, query, key);
      }
    }
  }
  return times;
}

std::vector<int> visible(const Call& call) {
  std::vector<int> pairs;
  for (int64_t query = 0; query < call.queries; ++query) {
    for (int64_t key = 0; key < call.positions; ++key) {
      pairs.push_back(kernels::sees(call.pattern, call.first_query + query, key));
    }
  }
  return pairs;
}

std::vector<Pattern> patterns(int64_t positions) {
  std::vector<Pattern> all;
  for (const char* text : {"full", "causal", "window(3)", "causal & window(3)", "prefix(2) | causal | prefix(4)"}) {
    all.push_back(parse_pattern(text));
  }
  for (int64_t n = 1; n <= positions + 2; ++n) {
    all.push_back(parse_pattern("causal | prefix(" + std::to_string(n) + ")"));
  }
  return all;
}

std::vector<Call> calls() {
  std::vector<Call> all;
  for (int64_t positions = 1; positions <= 9; ++positions) {
    for (const Pattern& pattern : patterns(positions)) {
      all.push_back({pattern, positions, 0, positions, /*is_part=*/false});
      for (int64_t first = 0; first < positions; ++first) {
        for (int64_t queries = 1; first + queries <= positions; ++queries) {
          all.push_back({pattern, positions, first, queries, /*is_part=*/true});
        }
      }
    }
  }
  return all;
}

// One query of a call, or three of which one is on its own side of a prefix and the middle one is the last of it.
bool is_refused(const Call& call) {
  if (call.queries == 1) return call.is_part;
  const bool has_prefix = call.pattern.kind == Pattern::Kind::either;
  if (!has_prefix || call.queries != 3) return false;
  int64_t prefix = 0;
  for (const Pattern& part : call.pattern.parts) {
    if (part.kind == Pattern::Kind::prefix) prefix = std::max(prefix, part.n);
  }
  return call.first_query + 2 == prefix;
}

std::string text_of(const Call& call) {
  return to_text(call.pattern) + ", queries " + std::to_string(call.first_query) + " to " +
         std::to_string(call.first_query + call.queries - 1) + " of " + std::to_string(call.positions);
}

TEST(CudnnProblems, ComputeEachVisiblePairOnce) {
  for (const bool backward : {false, true}) {
    int refused = 0, in_two_calls = 0;
    for (const Call& call : calls()) {
      SCOPED_TRACE(text_of(call) + (backward ? ", backward" : ""));
      if (is_refused(call)) {
        EXPECT_THROW(call.problems(backward), c10::ValueError);
        ++refused;
        continue;
      }
      const std::vector<CudnnProblem> problems = call.problems(backward);
      EXPECT_EQ(computed(call, problems), visible(call));
      in_two_calls += problems.size() > 1;
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(in_two_calls, 100);
  }
}

// The softmax of a query is over all its keys. Its sink counts once in either direction.
TEST(CudnnProblems, HaveEachQueryOnce) {
  const AttentionTerms sinks = {.sinks = at::empty({kHeads}, at::kBFloat16)};
  for (const Call& call : calls()) {
    if (is_refused(call) || call.positions == 1) continue;
    SCOPED_TRACE(text_of(call));
    const std::vector<int> once(call.queries, 1);
    for (const bool backward : {false, true}) {
      std::vector<int> queries(call.queries), with_sinks(call.queries);
      for (const CudnnProblem& p : call.problems(backward, sinks)) {
        for (int64_t query = p.first_query; query < p.first_query + p.queries; ++query) {
          ++queries.at(query);
          with_sinks.at(query) += p.sinks != 0;
        }
      }
      EXPECT_TRUE(backward || queries == once);
      EXPECT_EQ(with_sinks, once) << backward;
    }
  }
}

// The first call writes the gradients of all keys that are seen, and of all queries or of all but those of the second.
TEST(CudnnProblems, WriteEachGradient) {
  for (const Call& call : calls()) {
    if (is_refused(call)) continue;
    SCOPED_TRACE(text_of(call));
    const std::vector<CudnnProblem> problems = call.problems(/*backward=*/true);
    ASSERT_LE(problems.size(), 2);
    const CudnnProblem &first = problems.front(), &second = problems.back();
    EXPECT_LE(first.first_key, second.first_key);
    EXPECT_GE(first.first_key + first.keys, second.first_key + second.keys);
    EXPECT_EQ(std::max(first.first_query + first.queries, second.first_query + second.queries), call.queries);
    EXPECT_EQ(std::min(first.first_query, second.first_query), 0);
  }
}

// So layers with causal attention have the same graph.
TEST(CudnnProblems, HaveAllCausalPairsInOneCallOfTheBackward) {
  const AttentionTerms terms = {.softcap = 5, .sinks = at::empty({kHeads}, at::kBFloat16)};
  Call call = {parse_pattern("causal | prefix(4)"), 8, 0, 8, /*is_part=*/false};
  const std::vector<CudnnProblem> problems = call.problems(/*backward=*/true, terms);
  call.pattern = parse_pattern("causal");
  const std::vector<CudnnProblem> causal = call.problems(/*backward=*/true, terms);
  ASSERT_EQ(problems.size(), 2);
  ASSERT_EQ(causal.size(), 1);
  EXPECT_TRUE(problems[0] == causal[0]);
  CudnnProblem above = causal[0];
  above.queries = above.keys = 3;
  above.first_key = 1;
  above.left = 1;
  above.right = 2;
  above.sinks = 0;
  above.grad_query_rows = {kHeads * kWidth, 3};
  above.grad_key_rows = {2 * kKeyValueHeads * kWidth, 3};
  EXPECT_TRUE(problems[1] == above);
}

TEST(CudnnProblems, WriteGradientsOfTheSecondCallApart) {
  const Call call = {parse_pattern("causal | prefix(4)"), 8, 2, 6, /*is_part=*/true};
  const std::vector<CudnnProblem> both = call.problems(/*backward=*/true);
  ASSERT_EQ(both.size(), 2);
  using Rows = CudnnProblem::Rows;
  const Rows queries = {kHeads * kWidth, 6}, keys = {2 * kKeyValueHeads * kWidth, 8};
  for (const CudnnProblem& p : both) {
    EXPECT_EQ(p.query_rows, queries);
    EXPECT_EQ(p.key_rows, keys);
  }
  EXPECT_EQ(both[0].grad_query_rows, queries);
  EXPECT_EQ(both[0].grad_key_rows, keys);
  EXPECT_EQ(both[1].grad_query_rows, (Rows{kHeads * kWidth, 2}));
  EXPECT_EQ(both[1].grad_key_rows, (Rows{2 * kKeyValueHeads * kWidth, 4}));
}

TEST(CudnnProblems, RefuseOneQuery) {
  const Call call = {parse_pattern("causal | prefix(2)"), 3, 0, 3, /*is_part=*/false};
  try {
    call.problems(/*backward=*/false);
    FAIL() << "it was not refused";
  } catch (const c10::ValueError& error) {
    EXPECT_STREQ(
        error.what_without_backtrace(),
        "attention/cuda: cuDNN would get 1 query at position 0 of each row of 3, expected 2 or more; level aten "
        "takes it");
  }
}

}  // namespace
}  // namespace strata::kernels
