// SPDX-License-Identifier: MIT
// WorkCounter: the blocks of one launch take the numbers of their tiles from a counter in global memory. If another
// kernel holds a multiprocessor, a block starts late, finds no numbers left and exits. With a fixed share of the work,
// the launch would end when this block ends: gelu_gemm then took 1.8 times as long on an H200.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace strata::kernels {

// Each file with such kernels declares an array of kWorkCounters counters. They are 0 between launches.
inline constexpr unsigned kWorkCounters = 1 << 16;

// A launch takes a number exactly `takes` times: 0, 1, ... and so on. The first numbers are for its work. After
// them each taker gets one more, from which it learns that no work is left. The last take sets the counter to 0 again.
struct WorkCounter {
  unsigned index = 0, takes = 0;

  __device__ unsigned take(unsigned* counters) const { return atomicInc(counters + index, takes - 1); }
};

// Chooses counters, so that launches which may run at the same time have different ones.
class WorkCounters {
 public:
  static WorkCounters& instance() {
    static auto* all = new WorkCounters;
    return *all;
  }

  // Sets `index` to the counter for a launch on `stream`. Launches of a stream run one after the other and share a
  // counter, which no other stream gets later. A launch that a CUDA graph captures has its own until the graph is
  // destroyed, because the graph may run on any stream. Executable graphs of the same graph must not run at the same
  // time.
  cudaError_t find(cudaStream_t stream, unsigned& index) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph);
    if (error != cudaSuccess) return error;
    return status == cudaStreamCaptureStatusNone ? find_for_stream(stream, index) : find_for_graph(graph, index);
  }

 private:
  cudaError_t find_for_stream(cudaStream_t stream, unsigned& index) {
    unsigned long long id = 0;
    int device = 0;
    cudaError_t error = cudaStreamGetId(stream, &id);
    if (error == cudaSuccess) error = cudaGetDevice(&device);
    if (error != cudaSuccess) return error;
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = stream_counters_.try_emplace({device, id});
    if (is_new && !take_free(place->second)) {
      stream_counters_.erase(place);
      return cudaErrorMemoryAllocation;
    }
    index = place->second;
    return cudaSuccess;
  }

  cudaError_t find_for_graph(cudaGraph_t graph, unsigned& index) {
    {
      const std::lock_guard lock(mutex_);
      if (!take_free(index)) return cudaErrorMemoryAllocation;
    }
    void* const number = reinterpret_cast<void*>(static_cast<uintptr_t>(index));
    cudaUserObject_t object;
    cudaError_t error = cudaUserObjectCreate(&object, number, give_back, 1, cudaUserObjectNoDestructorSync);
    if (error != cudaSuccess) {
      give_back(number);
      return error;
    }
    error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
    if (error != cudaSuccess) cudaUserObjectRelease(object, 1);
    return error;
  }

  // The driver calls this after the last run of a destroyed graph.
  static void CUDART_CB give_back(void* number) {
    WorkCounters& all = instance();
    const std::lock_guard lock(all.mutex_);
    all.free_.push_back(static_cast<unsigned>(reinterpret_cast<uintptr_t>(number)));
  }

  bool take_free(unsigned& index) {
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
      return true;
    }
    if (first_unused_ == kWorkCounters) return false;
    index = first_unused_++;
    return true;
  }

  std::mutex mutex_;
  std::map<std::pair<int, unsigned long long>, unsigned> stream_counters_;
  std::vector<unsigned> free_;
  unsigned first_unused_ = 1;  // 0 would be a null pointer in give_back
};

}  // namespace strata::kernels
