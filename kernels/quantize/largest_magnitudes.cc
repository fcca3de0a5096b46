// SPDX-License-Identifier: MIT
#include "kernels/quantize/largest_magnitudes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_norm.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/launch.h"
#include "kernels/quantize/largest_magnitudes_cuda.h"

namespace strata::kernels {
namespace {

bool is_aligned(const Tensor& part) { return reinterpret_cast<uintptr_t>(part.const_data_ptr()) % 16 == 0; }

// A launch reads parts of one type, so only consecutive parts of the same type share a launch.
void find_by_kernel(const std::vector<Tensor>& parts, const std::vector<int64_t>& places, const Tensor& largest) {
  for (size_t i = 0; i < parts.size();) {
    const Tensor& first = parts[i];
    PartsOfTensors chunk;
    for (; i < parts.size() && chunk.count < PartsOfTensors::kMost && parts[i].scalar_type() == first.scalar_type();
         ++i, ++chunk.count) {
      chunk.x[chunk.count] = parts[i].const_data_ptr();
      chunk.elements[chunk.count] = parts[i].numel();
      chunk.largest[chunk.count] = largest.mutable_data_ptr<float>() + places[i];
    }
    launch("largest_magnitudes", largest, chunk.count, chunk.elements[0], [&](cudaStream_t stream) {
      return launch_largest_magnitudes(cuda_type("largest_magnitudes", "parts", first), chunk, stream);
    });
  }
}

}  // namespace

void find_largest_magnitudes(const std::vector<Tensor>& parts, const std::vector<int64_t>& places,
                             const Tensor& largest) {
  TORCH_CHECK_VALUE(largest.dim() == 1 && largest.scalar_type() == at::kFloat && largest.is_contiguous(),
                    "find_largest_magnitudes: largest is ", largest.scalar_type(), " ", largest.sizes(),
                    ", expected Float [n], contiguous");
  TORCH_CHECK_VALUE(parts.size() == places.size(), "find_largest_magnitudes: there are ", places.size(),
                    " places, expected ", parts.size(), ", one for each part");
  const at::NoGradGuard no_gradients;
  largest.zero_();
  if (parts.empty()) return;
  if (is_on_hopper(largest) && std::all_of(parts.begin(), parts.end(), is_aligned)) {
    return find_by_kernel(parts, places, largest);
  }
  std::vector<Tensor> numbers;
  for (const int64_t place : places) numbers.push_back(largest.select(0, place));
  at::_foreach_copy_(numbers, at::_foreach_norm(parts, std::numeric_limits<double>::infinity(), at::kFloat));
}

}  // namespace strata::kernels
