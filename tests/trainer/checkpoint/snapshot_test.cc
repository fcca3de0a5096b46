// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/snapshot.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/errors.h"

namespace strata::trainer {
namespace {

TensorPiece piece_of(at::ScalarType dtype, int64_t count, int64_t first) {
  return {"a", {count}, 0, at::arange(first, first + count, at::TensorOptions(dtype))};
}

std::vector<TensorPiece> pieces_from(int64_t first) {
  return {piece_of(at::kFloat, 17, first), piece_of(at::kBFloat16, 3, first), piece_of(at::kFloat, 0, first),
          piece_of(at::kDouble, 5, first), piece_of(at::kLong, 100, first)};
}

const void* address(const TensorPiece& piece) { return piece.data.const_data_ptr(); }

TEST(Snapshot, HoldsTheValuesOfThatMomentInOneArena) {
  Snapshot snapshot;
  EXPECT_EQ(snapshot.bytes(), 0);
  snapshot.wait();
  for (const int64_t first : {0, 50, 20}) {
    const std::vector<TensorPiece> pieces = pieces_from(first);
    snapshot.take(pieces);
    for (const TensorPiece& piece : pieces) piece.data.zero_();  // training continues
    snapshot.wait();
    const std::vector<TensorPiece> expected = pieces_from(first);
    ASSERT_EQ(snapshot.pieces().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(at::equal(snapshot.pieces()[i].data, expected[i].data)) << first << ", piece " << i;
      EXPECT_EQ(snapshot.pieces()[i].data.scalar_type(), expected[i].data.scalar_type());
    }
  }
  EXPECT_FALSE(snapshot.copies().has_value());
  EXPECT_EQ(snapshot.bytes(), 128 + 64 + 0 + 64 + 832);  // 68, 6, 0, 40 and 800 bytes in whole lines of the cache
  const char* begin = static_cast<const char*>(address(snapshot.pieces()[0]));
  EXPECT_EQ(address(snapshot.pieces()[1]), begin + 128);
  EXPECT_EQ(address(snapshot.pieces()[3]), begin + 192);
  EXPECT_EQ(address(snapshot.pieces()[4]), begin + 256);
}

TEST(Snapshot, AllocatesOnlyWhenItNeedsMore) {
  Snapshot snapshot;
  snapshot.reserve({piece_of(at::kFloat, 1000, 0)});
  EXPECT_EQ(snapshot.bytes(), 4032);
  snapshot.take({piece_of(at::kFloat, 1000, 0)});
  const void* const memory = address(snapshot.pieces()[0]);
  snapshot.take({piece_of(at::kFloat, 10, 0), piece_of(at::kFloat, 900, 0)});
  EXPECT_EQ(address(snapshot.pieces()[0]), memory);
  EXPECT_EQ(snapshot.bytes(), 4032);
  snapshot.take({piece_of(at::kFloat, 1009, 0)});
  EXPECT_EQ(snapshot.bytes(), 4096);
  EXPECT_TRUE(at::equal(snapshot.pieces()[0].data, piece_of(at::kFloat, 1009, 0).data));
}

TEST(Snapshot, RefusesPiecesThatAreNotFlat) {
  Snapshot snapshot;
  const at::Tensor matrix = at::zeros({4, 4});
  EXPECT_THROW(snapshot.take({{"a", {4, 4}, 0, matrix}}), Error);
  EXPECT_THROW(snapshot.take({{"a", {4, 4}, 0, matrix.select(1, 0)}}), Error);
}

}  // namespace
}  // namespace strata::trainer
