// SPDX-License-Identifier: MIT
#include "sharding/process/gpu_event.h"

#include <c10/cuda/CUDAException.h>

namespace strata::sharding {

GpuEvent::GpuEvent() {
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync));
}

GpuEvent::~GpuEvent() { cudaEventDestroy(event_); }

void GpuEvent::record(cudaStream_t stream) { C10_CUDA_CHECK(cudaEventRecord(event_, stream)); }

void GpuEvent::block(cudaStream_t stream) const { C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0)); }

void GpuEvent::wait_on_host() const { C10_CUDA_CHECK(cudaEventSynchronize(event_)); }

}  // namespace strata::sharding
