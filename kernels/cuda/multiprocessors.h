// SPDX-License-Identifier: MIT
// How many multiprocessors the current GPU has. Grids of kernels whose blocks stay until the work is done, and their
// workspaces, have sizes that depend on it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>

namespace strata::kernels {

// The number of multiprocessors of the current GPU, or the one that set_multiprocessors() has set. Where there is no
// GPU, it is the number of an H100 or H200, 132: memory of a run on GPUs is predicted on machines without one.
// Thread-safe.
int multiprocessors();

// From now on multiprocessors() returns `count`, on every GPU. 0: what the GPU has. No op may run meanwhile.
void set_multiprocessors(int count);

// A fact about each GPU of a process that is asked for once, because a step may not wait for the driver. 0 stands for
// a number that is not known yet.
class NumberOfGpu {
 public:
  // Sets `number` to what ask(device, number) sets it to for the current GPU. Returns the status of a failed call.
  template <class Ask>
  cudaError_t find(int& number, Ask ask) {
    int device = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status != cudaSuccess) return status;
    std::atomic<int>* const known = device < kMostGpus ? &known_[static_cast<size_t>(device)] : nullptr;
    number = known == nullptr ? 0 : known->load(std::memory_order_relaxed);
    if (number != 0) return cudaSuccess;
    status = ask(device, number);
    if (status == cudaSuccess && known != nullptr) known->store(number, std::memory_order_relaxed);
    return status;
  }

 private:
  static constexpr int kMostGpus = 64;  // later GPUs are asked in each call
  std::array<std::atomic<int>, kMostGpus> known_ = {};
};

}  // namespace strata::kernels
