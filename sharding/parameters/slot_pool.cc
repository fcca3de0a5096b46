// SPDX-License-Identifier: MIT
#include "sharding/parameters/slot_pool.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

namespace strata::sharding {

SlotPool::SlotPool(int64_t slots, int64_t elements, at::TensorOptions options, bool poison)
    : SlotPool(
          slots, [&] { return at::zeros({elements}, options); }, poison) {}

SlotPool::SlotPool(int64_t slots, const std::function<Tensor()>& make, bool poison) : poison_(poison) {
  // `make` returns memory that was already written, so that a training step does not pay for its first touch.
  for (int64_t i = 0; i < slots; ++i) {
    slots_.push_back(make());
    used_.push_back(true);
    release(i);
  }
}

int64_t SlotPool::take() {
  auto free = std::find(used_.begin(), used_.end(), false);
  if (free == used_.end() && !pending_releases_.empty()) {
    finish_oldest();
    free = std::find(used_.begin(), used_.end(), false);
  }
  TORCH_CHECK(free != used_.end(), "slot pool: all ", slots_.size(), " slots are in use");
  *free = true;
  return free - used_.begin();
}

void SlotPool::release(int64_t slot) {
  if (poison_) slots_[static_cast<size_t>(slot)].fill_(std::numeric_limits<double>::quiet_NaN());
  used_[static_cast<size_t>(slot)] = false;
}

void SlotPool::release_after(int64_t slot, std::function<void()> finish) {
  pending_releases_.push_back({slot, std::move(finish)});
}

void SlotPool::finish_oldest() {
  const PendingRelease oldest = std::move(pending_releases_.front());
  pending_releases_.pop_front();
  oldest.finish();
  release(oldest.slot);
}

void SlotPool::finish_all() {
  while (!pending_releases_.empty()) finish_oldest();
}

int64_t SlotPool::bytes() const {
  int64_t sum = 0;
  for (const Tensor& slot : slots_) sum += static_cast<int64_t>(slot.nbytes());
  return sum;
}

}  // namespace strata::sharding
