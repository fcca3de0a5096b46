// SPDX-License-Identifier: MIT
// RowRange: the rows of one block, or of one cluster of blocks, in a grid of one or more waves.
#pragma once

#include "kernels/cuda/device_utils.cuh"

namespace strata::kernels {

// The rows begin, begin + step, ... below end. A block works on `at_once` adjacent rows at a time, and so do all blocks
// of its wave next to it. A wave has half the rows of the wave before (waves.h); blocks start in the order of their
// numbers.
struct RowRange {
  int64_t begin, end, step;

  // `blocks` is the number of blocks of all waves, `block` the number of this one.
  __device__ RowRange(int64_t rows, int at_once, int blocks, int block, int waves) {
    const int wave_blocks = waves == 1 ? blocks : blocks / waves;
    begin = static_cast<int64_t>(block) * at_once;
    end = rows;
    step = static_cast<int64_t>(wave_blocks) * at_once;
    if (waves == 1) return;
    const int wave = block / wave_blocks;
    const int64_t rounds = (rows + step - 1) / step, first = first_round(rounds, waves, wave);
    begin += (first - wave) * step;
    end = min(rows, first_round(rounds, waves, wave + 1) * step);
  }

 private:
  // In a round each block of a wave works once.
  __device__ static int64_t first_round(int64_t rounds, int waves, int wave) {
    const int64_t parts = (1 << waves) - 1, before = (1 << waves) - (1 << (waves - wave));
    return rounds * before / parts;
  }
};

}  // namespace strata::kernels
