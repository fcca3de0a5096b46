// SPDX-License-Identifier: MIT
// The scale of a weight as ranks find it from their parts (trainer/model/weight_scales.cc).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <limits>
#include <numeric>
#include <vector>

#include "kernels/quantize/fp8_shard.h"
#include "kernels/quantize/largest_magnitudes.h"

namespace strata::kernels {

// parts: one-dimensional tensors of one type and device, at least one -> fp32 [parts]
inline at::Tensor largest_of_parts(const std::vector<at::Tensor>& parts) {
  const at::Tensor largest = at::empty({static_cast<int64_t>(parts.size())}, parts[0].options().dtype(at::kFloat));
  std::vector<int64_t> places(parts.size());
  std::iota(places.begin(), places.end(), 0);
  find_largest_magnitudes(parts, places, largest);
  return largest;
}

// parts: as above -> the scale, fp32 [1]. A NaN counts as infinite.
inline at::Tensor scale_of_parts(const std::vector<at::Tensor>& parts) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return scales_of_weights(largest_of_parts(parts).nan_to_num_(kInfinity, kInfinity).amax().view({1}));
}

}  // namespace strata::kernels
