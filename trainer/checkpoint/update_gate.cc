// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/update_gate.h"

namespace strata::trainer {

UpdateGate::UpdateGate(c10::Device device) : device_(device) {
  if (device_.is_cuda()) readers_.record(c10::cuda::getCurrentCUDAStream(device_.index()));
}

void UpdateGate::close_until_done(const c10::cuda::CUDAStream& readers) { readers_.record(readers); }

void UpdateGate::wait_until_open() {
  if (device_.is_cuda()) readers_.block(c10::cuda::getCurrentCUDAStream(device_.index()));
}

}  // namespace strata::trainer
