// SPDX-License-Identifier: MIT
// The kernel of fp8_operand that finds the largest number of a matrix, block by block. With a history of a delayed
// scale it ends at once.
#include <algorithm>

#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/cuda/multiprocessors.h"
#include "kernels/quantize/fp8_amax.cuh"

namespace strata::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 2 : 4)
    amax_kernel(Fp8Cast cast, unsigned tiles, unsigned tiles_in_row) {
  wait_for_kernel_before();
  if (has_history(cast)) return;
  const Place place;
  Amax<T> amax;
  for (unsigned index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile tile(index, tiles_in_row);
    see(amax,
        Patch<T>(cast, tile.row + place.row, tile.column + place.column, [](const uint4* vector) { return *vector; }));
  }
  amax.store(cast.amax);
}

}  // namespace

cudaError_t launch_fp8_amax(const Fp8Cast& cast, cudaStream_t stream) {
  return visit_tiles(cast, [&](unsigned tiles, unsigned tiles_in_row) {
    // With a delayed scale it has work in the first steps only, and fewer blocks end sooner.
    const int most_blocks = std::min(multiprocessors() * (cast.past == nullptr ? 4 : 1), kAmaxPartials);
    const unsigned blocks = std::min(tiles, static_cast<unsigned>(most_blocks));
    return visit_type(cast.type, [&]<class T>(T) {
      return launch_overlapped(amax_kernel<T>, blocks, kThreads, 0, stream, cast, tiles, tiles_in_row);
    });
  });
}

}  // namespace strata::kernels
