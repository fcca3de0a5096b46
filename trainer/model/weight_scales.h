// SPDX-License-Identifier: MIT
// WeightScales: the scales of the weights that ranks gather as codes of 8 bits. A scale follows from the largest
// magnitude of the whole weight, so each rank finds the largest magnitude of its shard, and ranks take the maximum once
// a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sharding/communication/communicator.h"
#include "sharding/parameters/sharded_parameter_group.h"

namespace strata::trainer {

using at::Tensor;

class WeightScales {
 public:
  // The shard group must outlive this object.
  WeightScales(int64_t weights, sharding::Communicator& shard_group, at::Device device);

  // Returns fp32 [weights, kScaleStride], for the next weights that have none yet. The scale of a weight is the first
  // number of its row.
  Tensor take(int64_t weights);
  // Call it for each group that was made with scales of take(), in the same order.
  void watch(const sharding::ShardedParameterGroup& group);

  // Computes the scales of the present weights. Nothing waits on the host if the communicator does not. All sizes and
  // addresses repeat, so a captured step can have it. Collective.
  void update();

  int64_t bytes() const { return static_cast<int64_t>(largest_.nbytes() + scales_.nbytes()); }

 private:
  sharding::Communicator& shard_group_;
  Tensor largest_;  // fp32 [weights]: largest magnitudes, of the shards until ranks took the maximum
  Tensor scales_;   // fp32 [weights, kScaleStride]
  int64_t taken_ = 0, watched_ = 0;
  std::vector<Tensor> shards_;   // this rank's pieces of the weights
  std::vector<int64_t> places_;  // for each piece: the place of its weight in largest_
};

}  // namespace strata::trainer
