// SPDX-License-Identifier: MIT
// The few buffers that hold full parameters, or full gradients, of one group after another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace strata::sharding {

using at::Tensor;

// Allocated once: memory is constant and addresses repeat from step to step, which is what a captured step needs.
class SlotPool {
 public:
  // `slots` buffers of `elements`. With `poison`, released slots are filled with NaN: whoever reads one is found out.
  SlotPool(int64_t slots, int64_t elements, at::TensorOptions options, bool poison = false);
  // In memory that `make` gives, a buffer a call.
  SlotPool(int64_t slots, const std::function<Tensor()>& make, bool poison);

  // The lowest free slot. If none is free but some wait for a collective to leave them, finishes the first of these.
  // Throws when every slot is in use: the plan asks for more layers at once than the pool was made for.
  int64_t take();
  void release(int64_t slot);
  // Releases the slot as soon as `finish` was called, which happens at the next take() that needs it or in
  // finish_all().
  void release_after(int64_t slot, std::function<void()> finish);
  void finish_all();

  const Tensor& buffer(int64_t slot) const { return slots_[static_cast<size_t>(slot)]; }
  int64_t bytes() const;

 private:
  struct Leaving {
    int64_t slot;
    std::function<void()> finish;
  };
  void finish_oldest();

  std::vector<Tensor> slots_;
  std::vector<bool> used_;
  std::deque<Leaving> leaving_;
  bool poison_;
};

}  // namespace strata::sharding
