// SPDX-License-Identifier: MIT
// Which part of an image is seen, and how it becomes the square that a model takes.
#pragma once

#include <array>
#include <cstdint>

#include "base/draws.h"
#include "trainer/data/images/decode_image.h"

namespace strata::trainer {

// torchvision's RandomResizedCrop: a box of a random share of the area, between `area[0]` and `area[1]`, and of a
// random shape between 3 : 4 and 4 : 3; where ten of them do not fit, the middle of the image.
Box random_box(int64_t height, int64_t width, const std::array<double, 2>& area, Draws& draws);

// Both write uint8 [side, side, channels], resized bicubically with antialiasing, as PIL does, by LibTorch, which has
// vector code for pixels that lie like this.

// All of `part`, whatever its shape.
void resize_to_square(const Pixels& part, int64_t channels, int64_t side, uint8_t* square);

// What is left of the middle when the shorter side of the image is resized to side / share and a square of `side` is
// cut out: timm's crop_pct.
void cut_middle(const Pixels& image, int64_t channels, int64_t side, double share, uint8_t* square);

void mirror(uint8_t* square, int64_t channels, int64_t side);

}  // namespace strata::trainer
