// SPDX-License-Identifier: MIT
// Holds back the update of the weights, on the GPU, while a save still copies them.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

namespace strata::trainer {

// On CPUs it is always open.
class UpdateGate {
 public:
  explicit UpdateGate(c10::Device device);

  // pass() waits from here on for what `readers` has to do now.
  void close_until_done(const c10::cuda::CUDAStream& readers);

  // The current stream waits, and the host does not. If the stream is captured, each replay waits for the readers that
  // were given last before it.
  void pass();

 private:
  const c10::Device device_;
  // As the event is external, its wait is a node of a captured step, and does not lead out of the capture.
  c10::cuda::CUDAEvent readers_{cudaEventDisableTiming | cudaEventExternal};
};

}  // namespace strata::trainer
