// SPDX-License-Identifier: MIT
// waves_for: how many waves of blocks share the rows of a kernel that has one block per multiprocessor.
#pragma once

namespace strata::kernels {

// While another kernel holds some multiprocessors, as those of NCCL do, as many blocks begin only when others end. With
// one wave of blocks, each with a fixed share of the rows, the kernel then takes at most twice as long. A wave has half
// the rows of the wave before, so two waves take at most 4/3 as long and three 8/7. These are bounds by arithmetic, for
// blocks that are not faster when fewer of them share the memory. Measured on an H100 with 1 or 8 held multiprocessors:
// one wave takes 1.22 to 1.58 times as long, two 1.00 to 1.18, three 1.00 to 1.05 (Nov 25, docs/performance.md).
// A multiprocessor moves nothing for some microseconds between two blocks: until its shared memory is free and the
// first rows of the next block have come. So only kernels that take at least about 60 us (240 us for a third wave) have
// more waves than one.
// The number depends on sizes alone, because partial sums belong to blocks.
inline int waves_for(double bytes) {
  constexpr double kTwoWaves = double(1 << 28), kThreeWaves = double(1 << 30);  // bytes read and written
  return bytes < kTwoWaves ? 1 : bytes < kThreeWaves ? 2 : 3;
}

}  // namespace strata::kernels
