// SPDX-License-Identifier: MIT
#include "modules/rotary_tables.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

namespace strata::modules {
namespace {

TEST(RotaryTables, HaveARowForEachPositionOfPackedDocuments) {
  TransformerConfig config;
  config.width = 32;
  config.heads = 4;
  const RotaryTables tables = rotary_tables(config, /*length=*/4);
  const Tensor positions = at::tensor({0, 1, 0, 0, 1, 2, 3, 0}, at::kLong).view({2, 4});
  const RotaryTables rows = rows_of(tables, positions);
  ASSERT_EQ(rows.cosine.sizes(), (at::IntArrayRef{8, 4}));
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t position = positions.flatten()[i].item<int64_t>();
    EXPECT_TRUE(rows.cosine[i].equal(tables.cosine[position])) << i;
    EXPECT_TRUE(rows.sine[i].equal(tables.sine[position])) << i;
  }
  EXPECT_FALSE(rows.sine[1].equal(rows.sine[0]));
}

}  // namespace
}  // namespace strata::modules
