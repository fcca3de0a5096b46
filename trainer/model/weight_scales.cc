// SPDX-License-Identifier: MIT
#include "trainer/model/weight_scales.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "kernels/quantize/fp8_shard.h"

namespace strata::trainer {

WeightScales::WeightScales(int64_t weights, sharding::Communicator& shard_group, at::Device device)
    : shard_group_(shard_group) {
  const auto options = at::dtype(at::kFloat).device(device);
  of_ranks_ = shard_group.gather_buffer(shard_group.size() * weights, options);
  own_ = of_ranks_.narrow(0, shard_group.rank() * weights, weights);
  scales_ = at::zeros({weights, sharding::kScaleStride}, options);
  zero_ = at::zeros({}, options);
}

Tensor WeightScales::take(int64_t weights) {
  taken_ += weights;
  return scales_.narrow(0, taken_ - weights, weights);
}

void WeightScales::watch(const sharding::ShardedParameterGroup& group) {
  group.for_each_coded_piece([&](const Tensor& values, int64_t place) {
    shards_.push_back(values);
    places_.push_back(static_cast<size_t>(watched_ + place));
  });
  watched_ = taken_;
}

// The gather has the largest magnitudes of all ranks as they are: NaN too, which a largest number of a collective may
// leave out.
void WeightScales::update() {
  const at::NoGradGuard no_gradients;
  std::vector<Tensor> magnitudes(static_cast<size_t>(scales_.size(0)), zero_);
  if (!shards_.empty()) {
    const std::vector<Tensor> found = at::_foreach_norm(shards_, std::numeric_limits<double>::infinity(), at::kFloat);
    for (size_t i = 0; i < found.size(); ++i) magnitudes[places_[i]] = found[i];
  }
  own_.copy_(at::stack(magnitudes));
  shard_group_.all_gather(of_ranks_, own_, "scales of weights").wait();
  const Tensor largest = of_ranks_.view({shard_group_.size(), scales_.size(0)}).amax(0);
  scales_.select(/*dim=*/1, 0).copy_(kernels::scales_of_weights(largest));
}

}  // namespace strata::trainer
