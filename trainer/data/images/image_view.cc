// SPDX-License-Identifier: MIT
#include "trainer/data/images/image_view.h"

#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace strata::trainer {
namespace {

using at::Tensor;

// Returns [1, C, height, width] in channels-last format. The input is channels-last too; LibTorch would otherwise copy
// it with its own threads.
Tensor resized(const Pixels& pixels, int64_t channels, int64_t height, int64_t width) {
  auto* values = const_cast<uint8_t*>(pixels.values.data());
  const Tensor rows = at::from_blob(values, {1, pixels.height, pixels.width, channels}, at::TensorOptions(at::kByte));
  const Tensor image = rows.permute({0, 3, 1, 2});
  return at::_upsample_bicubic2d_aa(image, {height, width}, /*align_corners=*/false)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace

Box random_box(int64_t height, int64_t width, const std::array<double, 2>& area, Draws& draws) {
  constexpr double kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;
  const double all = static_cast<double>(height * width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted = all * draws.between(area[0], area[1]);
    const double shape = std::exp(draws.between(std::log(kNarrowest), std::log(kWidest)));
    const int64_t box_width = std::llround(std::sqrt(wanted * shape));
    const int64_t box_height = std::llround(std::sqrt(wanted / shape));
    if (box_width < 1 || box_height < 1 || box_width > width || box_height > height) continue;
    return {draws.below(height - box_height + 1), draws.below(width - box_width + 1), box_height, box_width};
  }
  Box box{0, 0, height, width};
  const double shape = static_cast<double>(width) / static_cast<double>(height);
  if (shape < kNarrowest) {
    box.height = std::clamp<int64_t>(std::llround(static_cast<double>(width) / kNarrowest), 1, height);
  } else if (shape > kWidest) {
    box.width = std::clamp<int64_t>(std::llround(static_cast<double>(height) * kWidest), 1, width);
  }
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

void resize_to_square(const Pixels& part, int64_t channels, int64_t side, uint8_t* square) {
  const Tensor whole = resized(part, channels, side, side);
  std::memcpy(square, whole.const_data_ptr<uint8_t>(), static_cast<size_t>(side * side * channels));
}

void cut_middle(const Pixels& image, int64_t channels, int64_t side, double share, uint8_t* square) {
  const auto shorter = static_cast<int64_t>(std::floor(static_cast<double>(side) / share));
  const int64_t least = std::min(image.height, image.width);
  const int64_t height = shorter * image.height / least, width = shorter * image.width / least;
  const Tensor whole = resized(image, channels, height, width);
  // Halves are rounded to even, as in Python's round().
  const auto first = [&](int64_t extent) { return std::lrint(static_cast<double>(extent - side) / 2); };
  const uint8_t* from = whole.const_data_ptr<uint8_t>() + (first(height) * width + first(width)) * channels;
  for (int64_t y = 0; y < side; ++y) {
    std::memcpy(square + y * side * channels, from + y * width * channels, static_cast<size_t>(side * channels));
  }
}

void mirror(uint8_t* square, int64_t channels, int64_t side) {
  for (int64_t y = 0; y < side; ++y, square += side * channels) {
    uint8_t* right = square + side * channels;
    for (uint8_t* left = square; left < (right -= channels); left += channels) {
      std::swap_ranges(left, left + channels, right);
    }
  }
}

}  // namespace strata::trainer
