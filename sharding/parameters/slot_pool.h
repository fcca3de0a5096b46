// SPDX-License-Identifier: MIT
// A pool of buffers for the full parameters, or full gradients, of one group after another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace strata::sharding {

using at::Tensor;

// The buffers are allocated once, so that memory use is constant and addresses repeat in every step, as CUDA graphs
// need.
class SlotPool {
 public:
  // Allocates `slots` buffers of `elements` each. With `poison`, released slots are filled with NaN, so that a read
  // after release shows.
  SlotPool(int64_t slots, int64_t elements, at::TensorOptions options, bool poison = false);
  // Takes the memory from `make`, which is called once per buffer.
  SlotPool(int64_t slots, const std::function<Tensor()>& make, bool poison);

  // Returns the lowest free slot. If none is free but some wait for a collective, finishes the oldest of these. Throws
  // if every slot is in use: more layers need slots at the same time than the pool was made for.
  int64_t take();
  void release(int64_t slot);
  // Releases the slot after `finish` was called. This happens at the next take() that needs the slot, or in
  // finish_all().
  void release_after(int64_t slot, std::function<void()> finish);
  void finish_all();

  const Tensor& buffer(int64_t slot) const { return slots_[static_cast<size_t>(slot)]; }
  int64_t bytes() const;

 private:
  struct PendingRelease {
    int64_t slot;
    std::function<void()> finish;
  };
  void finish_oldest();

  std::vector<Tensor> slots_;
  std::vector<bool> used_;
  std::deque<PendingRelease> pending_releases_;
  bool poison_;
};

}  // namespace strata::sharding
