// SPDX-License-Identifier: MIT
#include "tests/kernels/attention/prove_levels.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/attention/cuda_engines.h"
#include "kernels/attention/pattern_levels.h"
#include "kernels/level_matrix.h"
#include "kernels/proof/evaluation.h"
#include "tests/kernels/attention/proved_call.h"

namespace strata::kernels {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

std::vector<Level> levels_on(c10::DeviceType device) {
  std::vector<Level> levels;
  for (const LevelRow& row : level_matrix()) {
    if (row.op == "attention" && row.device == device && row.forward) levels.push_back(row.level);
  }
  return levels;
}

// Returns why a level must refuse the call, or nothing.
std::string why_not(Level level, const AttentionShape& s, at::ScalarType dtype) {
  // A level asks first for what a part of a row needs, so its sentence names this reason where there are several.
  std::string reason = s.queries > 0 ? why_not_part(level, s.pattern, s.terms, s.head_width) : "";
  if (reason.empty()) reason = why_not_heads(level, dtype != at::kFloat, s.head_width);
  if (reason.empty()) reason = why_not_pattern(level, s.pattern, s.head_width);
  if (reason.empty()) reason = why_not_terms(level, s.pattern, s.terms, s.head_width);
  return reason;
}

// cuDNN takes neither one query nor sinks with one position, and the split of a prefix may need one of them. Level cuda
// is proved on Hopper GPUs.
bool may_be_one_query(Level level, const AttentionShape& s) {
  const CudaCall call = {s.pattern, s.terms, s.head_width, s.queries > 0};
  const bool by_cudnn = level == Level::cuda && cuda_engine(call, /*on_hopper=*/true) == CudaEngine::cudnn;
  return by_cudnn && (s.positions <= 3 || s.queries > 0);
}

struct Count {
  int proved = 0, refused = 0, without_package = 0;
};

void prove(const RandomAttention& call, const ProvedCall& proved, at::ScalarType dtype, c10::DeviceType device,
           Level level, Count& count) {
  const std::string expected = why_not(level, call.shape, dtype);
  std::vector<Tensor> values;
  try {
    for (const Value& value : evaluate(call.op_case, level, {.dtype = dtype, .device = device})) {
      values.push_back(value.value);
    }
  } catch (const c10::Error& error) {
    const std::string_view sentence = error.what_without_backtrace();
    if (level == Level::aot_inductor && sentence.find("there is no package of") != std::string_view::npos) {
      ++count.without_package;
      return;
    }
    const bool is_its_own = sentence.starts_with("attention/" + std::string(name(level)) + ": ");
    const bool is_expected =
        expected.empty() ? may_be_one_query(level, call.shape) : sentence.find(expected) != std::string_view::npos;
    EXPECT_TRUE(is_its_own && is_expected)
        << "refused, and should be " << (expected.empty() ? "proved" : expected) << ": " << sentence;
    ++count.refused;
    return;
  }
  EXPECT_EQ(expected, "") << "and the level took it";
  const std::string refusal = proved.refusal(values);
  EXPECT_EQ(refusal, "");
  count.proved += refusal.empty() ? 1 : 0;
}

// A level that refuses nearly everything would pass without a proof.
int fewest_proofs(Level level) {
  switch (level) {
    case Level::aot_inductor:  // some packages exist
      return kExpressionsOfAPart / 10;
    case Level::cuda:  // in 16 bits, bands and prefixes, and with heads of 64 and 128 all patterns without other terms
      return kExpressionsOfAPart / 8;
    default:
      return kExpressionsOfAPart;
  }
}

}  // namespace

void prove_levels(c10::DeviceType device, int part, int64_t most_positions) {
  Draws draws(static_cast<uint64_t>(part));
  at::manual_seed(static_cast<uint64_t>(part));
  const std::vector<Level> levels = levels_on(device);
  std::map<Level, Count> counts;
  for (int i = 0; i < kExpressionsOfAPart; ++i) {
    const RandomAttention call = random_attention(draws, most_positions);
    const at::ScalarType dtype = kTypes[i % std::size(kTypes)];
    const ProvedCall proved(call, dtype);
    for (const Level level : levels) {
      SCOPED_TRACE("level " + std::string(name(level)) + ", " + c10::toString(dtype) + ", expression " +
                   std::to_string(i) + ": " + call.text());
      prove(call, proved, dtype, device, level, counts[level]);
    }
  }
  for (const auto& [level, count] : counts) {
    std::printf("level %s: %d of %d expressions proved, %d refused, %d without a package\n",
                std::string(name(level)).c_str(), count.proved, kExpressionsOfAPart, count.refused,
                count.without_package);
    EXPECT_GE(count.proved, fewest_proofs(level)) << name(level);
  }
}

}  // namespace strata::kernels
