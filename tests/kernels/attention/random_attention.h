// SPDX-License-Identifier: MIT
// RandomAttention: a call of attention with a random expression, random documents, terms and sizes.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/attention/attention_shape.h"
#include "kernels/proof/op_case.h"
#include "tests/kernels/attention/random_rows.h"

namespace strata::kernels {

struct RandomAttention {
  AttentionShape shape;
  Documents documents;  // documents of every row, also if the pattern does not read them
  OpCase op_case;       // its inputs are drawn by ATen's generator

  std::string text() const { return shape.text(); }
};

// `most_positions`: of a row. Wide calls of many heads have fewer, so that loops over their pairs take milliseconds.
RandomAttention random_attention(Draws& draws, int64_t most_positions);

}  // namespace strata::kernels
