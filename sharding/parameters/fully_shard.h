// SPDX-License-Identifier: MIT
// The decorator that drives a parameter group around one layer: in full while it computes, reduced when its gradients
// are there.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "sharding/parameters/sharded_parameter_group.h"

namespace strata::sharding {

// The layers of a model in the order in which they run, each with its group.
class ShardedLayers {
 public:
  struct Options {
    bool reshard_after_forward = true;
    int64_t prefetch = 1;  // groups gathered ahead, in forward and in backward
  };
  ShardedLayers(std::vector<ShardedParameterGroup*> groups, Options options)
      : groups_(std::move(groups)), options_(options) {}

  // Runs layer `index`: tensors in, tensors out; undefined ones pass through. Not inside of what a backward computes
  // again: that is a layer's own matter.
  // Forward: wait for its parameters, start gathering the next, run, reshard. Backward: the same from the last to the
  // first, then start reducing. The two hooks are identity autograd nodes behind and in front of the layer.
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  std::vector<Tensor> run(size_t index, const std::vector<Tensor>& inputs, const Function& layer);

  void set_last_micro_batch(bool last) { last_micro_batch_ = last; }

  // Starts gathering the first layer, before anything runs.
  void start_forward();

  // After backward(): a layer whose inputs need no gradient never told that it was done. Does for every group, last to
  // first, what was not done. After the last micro-batch it also waits for all gradients.
  void finish_backward();

 private:
  void before_backward(size_t index);
  void after_backward(size_t index);

  std::vector<ShardedParameterGroup*> groups_;
  std::vector<bool> reduced_ = std::vector<bool>(groups_.size());  // in this micro-batch
  Options options_;
  bool last_micro_batch_ = true;
};

}  // namespace strata::sharding
