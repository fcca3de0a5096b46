// SPDX-License-Identifier: MIT
// The hash of blocks is the same everywhere, and its words are as uniform and independent as drawn numbers.
#include "kernels/attention/pattern/block_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace strata::kernels {
namespace {

constexpr int32_t kBlocks = 1024;
constexpr std::array<uint32_t, 6> kSeeds = {0, 1, 2, 3, 1u << 31, ~0u};

// Returns by how many standard deviations a count of `trials` events of this probability differs from its mean.
double deviations(double count, double trials, double probability) {
  return (count - trials * probability) / std::sqrt(trials * probability * (1 - probability));
}

// Returns by how many standard deviations the chi-square statistic of equally likely bins is above its mean.
template <class Counts>
double chi_square_deviations(const Counts& counts, double trials) {
  const double expected = trials / static_cast<double>(counts.size());
  double sum = 0;
  for (const int64_t count : counts)
    sum += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected);
  const double degrees = static_cast<double>(counts.size()) - 1;
  return (sum / expected - degrees) / std::sqrt(2 * degrees);
}

// By another implementation in Python, whose integers do not wrap.
TEST(BlockHash, FixedWords) {
  EXPECT_EQ(block_word(block_key(0), 0, 1), 0x1446605cu);
  EXPECT_EQ(block_word(block_key(0), 1, 0), 0x1a949cd5u);
  EXPECT_EQ(block_word(block_key(7), 3, 2047), 0x477086f6u);
  EXPECT_EQ(block_word(block_key(4294967295u), 33554431, 0), 0xaba2d923u);
  EXPECT_EQ(block_word(block_key(123456789), 1000, 1001), 0x429c8079u);
}

TEST(BlockHash, EachByteIsUniform) {
  for (const uint32_t seed : kSeeds) {
    std::array<std::array<int64_t, 256>, 4> counts = {};
    for (int32_t i = 0; i < kBlocks; ++i) {
      for (int32_t j = 0; j < kBlocks; ++j) {
        const uint32_t word = block_word(block_key(seed), i, j);
        for (size_t byte = 0; byte < 4; ++byte) ++counts[byte][word >> (8 * byte) & 255];
      }
    }
    for (const auto& byte_counts : counts)
      EXPECT_LT(std::abs(chi_square_deviations(byte_counts, kBlocks * kBlocks)), 5) << seed;
  }
}

TEST(BlockHash, RowsAndColumnsHaveTheDensity) {
  for (const uint32_t seed : kSeeds) {
    for (const double density : {0.01, 0.25, 0.9}) {
      std::array<int64_t, kBlocks> rows = {}, columns = {};
      int64_t all = 0;
      for (int32_t i = 0; i < kBlocks; ++i) {
        for (int32_t j = 0; j < kBlocks; ++j) {
          if (i == j || !sees_block(block_key(seed), block_threshold(density), i, j)) continue;
          ++rows[static_cast<size_t>(i)], ++columns[static_cast<size_t>(j)], ++all;
        }
      }
      EXPECT_LT(std::abs(deviations(double(all), double(kBlocks) * (kBlocks - 1), density)), 5)
          << seed << " " << density;
      // Sums of rows spread as sums of independent draws do, not less and not more.
      for (const auto& sums : {rows, columns}) {
        double squares = 0;
        for (const int64_t sum : sums) squares += std::pow(deviations(double(sum), kBlocks - 1, density), 2);
        EXPECT_LT(std::abs(squares - kBlocks) / std::sqrt(2.0 * kBlocks), 5) << seed << " " << density;
      }
    }
  }
}

// Rows, columns, the transpose and other seeds are no copies of each other, also not when they are shifted.
TEST(BlockHash, NothingRepeats) {
  const auto seen = [](uint32_t seed, int32_t i, int32_t j) { return block_word(block_key(seed), i, j) >> 31 == 0; };
  double worst = 0;
  for (const uint32_t seed : kSeeds) {
    for (int32_t shift = -8; shift <= 8; ++shift) {
      for (int32_t other = 0; other <= 2; ++other) {
        std::array<int64_t, 5> equal = {};
        for (int32_t i = 16; i < 144; ++i) {
          for (int32_t j = 16; j < 144; ++j) {
            const bool here = seen(seed, i, j);
            if (other != 0 || shift != 0) {
              equal[0] += here == seen(seed, i + other, j + shift);
              equal[1] += here == seen(seed, i + shift, j + other);
            }
            equal[2] += here == seen(seed, j + 200 + shift, i + 400 + other);
            equal[3] += here == seen(seed + 1 + static_cast<uint32_t>(other), i + shift, j + shift);
            equal[4] += here == seen(seed ^ 64u << other, i + shift, j);
          }
        }
        for (size_t kind = other == 0 && shift == 0 ? 2 : 0; kind < equal.size(); ++kind) {
          worst = std::max(worst, std::abs(deviations(double(equal[kind]), 128 * 128, 0.5)));
        }
      }
    }
  }
  EXPECT_LT(worst, 5);
  EXPECT_GT(worst, 1) << "nothing was compared";
}

TEST(BlockHash, Thresholds) {
  EXPECT_EQ(block_threshold(0), 0);
  EXPECT_EQ(block_threshold(0.25), 1 << 22);
  EXPECT_EQ(block_threshold(1), 1 << 24);
}

}  // namespace
}  // namespace strata::kernels
