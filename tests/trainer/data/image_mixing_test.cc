// SPDX-License-Identifier: MIT
#include "trainer/data/images/image_mixing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace strata::trainer {
namespace {

constexpr int64_t kSize = 10, kDraws = 20000;

constexpr int64_t kCount = 6;

Tensor images() { return at::arange(kCount * 2 * kSize * kSize, at::kFloat).view({kCount, 2, kSize, kSize}); }

TEST(ImageMixing, IsNoneWhereNothingIsAskedFor) {
  const ImageMix mix = draw_image_mix(0, 0, 7, kSize);
  EXPECT_EQ(mix.share, 1);
  EXPECT_TRUE(at::equal(mixed(images(), share_of_pixels(mix, kSize)), images()));
}

TEST(ImageMixing, TakesImagesInPairs) {
  const Tensor swapped = swapped_in_pairs(images());
  for (int64_t i = 0; i < kCount; ++i) EXPECT_TRUE(at::equal(swapped[i], images()[i ^ 1])) << i;
  const Tensor labels = at::arange(kCount);
  EXPECT_EQ(swapped_in_pairs(labels)[2].item<int64_t>(), 3);
  EXPECT_EQ(swapped_in_pairs(labels)[3].item<int64_t>(), 2);
}

TEST(ImageMixing, OfSharesHasTheMeanAndVarianceOfBeta) {
  for (const double alpha : {0.05, 0.2, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    for (uint64_t key = 0; key < kDraws; ++key) {
      const ImageMix mix = draw_image_mix(alpha, 0, key, kSize);
      ASSERT_GE(mix.share, 0);
      ASSERT_LE(mix.share, 1);
      EXPECT_EQ(mix.height, 0);
      sum += mix.share;
      squares += (mix.share - 0.5) * (mix.share - 0.5);
    }
    // The bound is 4 deviations. The variance of the squares is at most 1 / 16.
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kDraws, 0.5, 4 * std::sqrt(variance / kDraws)) << alpha;
    EXPECT_NEAR(squares / kDraws, variance, 4 * 0.25 / std::sqrt(kDraws)) << alpha;
  }
}

TEST(ImageMixing, OfAShareAddsBothImages) {
  const Tensor share = share_of_pixels({.share = 0.3}, kSize);
  EXPECT_NEAR(share.mean().item<double>(), 0.3, 1e-6);
  const Tensor expected = 0.3 * images().to(at::kDouble) + 0.7 * swapped_in_pairs(images()).to(at::kDouble);
  EXPECT_LT((mixed(images(), share) - expected).abs().max().item<double>(), 1e-3);
}

TEST(ImageMixing, OfABoxShowsTheOtherImageInIt) {
  const ImageMix mix = {.share = 1 - 3.0 * 4 / (kSize * kSize), .top = 2, .left = 5, .height = 3, .width = 4};
  const Tensor share = share_of_pixels(mix, kSize), seen = mixed(images(), share);
  EXPECT_NEAR(share.mean().item<double>(), mix.share, 1e-6);
  for (int64_t y = 0; y < kSize; ++y) {
    for (int64_t x = 0; x < kSize; ++x) {
      const bool inside = y >= 2 && y < 5 && x >= 5 && x < 9;
      const Tensor shown = inside ? swapped_in_pairs(images()) : images();
      EXPECT_TRUE(at::equal(seen.select(3, x).select(2, y), shown.select(3, x).select(2, y))) << y << ' ' << x;
    }
  }
}

TEST(ImageMixing, BoxesLieInsideAndTheirAreaIsTheShareOfTheOther) {
  double height = 0;
  std::array<int64_t, kSize> rows{}, columns{};
  for (uint64_t key = 0; key < kDraws; ++key) {
    const ImageMix mix = draw_image_mix(0, 1, key, kSize);
    ASSERT_GE(mix.top, 0);
    ASSERT_GE(mix.left, 0);
    ASSERT_LE(mix.top + mix.height, kSize);
    ASSERT_LE(mix.left + mix.width, kSize);
    ASSERT_NEAR(mix.share, 1 - static_cast<double>(mix.height * mix.width) / (kSize * kSize), 1e-12);
    height += static_cast<double>(mix.height);
    for (int64_t y = mix.top; y < mix.top + mix.height; ++y) ++rows[static_cast<size_t>(y)];
    for (int64_t x = mix.left; x < mix.left + mix.width && mix.height > 0; ++x) ++columns[static_cast<size_t>(x)];
  }
  EXPECT_GT(height / kDraws, 2);
  EXPECT_GT(*std::min_element(rows.begin(), rows.end()), kDraws / 20);
  EXPECT_GT(*std::min_element(columns.begin(), columns.end()), kDraws / 20);
}

TEST(ImageMixing, TakesTurnsWhereBothAreAskedFor) {
  int64_t boxes = 0, shares = 0;
  for (uint64_t key = 0; key < kDraws; ++key) {
    const ImageMix mix = draw_image_mix(1, 1, key, 224);
    (mix.height > 0 ? boxes : shares) += 1;
  }
  EXPECT_NEAR(static_cast<double>(boxes) / static_cast<double>(shares), 1, 0.06);
  EXPECT_EQ(draw_image_mix(1, 1, 3, 224).share, draw_image_mix(1, 1, 3, 224).share);
}

}  // namespace
}  // namespace strata::trainer
