// SPDX-License-Identifier: MIT
#include "trainer/data/images/image_mixing.h"

#include <ATen/ops/flip.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <cmath>

#include "base/draws.h"

namespace strata::trainer {
namespace {

// Returns the logarithm of a Gamma(shape, 1) variate, because the variate itself may be too small for a double. Source:
// Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000, with their method for shapes below 1.
double log_gamma_variate(double shape, Draws& draws) {
  if (shape < 1) return log_gamma_variate(shape + 1, draws) + std::log(draws.uniform()) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draws.normal(), cube_root = 1 + c * x;
    if (cube_root <= 0) continue;
    const double v = cube_root * cube_root * cube_root;
    if (std::log(draws.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

// Draws from Beta(shape, shape).
double symmetric_beta(double shape, Draws& draws) {
  const double first = log_gamma_variate(shape, draws), second = log_gamma_variate(shape, draws);
  return 1 / (1 + std::exp(second - first));
}

}  // namespace

ImageMix draw_image_mix(double mixup, double cutmix, uint64_t key, int64_t size) {
  if (mixup == 0 && cutmix == 0) return {};
  Draws draws(key);
  const bool cut = cutmix > 0 && (mixup == 0 || draws.uniform() < 0.5);
  ImageMix mix{.share = symmetric_beta(cut ? cutmix : mixup, draws)};
  if (!cut) return mix;
  // As in the paper, the center lies anywhere in the image, and the part of the box outside of the image is lost.
  const auto side = static_cast<int64_t>(static_cast<double>(size) * std::sqrt(1 - mix.share));
  const auto range = [&](int64_t& first, int64_t& count) {
    const int64_t center = draws.below(size);
    first = std::max<int64_t>(center - side / 2, 0);
    count = std::max<int64_t>(std::min(center + side / 2, size) - first, 0);
  };
  range(mix.top, mix.height);
  range(mix.left, mix.width);
  if (mix.width == 0) mix.height = 0;
  mix.share = 1 - static_cast<double>(mix.height * mix.width) / static_cast<double>(size * size);
  return mix;
}

Tensor share_of_pixels(const ImageMix& mix, int64_t size) {
  if (mix.height == 0) return at::full({size, size}, mix.share, at::kFloat);
  Tensor share = at::ones({size, size}, at::kFloat);
  share.narrow(0, mix.top, mix.height).narrow(1, mix.left, mix.width).zero_();
  return share;
}

Tensor swapped_in_pairs(const Tensor& rows) {
  return at::flip(rows.unflatten(0, {rows.size(0) / 2, 2}), {1}).flatten(0, 1);
}

Tensor mixed(const Tensor& images, const Tensor& share) { return at::lerp(swapped_in_pairs(images), images, share); }

}  // namespace strata::trainer
