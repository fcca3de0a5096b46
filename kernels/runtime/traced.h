// SPDX-License-Identifier: MIT
// Tracing: tensors of device meta, which have no values, stand for tensors of a CPU or a GPU. Ops that are called with
// them allocate what they would allocate there, launch nothing, and an allocator counts the bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>

namespace strata::kernels {

using at::Tensor;

class TracedMemory;

// While it lives, meta tensors stand for tensors of `device`, and it counts those that are allocated. Only one may live
// in a process at a time. Its tensors may outlive it. All methods are thread-safe.
class Tracing {
 public:
  explicit Tracing(c10::DeviceType device);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  // The bytes of meta tensors now, and at most since the last forget_most().
  int64_t now() const;
  int64_t most() const;
  void forget_most();

  // Names what runs from now on.
  void enter(std::string place);
  // The place in which most() was reached. The reference is valid until the next allocation.
  const std::string& moment() const;

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

// While it lives, meta tensors are not counted. Those that still exist when it ends are counted then: they are the
// results of code whose temporary tensors are not known.
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
