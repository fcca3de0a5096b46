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

  // From now on, wait_until_open() waits for the work that is queued on `readers` now.
  void close_until_done(const c10::cuda::CUDAStream& readers);

  // The current stream waits, and the host does not. If the stream is captured, each replay waits for the readers of
  // the last close_until_done() before that replay.
  void wait_until_open();

 private:
  const c10::Device device_;
  // The event is external: in a capture, the wait for it becomes a node of the graph. Waiting for another event of a
  // stream outside of the capture would be an error.
  c10::cuda::CUDAEvent readers_{cudaEventDisableTiming | cudaEventExternal};
};

}  // namespace strata::trainer
