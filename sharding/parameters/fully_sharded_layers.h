// SPDX-License-Identifier: MIT
// Wraps the layers of a model: gathers a layer's parameters before it computes and reduces its gradients after its
// backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "sharding/parameters/sharded_parameter_group.h"

namespace strata::sharding {

// The layers of a model in the order in which they run, each with its parameter group.
class FullyShardedLayers {
 public:
  struct Options {
    bool reshard_after_forward = true;
    int64_t prefetch = 1;  // groups that are gathered ahead, in forward and in backward
  };
  FullyShardedLayers(std::vector<ShardedParameterGroup*> groups, Options options)
      : groups_(std::move(groups)), options_(options) {}

  // Runs layer `index` on tensors, of which undefined ones are passed on as they are. Do not call this inside
  // activation checkpointing; recomputation must happen inside `layer`.
  //
  // In the forward it waits for the layer's parameters, starts to gather the next ones, runs the layer, and reshards.
  // The backward visits the layers from the last to the first. After each layer it reshards the parameters and starts
  // to reduce that layer's gradients. Its two hooks are identity autograd nodes before and after the layer.
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  std::vector<Tensor> run(size_t index, const std::vector<Tensor>& inputs, const Function& layer);

  void set_last_micro_batch(bool last) { last_micro_batch_ = last; }

  // Starts to gather the first layer's parameters; call it before the forward.
  void start_forward();

  // Call this after each backward(). If no input of a layer requires a gradient, its hook never runs; this reshards and
  // reduces such layers, from the last to the first. After the last micro-batch it also waits for all gradients.
  void finish_backward();

 private:
  void before_backward(size_t index);
  void after_backward(size_t index);

  std::vector<ShardedParameterGroup*> groups_;
  std::vector<bool> reduce_started_ = std::vector<bool>(groups_.size());  // in this micro-batch
  Options options_;
  bool last_micro_batch_ = true;
};

}  // namespace strata::sharding
