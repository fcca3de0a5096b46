// SPDX-License-Identifier: MIT
// Reads the memory that a run has needed so far on the device where it computes.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "sharding/communication/window_memory.h"

namespace strata::trainer {

// Memory of a GPU, in bytes.
struct DeviceMemory {
  int64_t total = 0;      // all memory of the GPU
  int64_t allocated = 0;  // the peak in tensors so far, windows of the communication included
  int64_t reserved = 0;   // the peak that this process held for tensors, windows included
};

inline DeviceMemory device_memory(c10::Device device) {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  const int64_t windows = sharding::window_memory();
  return {static_cast<int64_t>(total), stats.allocated_bytes[kAll].peak + windows,
          stats.reserved_bytes[kAll].peak + windows};
}

// Calls of cudaMalloc so far; 0 on CPUs.
inline int64_t device_allocations(c10::Device device) {
  return device.is_cpu() ? 0 : c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).num_device_alloc;
}

// Resident set of this process, in bytes (/proc/self/statm).
inline int64_t resident_bytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// GPUs: the most that tensors have taken at once, windows of the communication included, in bytes. CPUs: the resident
// set now.
inline int64_t memory_bytes(c10::Device device) {
  if (device.is_cpu()) return resident_bytes();
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).allocated_bytes[kAll].peak +
         sharding::window_memory();
}

}  // namespace strata::trainer
