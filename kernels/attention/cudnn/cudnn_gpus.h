// SPDX-License-Identifier: MIT
// Calls of attention that cuDNN refuses on GPUs of other generations than Hopper. The rules stand in cudnn-frontend
// 1.32 for cuDNN 9.19. They were read in its sources (scaled_dot_product_flash_attention.h), and not tried on such a
// GPU.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/runtime/gpus.h"
#include "kernels/runtime/level.h"

namespace strata::kernels {

// The properties of a call of attention that the rules read.
struct CallOnGpu {
  bool only_on_hopper = false;  // cuDNN does not take it on any GPU
  bool has_documents = false, alibi = false, deterministic = false;
  int64_t head_width = 0;
};

// Returns "" if the level takes the call, otherwise what was expected. The level must have a kernel for the GPU.
inline std::string why_not_on_gpu(Level level, const Gpu& gpu, const CallOnGpu& call) {
  const int generation = gpu.capability / 10;
  if (level != Level::cuda || generation == kHopper.oldest / 10) return "";
  if (call.only_on_hopper) {
    return "expected a pattern and terms that cuDNN takes on this " + gpu.name +
           ", because other kernels of the level run on Hopper GPUs; write attention: aten";
  }
  std::string expected;
  if (call.head_width > 128) expected = "heads of at most 128";
  if (call.has_documents && (generation == 8 || generation == 12)) expected = "a pattern without documents";
  if (call.alibi && call.deterministic && generation == 10) expected = "no alibi with run.deterministic";
  if (expected.empty()) return "";
  return "expected " + expected + " on this " + gpu.name + ", for which cuDNN has no backward; write attention: aten";
}

}  // namespace strata::kernels
