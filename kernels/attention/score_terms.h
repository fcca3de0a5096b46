// SPDX-License-Identifier: MIT
// ScoreTerms: what changes the scores of attention beside its pattern. No LibTorch, because configurations have it too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::kernels {

// A score is the scaled product of a query and a key. In this order:
//   softcap  the score becomes softcap * tanh(score / softcap), as in Gemma 2 (2024).
//   alibi    slope of the head * |query - key| is subtracted, as in ALiBi (Press et al. 2022).
//   pattern  scores of pairs that are not visible become -infinity.
//   sinks    each query head has one more score, which takes part in the softmax and has no value, as in gpt-oss
//   (2025).
struct ScoreTerms {
  bool alibi = false;
  double softcap = 0;  // 0: none
  bool sinks = false;

  bool operator==(const ScoreTerms&) const = default;
  bool any() const { return *this != ScoreTerms{}; }
};

// Softcaps outside of these are refused. fp32 would lose what they do to a score.
inline constexpr double kLeastSoftcap = 1e-3, kMostSoftcap = 1e6;
constexpr bool is_softcap(double value) { return value == 0 || (value >= kLeastSoftcap && value <= kMostSoftcap); }

// As in "alibi, softcap 50, sinks"; "" without terms.
std::string to_text(const ScoreTerms& terms);

// The slopes of ALiBi, one for each query head: 2^(-8 h / heads) for h = 1, ..., heads if `heads` is a power of two.
// Otherwise they are as get_slopes in the code of the paper has them: the slopes of the power of two below, then every
// other one of twice as many heads, from the first on.
std::vector<double> alibi_slopes(int64_t heads);

}  // namespace strata::kernels
