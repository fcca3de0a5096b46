// SPDX-License-Identifier: MIT
// Mixes pairs of images by mixup (Zhang et al., 2018) and cutmix (Yun et al., 2019), with the same parameters for a
// whole step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::trainer {

using at::Tensor;

// The first image has weight `share` and the second 1 - `share`. Without a box, the weights apply to every pixel. With
// a box, the second image fills the box and the first the rest. The labels have the same weights.
struct ImageMix {
  double share = 1;
  int64_t top = 0, left = 0, height = 0, width = 0;  // height 0 means no box
};

// Draws a mix that depends on `key` only. The share of mixup is drawn from Beta(mixup, mixup). The share of cutmix is
// drawn from Beta(cutmix, cutmix) and determines a box within size x size pixels. If both are above 0, each is used
// half of the time; if both are 0, nothing is mixed.
ImageMix draw_image_mix(double mixup, double cutmix, uint64_t key, int64_t size);

// Returns the weight of the first image in each pixel, fp32 [size, size]. Its mean is the weight of the first label.
Tensor share_of_pixels(const ImageMix& mix, int64_t size);

// Swaps rows 2 i and 2 i + 1, which are mixed with each other. Requires an even number of rows.
Tensor swapped_in_pairs(const Tensor& rows);

// Mixes images fp32 [B, C, H, W] with share fp32 [H, W], on any device.
Tensor mixed(const Tensor& images, const Tensor& share);

}  // namespace strata::trainer
