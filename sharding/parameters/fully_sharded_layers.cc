// SPDX-License-Identifier: MIT
#include "sharding/parameters/fully_sharded_layers.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "sharding/parameters/run_in_backward.h"

namespace strata::sharding {

std::vector<Tensor> FullyShardedLayers::run(size_t index, const std::vector<Tensor>& inputs, const Function& layer) {
  ShardedParameterGroup& group = *groups_[index];
  group.start_unshard();
  const size_t prefetch_end = std::min(groups_.size(), index + 1 + static_cast<size_t>(options_.prefetch));
  for (size_t next = index + 1; next < prefetch_end; ++next) groups_[next]->start_unshard();
  group.wait_for_unshard();

  std::vector<Tensor> outputs = layer(run_in_backward(inputs, [this, index] { after_backward(index); }));
  outputs = run_in_backward(std::move(outputs), [this, index] { before_backward(index); });

  // The backward starts with the last layer, so releasing its parameters now would gather them twice.
  const bool backward_follows = c10::GradMode::is_enabled() && index + 1 == groups_.size();
  if (options_.reshard_after_forward && !backward_follows) group.reshard();
  return outputs;
}

void FullyShardedLayers::start_forward() {
  if (!groups_.empty()) groups_.front()->start_unshard();
}

void FullyShardedLayers::before_backward(size_t index) {
  groups_[index]->start_unshard();
  const size_t prefetched = std::min(index, static_cast<size_t>(options_.prefetch));
  for (size_t distance = 1; distance <= prefetched; ++distance) groups_[index - distance]->start_unshard();
  groups_[index]->wait_for_unshard();
}

void FullyShardedLayers::after_backward(size_t index) {
  groups_[index]->reshard();
  groups_[index]->start_reduce(last_micro_batch_);
  reduce_started_[index] = true;
}

void FullyShardedLayers::finish_backward() {
  for (size_t index = groups_.size(); index-- > 0;) {
    if (!reduce_started_[index]) after_backward(index);
    reduce_started_[index] = false;
  }
  if (!last_micro_batch_) return;
  for (size_t index = groups_.size(); index-- > 0;) groups_[index]->wait_for_reduce();
}

}  // namespace strata::sharding
