// SPDX-License-Identifier: MIT
#include "trainer/data/image_mixing.h"

#include <ATen/ops/lerp.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trainer/data/permutation.h"

namespace strata::trainer {
namespace {

// The random numbers of one key, one after another.
class Draws {
 public:
  explicit Draws(uint64_t key) : key_(key) {}

  // In (0, 1).
  double uniform() { return (static_cast<double>(mix(key_, next_++) >> 11) + 0.5) * 0x1p-53; }

  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

  // The logarithm of a number of Gamma(shape, 1), which itself may be too small for a double: Marsaglia and Tsang, A
  // Simple Method for Generating Gamma Variables, 2000, with their way for shapes below 1.
  double log_gamma_variate(double shape) {
    if (shape < 1) return log_gamma_variate(shape + 1) + std::log(uniform()) / shape;
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = normal(), cube_root = 1 + c * x;
      if (cube_root <= 0) continue;
      const double v = cube_root * cube_root * cube_root;
      if (std::log(uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
    }
  }

  // Of Beta(shape, shape).
  double symmetric_beta(double shape) {
    const double first = log_gamma_variate(shape), second = log_gamma_variate(shape);
    return 1 / (1 + std::exp(second - first));
  }

 private:
  uint64_t key_, next_ = 0;
};

}  // namespace

ImageMix draw_image_mix(double mixup, double cutmix, uint64_t key, int64_t size) {
  if (mixup == 0 && cutmix == 0) return {};
  Draws draws(key);
  const bool cut = cutmix > 0 && (mixup == 0 || draws.uniform() < 0.5);
  ImageMix mix{.share = draws.symmetric_beta(cut ? cutmix : mixup)};
  if (!cut) return mix;
  // As the paper has it: the centre lies anywhere in the image, and what of the box lies outside of it is lost.
  const auto side = static_cast<int64_t>(static_cast<double>(size) * std::sqrt(1 - mix.share));
  const auto range = [&](int64_t& first, int64_t& count) {
    const auto centre = static_cast<int64_t>(draws.uniform() * static_cast<double>(size));
    first = std::max<int64_t>(centre - side / 2, 0);
    count = std::max<int64_t>(std::min(centre + side / 2, size) - first, 0);
  };
  range(mix.top, mix.height);
  range(mix.left, mix.width);
  if (mix.width == 0) mix.height = 0;
  mix.share = 1 - static_cast<double>(mix.height * mix.width) / static_cast<double>(size * size);
  return mix;
}

Tensor mixed(Tensor images, const Tensor& partners, const ImageMix& mix) {
  if (mix.share == 1) return images;
  if (mix.height == 0) return at::lerp(partners, images, mix.share);
  const auto box = [&](const Tensor& whole) {
    return whole.narrow(2, mix.top, mix.height).narrow(3, mix.left, mix.width);
  };
  box(images).copy_(box(partners));
  return images;
}

}  // namespace strata::trainer
