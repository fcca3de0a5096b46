// SPDX-License-Identifier: MIT
// Selects a part of an image and resizes it to the square that a model takes.
#pragma once

#include <array>
#include <cstdint>

#include "base/draws.h"
#include "trainer/data/images/decode_image.h"

namespace strata::trainer {

// Chooses a box as torchvision's RandomResizedCrop does: its share of the area is between `area[0]` and `area[1]`, and
// its aspect ratio is between 3 : 4 and 4 : 3. If ten random boxes do not fit, it is the middle of the image.
Box random_box(int64_t height, int64_t width, const std::array<double, 2>& area, Draws& draws);

// Both functions write uint8 [side, side, channels]. They resize with antialiased bicubic interpolation as PIL does,
// using LibTorch, which has vectorized code for this memory layout.

// Resizes all of `part` to the square without keeping its aspect ratio.
void resize_to_square(const Pixels& part, int64_t channels, int64_t side, uint8_t* square);

// Resizes the shorter side of the image to side / share and crops a square of `side` from the middle, as timm does with
// crop_pct.
void cut_middle(const Pixels& image, int64_t channels, int64_t side, double share, uint8_t* square);

void mirror(uint8_t* square, int64_t channels, int64_t side);

}  // namespace strata::trainer
