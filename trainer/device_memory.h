// SPDX-License-Identifier: MIT
// How much memory a run has needed so far, where it computes.
#pragma once

#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>

#include "trainer/resident_memory.h"

namespace strata::trainer {

// GPUs: the most that tensors have taken at once, in bytes. CPUs: the resident set now.
inline int64_t memory_bytes(c10::Device device) {
  if (device.is_cpu()) return resident_bytes();
  using namespace c10::CachingAllocator;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return stats.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].peak;
}

}  // namespace strata::trainer
