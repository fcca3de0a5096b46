// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/residues.h"

#include <algorithm>
#include <limits>
#include <span>

namespace strata::kernels {
namespace {

constexpr int64_t kLeastResiduePositions = 32;  // least positions of a residue
constexpr int64_t kMostRows = 128;              // no tile has more

bool is_split(int64_t positions, int64_t step, int64_t row_width) {
  return step > 1 && positions % step == 0 && positions / step >= kLeastResiduePositions &&
         step <= std::numeric_limits<int32_t>::max() / (kMostRows * row_width);
}

}  // namespace

Residues residues_of(const Pattern& pattern, int64_t positions, int64_t row_width) {
  using Kind = Pattern::Kind;
  const Residues all = {.step = 1, .pattern = pattern};
  const bool is_joined = pattern.kind == Kind::both;
  const Pattern* dilated = nullptr;
  int64_t reach = std::numeric_limits<int64_t>::max();  // distances that windows see are less than this
  bool causal = false;
  for (const Pattern& part : is_joined ? std::span<const Pattern>(pattern.parts) : std::span(&pattern, 1)) {
    if (part.kind == Kind::dilated && dilated == nullptr) {
      dilated = &part;
    } else if (part.kind == Kind::window) {
      reach = std::min(reach, part.n);
    } else if (part.kind == Kind::causal) {
      causal = true;
    } else if (part.kind != Kind::full) {
      return all;
    }
  }
  if (dilated == nullptr || !is_split(positions, dilated->step, row_width)) return all;
  const Pattern window = {.kind = Kind::window, .n = std::min(dilated->n, (reach - 1) / dilated->step + 1)};
  return {.step = dilated->step, .pattern = causal ? Pattern{.kind = Kind::causal} & window : window};
}

}  // namespace strata::kernels
