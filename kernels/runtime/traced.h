// SPDX-License-Identifier: MIT
// Tracing: tensors of device meta, which have no values, stand for tensors of a CPU or a GPU. Ops that are called with
// them allocate what they would allocate there, launch nothing, and an allocator counts the bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace strata::kernels {

using at::Tensor;

class TracedMemory;

// Memory that was allocated while a Tracing recorded. Allocations and frees are events, which are counted from 0.
struct TracedBlock {
  int64_t bytes = 0;       // negative: memory from before was freed at `begin`
  int64_t begin = 0;       // the event
  int64_t end = -1;        // the event that freed it; -1: none
  std::string place = {};  // what ran as it was allocated, see Tracing::set_place
  std::string op = {};     // see Tracing::set_op
};

// The most bytes that a Tracing counts at once, so that sums of bytes fit in 64 bits. No device has as many.
inline constexpr int64_t kMostTracedBytes = int64_t{1} << 60;

// True if an op failed because a tensor, or all of them, would have more bytes or elements than can be counted.
bool is_too_large_to_trace(const std::exception& error);

// While it lives, meta tensors stand for tensors of `device`, and it counts those that are allocated. Only one may live
// in a process at a time. Its tensors may outlive it. All methods are thread-safe.
class Tracing {
 public:
  explicit Tracing(c10::DeviceType device);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  // The bytes of meta tensors now, and the largest number of them since the last reset_peak().
  int64_t current_bytes() const;
  int64_t peak_bytes() const;
  void reset_peak();

  // Names what runs from now on.
  void set_place(std::string place);
  // Names the op that runs from now on; empty: none. Only recorded blocks have it.
  void set_op(std::string op);

  // Records blocks from now on. What was recorded before is forgotten.
  void record();
  // Returns the blocks in the order of their events, and ends the recording. Their bytes add up to current_bytes() at
  // any event, less current_bytes() at record().
  std::vector<TracedBlock> take_recorded();

  // The place in which peak_bytes() was reached. The reference is valid until the next allocation.
  const std::string& peak_place() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// True if a Tracing lives.
bool is_tracing();

// Returns `device`, or the device that meta stands for while a Tracing lives.
c10::DeviceType traced_device(c10::DeviceType device);

// is_cpu() and is_cuda(), or what they would be for the tensor that a meta tensor stands for.
inline bool on_cpu(const Tensor& tensor) { return traced_device(tensor.device().type()) == c10::kCPU; }
inline bool on_gpu(const Tensor& tensor) { return traced_device(tensor.device().type()) == c10::kCUDA; }

// Counts memory that a library allocates and frees within one call. Does nothing unless a Tracing lives.
void traced_workspace(int64_t bytes);

// While it lives, new meta tensors are not counted. When it ends, the new tensors that still exist are counted: they
// are the results of code whose temporary tensors are not known.
class ResultsOnly {
 public:
  ResultsOnly();
  ~ResultsOnly();
  ResultsOnly(const ResultsOnly&) = delete;
  ResultsOnly& operator=(const ResultsOnly&) = delete;

 private:
  std::shared_ptr<TracedMemory> memory_;  // null unless a Tracing lives
};

// Adds kernels for meta tensors to the ATen operators that have none and that ops call. Tracing calls it once.
void add_meta_kernels();

}  // namespace strata::kernels
