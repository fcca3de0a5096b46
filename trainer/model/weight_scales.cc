// SPDX-License-Identifier: MIT
#include "trainer/model/weight_scales.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "kernels/quantize/fp8_shard.h"
#include "kernels/quantize/largest_magnitudes.h"

namespace strata::trainer {

WeightScales::WeightScales(int64_t weights, sharding::Communicator& shard_group, at::Device device)
    : shard_group_(shard_group) {
  const auto options = at::dtype(at::kFloat).device(device);
  largest_ = at::zeros({weights}, options);
  scales_ = at::zeros({weights, sharding::kScaleStride}, options);
}

Tensor WeightScales::take(int64_t weights) {
  taken_ += weights;
  return scales_.narrow(0, taken_ - weights, weights);
}

void WeightScales::watch(const sharding::ShardedParameterGroup& group) {
  group.for_each_coded_piece([&](const Tensor& values, int64_t place) {
    shards_.push_back(values);
    places_.push_back(watched_ + place);
  });
  watched_ = taken_;
}

void WeightScales::update() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const at::NoGradGuard no_gradients;
  kernels::find_largest_magnitudes(shards_, places_, largest_);
  // A maximum of ranks may lose a NaN. An infinity makes the scale NaN too.
  largest_.masked_fill_(largest_.ne(largest_), kInfinity);
  shard_group_.all_reduce_max(largest_, "scales of weights").wait();
  scales_.select(/*dim=*/1, 0).copy_(kernels::scales_of_weights(largest_));
}

}  // namespace strata::trainer
