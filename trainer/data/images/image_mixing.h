// SPDX-License-Identifier: MIT
// Two images made one: mixup (Zhang et al., 2018) and cutmix (Yun et al., 2019), in the same way for a whole step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::trainer {

using at::Tensor;

// The first image counts `share` and the second the rest: everywhere, or, with a box, the second stands in the box and
// the first around it. So do their labels.
struct ImageMix {
  double share = 1;
  int64_t top = 0, left = 0, height = 0, width = 0;  // height 0: no box
};

// A function of `key` alone. The share of mixup is drawn from Beta(mixup, mixup); that of cutmix from Beta(cutmix,
// cutmix), and then is that of a box inside of size x size pixels. Where both are above 0, each is taken half of the
// times; where both are 0, nothing is mixed.
ImageMix draw_image_mix(double mixup, double cutmix, uint64_t key, int64_t size);

// fp32 [size, size]: how much the first image counts in each pixel. The mean is how much its label counts.
Tensor share_of_pixels(const ImageMix& mix, int64_t size);

// Rows 2 i and 2 i + 1 in each other's place: who is mixed with whom. Requires an even number of rows.
Tensor swapped_in_pairs(const Tensor& rows);

// images fp32 [B, C, H, W], share fp32 [H, W], on any device -> what is seen.
Tensor mixed(const Tensor& images, const Tensor& share);

}  // namespace strata::trainer
