// SPDX-License-Identifier: MIT
// Random documents for the rows of a call of attention.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/kernels/pattern/random_pattern.h"

namespace strata::kernels {

// The document of each position of each row, and the offsets that say them: AttentionMask.
struct Documents {
  std::vector<std::vector<int32_t>> row_ids;
  at::Tensor offsets;
};

inline Documents random_rows(Draws& draws, int64_t batch, int64_t positions) {
  Documents result;
  std::vector<int32_t> offsets = {0};
  for (int64_t row = 0; row < batch; ++row) {
    result.row_ids.push_back(random_documents(draws, positions));
    const std::vector<int32_t>& ids = result.row_ids.back();
    for (size_t i = 1; i <= ids.size(); ++i) {
      if (i == ids.size() || ids[i] != ids[i - 1])
        offsets.push_back(static_cast<int32_t>(row * positions) + static_cast<int32_t>(i));
    }
  }
  result.offsets = at::empty({static_cast<int64_t>(offsets.size())}, at::kInt);
  std::copy(offsets.begin(), offsets.end(), result.offsets.mutable_data_ptr<int32_t>());
  return result;
}

}  // namespace strata::kernels
