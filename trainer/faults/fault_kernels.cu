// SPDX-License-Identifier: MIT
#include "trainer/faults/fault_kernels.h"

namespace strata::trainer {
namespace {

__global__ void endless_kernel() {
  for (;;) __nanosleep(1'000'000);
}

__global__ void wait_kernel(const volatile float* goes_on) {
  while (*goes_on != 1) __nanosleep(1'000'000);
}

// The address is an argument, because a compiler may leave out what it knows to be invalid.
__global__ void invalid_write_kernel(volatile int* address) { *address = 1; }

}  // namespace

cudaError_t launch_endless_kernel(cudaStream_t stream) {
  endless_kernel<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

cudaError_t launch_wait(const float* goes_on, cudaStream_t stream) {
  wait_kernel<<<1, 1, 0, stream>>>(goes_on);
  return cudaGetLastError();
}

cudaError_t launch_invalid_write(cudaStream_t stream) {
  invalid_write_kernel<<<1, 1, 0, stream>>>(nullptr);
  return cudaGetLastError();
}

}  // namespace strata::trainer
