// SPDX-License-Identifier: MIT
// find_largest_magnitudes: the largest magnitudes of many tensors at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace strata::kernels {

using at::Tensor;

// largest[places[i]] <- the largest |parts[i]|, and 0 in all other places; NaN if the part has a NaN. Parts are fp32,
// bf16 or fp16, each of its own type, contiguous and not empty; largest is fp32 [n]. No place comes twice. On a Hopper
// GPU, parts that begin at 16-byte boundaries are read by one kernel for each 64 of them, and for each type that
// follows another. It allocates nothing, so a captured step can have it. Throws a ValueError if `largest`, or the
// number of places, does not match.
void find_largest_magnitudes(const std::vector<Tensor>& parts, const std::vector<int64_t>& places,
                             const Tensor& largest);

}  // namespace strata::kernels
