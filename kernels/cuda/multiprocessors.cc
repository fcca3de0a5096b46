// SPDX-License-Identifier: MIT
#include "kernels/cuda/multiprocessors.h"

namespace strata::kernels {
namespace {

constexpr int kOfHopper = 132;

std::atomic<int> chosen = 0;

cudaError_t ask_for_multiprocessors(int device, int& count) {
  return cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
}

}  // namespace

void set_multiprocessors(int count) { chosen.store(count, std::memory_order_relaxed); }

int multiprocessors() {
  static NumberOfGpu gpu_multiprocessors;
  const int set = chosen.load(std::memory_order_relaxed);
  if (set != 0) return set;
  int count = 0;
  if (gpu_multiprocessors.find(count, ask_for_multiprocessors) == cudaSuccess) return count;
  cudaGetLastError();  // or the next check of a launch would find the error
  return kOfHopper;
}

}  // namespace strata::kernels
