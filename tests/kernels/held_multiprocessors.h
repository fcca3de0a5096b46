// SPDX-License-Identifier: MIT
// HeldMultiprocessors: sleeping blocks that fill multiprocessors of the GPU, as the kernels of a collective do.
#pragma once

#include <cuda_runtime_api.h>

namespace strata::kernels {

class HeldMultiprocessors {
 public:
  // Returns when `count` blocks sleep on the current device, on a stream of their own. Each has all of the shared
  // memory of its multiprocessor. Throws a std::runtime_error if they do not start within 10 seconds.
  explicit HeldMultiprocessors(int count);
  ~HeldMultiprocessors();
  HeldMultiprocessors(const HeldMultiprocessors&) = delete;
  HeldMultiprocessors& operator=(const HeldMultiprocessors&) = delete;

  // True until the blocks end, which they do by themselves after 20 seconds.
  bool hold() const;

 private:
  struct Flags;
  Flags* flags_ = nullptr;  // memory of the host that the GPU reads and writes
  cudaStream_t stream_ = nullptr;
  int count_;
};

}  // namespace strata::kernels
